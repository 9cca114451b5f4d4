"""Codex: one TOML file for each role, with its sandbox as its mode."""

from pathlib import PurePath
from typing import Any, cast

from gencode.agents.dialect import COMMON, Dialect, Near, ParsedFile, field_names
from gencode.agents.tool_lists import switch
from gencode.core.rules import Mode
from gencode.core.structs import replace
from gencode.permissions.project_files import LARGEST_KEPT

CODEX_MODES = {
    "readonly": Mode.PLAN,
    "workspacewrite": Mode.ACCEPT_EDITS,
    "dangerfullaccess": Mode.DONT_ASK,
}
_CONFIG = "../config.toml"
_MOST_ROLES = 500


def joined(parsed: ParsedFile, near: Near, path: PurePath) -> ParsedFile:
    """A role with the name and the description that `config.toml` beside its folder gives it."""
    lacking = [field for field in ("name", "description") if not parsed.fields.get(field)]
    content = near(_CONFIG) if lacking else None
    if content is None or len(content) > LARGEST_KEPT:
        return parsed
    name, role = _role(content, path)
    known = {"name": name, "description": role.get("description")}
    more = {field: known[field] for field in lacking if isinstance(known[field], str)}
    return replace(parsed, fields={**parsed.fields, **more}) if "description" in role else parsed


def _role(content: bytes, path: PurePath) -> tuple[str, dict[str, Any]]:
    """The role whose file this is: the settings name the file, or the role is called like it."""
    import tomllib

    try:
        agents = tomllib.loads(content.decode()).get("agents")
    except (ValueError, RecursionError):
        return path.stem, {}
    found = list(cast("dict[str, Any]", agents).items())[:_MOST_ROLES] if isinstance(agents, dict) else []
    for name, role in found:
        if isinstance(role, dict):
            given = cast("dict[str, Any]", role)
            file = given.get("config_file")
            if PurePath(file).name == path.name if isinstance(file, str) else name == path.stem:
                return name, given
    return path.stem, {}


def prepare(parsed: ParsedFile) -> ParsedFile:
    """The prompt of the role is in a field."""
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
        **field_names(
            permission_mode="sandbox_mode",
            effort="model_reasoning_effort",
            nothing="nickname_candidates",
        ),
    },
    modes=CODEX_MODES,
    joined=joined,
    prepare=prepare,
)
