"""Kimi CLI: YAML with everything below `agent`, tools with their modules, a prompt in a file beside it."""

from typing import Any, cast

from msgspec.structs import replace

from gencode.agents.dialect import COMMON, Dialect, Parsed, spelled

_USUAL = "default"
"""The agent of Kimi itself, which has all tools."""


def prepare(parsed: Parsed) -> Parsed:
    """The fields below `agent`. Of the prompt only what stands in this file is used."""
    below = parsed.fields.get("agent")
    if not isinstance(below, dict):
        return parsed
    given = cast("dict[str, Any]", below)
    fields = {name: value for name, value in given.items() if value != "" or "tools" in name}
    arguments = fields.get("system_prompt_args")
    texts = cast("dict[str, Any]", arguments).values() if isinstance(arguments, dict) else ()
    body = "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
    if "tools" in fields and "allowed_tools" in fields:
        del fields["tools"]
    if "allowed_tools" in fields:
        fields["tools"] = fields.pop("allowed_tools")
    notes = parsed.notes
    if "tools" not in fields and fields.get("extend", _USUAL) != _USUAL:
        fields["tools"] = []
        notes = (*notes, "its tools are those of a file that is not read, so it has none")
    if "system_prompt_path" in fields or "extend" in fields:
        notes = (*notes, "other files that it is based on are not read")
    return replace(parsed, fields=fields, body=body, notes=notes)


DIALECT = Dialect(
    "kimi",
    project=(".kimi/agents",),
    user=(".kimi/agents",),
    endings=(".yaml", ".yml"),
    fields={
        **COMMON,
        **spelled(
            disallowed_tools="exclude_tools",
            sends="subagents",
            nothing="system_prompt_args system_prompt_path extend version",
        ),
    },
    nameless=True,
    modules=True,
    prepare=prepare,
)
