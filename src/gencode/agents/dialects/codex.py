"""Codex: one TOML file for each role, with its sandbox as its mode."""

from typing import Any, cast

from msgspec.structs import replace

from gencode.agents.dialect import COMMON, Dialect, Parsed, spelled
from gencode.agents.entries import switch
from gencode.agents.mode_names import CODEX


def prepare(parsed: Parsed) -> Parsed:
    """What the role is told stands in a field."""
    told = parsed.fields.get("developer_instructions")
    rest = {name: value for name, value in parsed.fields.items() if name != "developer_instructions"}
    if isinstance(rest.get("tools"), dict):  # switches of features, and no list
        switches = cast("dict[str, Any]", rest.pop("tools"))
        off = [name for name, value in switches.items() if not switch(value)]
        rest.setdefault("disallowed_tools", off)
    return replace(parsed, fields=rest, body=told if isinstance(told, str) else "")


DIALECT = Dialect(
    "codex",
    project=(".codex/agents",),
    user=(".codex/agents",),
    endings=(".toml",),
    fields={
        **COMMON,
        **spelled(
            permission_mode="sandbox_mode",
            effort="model_reasoning_effort",
            nothing="nickname_candidates",
        ),
    },
    modes=CODEX,
    prepare=prepare,
)
