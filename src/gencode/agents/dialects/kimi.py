"""Kimi CLI: YAML with everything below `agent`, tools with their modules, a prompt in a file beside it.

A file may extend another one, whose fields apply where it has none of its own. Only files in its own folder
and below are read.
"""

import posixpath
import re
from pathlib import PurePath
from typing import Any, cast

from gencode.agents.dialect import COMMON, Dialect, Near, ParsedFile, field_names
from gencode.agents.file_errors import recovered
from gencode.agents.tool_lists import listed
from gencode.agents.yaml_reader import DEEPEST_FILE, NotYaml, yaml_fields
from gencode.core.errors import UserMistake
from gencode.core.structs import replace

_USUAL = "default"
"""The agent of Kimi itself, which has all tools."""
_OWN = ("name", "description", "when_to_use", "extend")
"""What a file never takes from the one it extends."""
_ARGUMENTS, _PROMPT = "system_prompt_args", "system_prompt_path"
_MOST_BASES = 8
_PLACE = re.compile(r"\$\{(\w+)\}")


def joined(parsed: ParsedFile, near: Near, _path: PurePath) -> ParsedFile:
    """A file with those it extends, and with the text of its prompt."""
    below = parsed.fields.get("agent")
    if not isinstance(below, dict):
        return parsed
    merged = dict(cast("dict[str, Any]", below))
    folder = ""
    for _ in range(_MOST_BASES):
        base = merged.get("extend")
        if not isinstance(base, str) or base == _USUAL:
            break
        path = _inside(folder, base)
        theirs = _fields(near(path), path) if path else None
        if theirs is None:
            break
        if _PROMPT not in merged and _PROMPT in theirs:
            theirs[_PROMPT] = posixpath.join(posixpath.dirname(path), str(theirs[_PROMPT]))
        folder = posixpath.dirname(path)
        merged = _over(theirs, merged)
    path = _inside("", str(merged.get(_PROMPT) or ""))
    text = near(path) if path else None
    body = parsed.body
    if text is not None:
        del merged[_PROMPT]
        arguments = _mapping(merged.get(_ARGUMENTS))
        body = _PLACE.sub(lambda found: str(arguments.get(found[1], "")), text.decode(errors="replace"))
    return replace(parsed, fields={**parsed.fields, "agent": merged}, body=body)


def _over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The fields of a file over those of its base. Tools are never more than either of them lets it have."""
    taken = {name: value for name, value in base.items() if name not in _OWN}
    mine = {name: value for name, value in own.items() if name != "extend"}
    merged = {
        **taken,
        **mine,
        _ARGUMENTS: {**_mapping(base.get(_ARGUMENTS)), **_mapping(own.get(_ARGUMENTS))},
    }
    if "tools" in own and "allowed_tools" in base and "allowed_tools" not in own:
        theirs = listed(base["allowed_tools"]) or []
        merged["allowed_tools"] = [each for each in listed(own["tools"]) or [] if each in theirs]
    if "extend" in base:
        merged["extend"] = base["extend"]
    return merged


def _inside(folder: str, path: str) -> str:
    """A path below the folder of the file; empty when it leads out of it."""
    plain = posixpath.normpath(posixpath.join(folder, path))
    return "" if not path or plain.startswith(("/", "..")) or plain == "." else plain


def _fields(content: bytes | None, path: str) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        text = content.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
        found = yaml_fields(text, path, deepest=DEEPEST_FILE)[0].get("agent")
    except (UnicodeDecodeError, NotYaml, UserMistake):
        return None
    return dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else None


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def prepare(parsed: ParsedFile) -> ParsedFile:
    """The fields below `agent`, after those of other files that could be read."""
    below = parsed.fields.get("agent")
    if not isinstance(below, dict):
        return parsed
    given = cast("dict[str, Any]", below)
    fields = {name: value for name, value in given.items() if value != "" or "tools" in name}
    texts = _mapping(fields.get(_ARGUMENTS)).values()
    body = parsed.body or "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
    if "tools" in fields and "allowed_tools" in fields:
        del fields["tools"]
    if "allowed_tools" in fields:
        fields["tools"] = fields.pop("allowed_tools")
    repaired = parsed.repaired
    if "tools" not in fields and fields.get("extend", _USUAL) != _USUAL:
        fields["tools"] = []
        without = "its tools are those of a file that is not read, so it has none"
        repaired = (*repaired, recovered(without))
    if _PROMPT in fields or fields.get("extend", _USUAL) != _USUAL:
        repaired = (*repaired, recovered("other files that it is based on are not read"))
    return replace(parsed, fields=fields, body=body, repaired=repaired)


DIALECT = Dialect(
    "kimi",
    project=(".kimi/agents",),
    user=(".kimi/agents",),
    endings=(".yaml", ".yml"),
    fields={
        **COMMON,
        **field_names(
            disallowed_tools="exclude_tools",
            sends="subagents",
            nothing="system_prompt_args system_prompt_path extend version",
        ),
    },
    nameless=True,
    modules=True,
    joined=joined,
    prepare=prepare,
)
