"""Codex: one TOML file for each role, with its sandbox as its mode."""

from msgspec.structs import replace

from gencode.agents.dialect import COMMON, Dialect, Parsed, spelled
from gencode.agents.mode_names import CODEX


def prepare(parsed: Parsed) -> Parsed:
    """What the role is told stands in a field."""
    told = parsed.fields.get("developer_instructions")
    rest = {name: value for name, value in parsed.fields.items() if name != "developer_instructions"}
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
