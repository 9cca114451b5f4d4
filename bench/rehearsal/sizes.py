"""The size of a request by section, and what differs between two requests."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

_HEADING = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)


def tokens(value: object) -> int:
    """About how many tokens a part of a request takes: bytes of compact JSON, or of a text, by four."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return len(text.encode()) // 4


def sections(request: Mapping[str, Any]) -> dict[str, str]:
    """A request as named texts: the system prompt by headings, each tool, each message."""
    found: dict[str, str] = {}
    for number, message in enumerate(request.get("messages", ())):
        role = str(message["role"])
        if role == "system":
            found |= {f"system: {name}": text for name, text in _headings(_text(message["content"]))}
        else:
            found[f"message {number}: {role}"] = _message(message)
    for tool in request.get("tools", ()):
        function = tool["function"]
        found[f"tool: {function['name']}"] = json.dumps(
            function, indent=1, ensure_ascii=False, sort_keys=True
        )
    return found


def of_kind(request: Mapping[str, Any]) -> dict[str, int]:
    """The tokens of the system prompt, the tools, the messages, and the whole request."""
    messages = [each for each in request.get("messages", ()) if each["role"] != "system"]
    system = [_text(each["content"]) for each in request.get("messages", ()) if each["role"] == "system"]
    return {
        "system": tokens("".join(system)),
        "tools": tokens(request.get("tools", [])),
        "messages": tokens(messages),
        "request": tokens(request),
    }


def table(request: Mapping[str, Any]) -> str:
    """The tokens of every section, and of the whole request."""
    functions = {f"tool: {each['function']['name']}": each for each in request.get("tools", ())}
    rows = [(name, tokens(functions.get(name, text))) for name, text in sections(request).items()]
    rows += list(of_kind(request).items())
    return "\n".join(f"{size:>7,}  {name}" for name, size in rows)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The sections that differ, with their sizes and their changed lines; empty where none does."""
    old, new = sections(before), sections(after)
    found: list[str] = []
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name, ""), new.get(name, "")
        if was != now:
            found.append(f"{name}: {_size(name, was):,} -> {_size(name, now):,}")
            lines = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=0)
            found += [f"    {line}" for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(found)


def _size(name: str, text: str) -> int:
    return tokens(json.loads(text)) if text and name.startswith("tool: ") else tokens(text)


def _headings(text: str) -> list[tuple[str, str]]:
    found = list(_HEADING.finditer(text))
    starts = [0, *(each.start() for each in found)]
    ends = [*starts[1:], len(text)]
    names = ["identity", *(each[1] for each in found)]
    return [(name, text[start:end]) for name, start, end in zip(names, starts, ends, strict=True)]


def _message(message: Mapping[str, Any]) -> str:
    calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
    called = [f"{each['function']['name']}({each['function']['arguments']})" for each in calls]
    return "\n".join(part for part in (_text(message.get("content")), *called) if part)


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return "".join(str(each.get("text", f"({each.get('type')})")) for each in parts)
    return str(content or "")
