"""The list of tools that an MCP server offers, bounded and freed of invisible characters.

What a server says about its tools goes into the prompts of models. It can be kept short and visible; whether
it is honest cannot be known, which is why every tool is asked about and a change of its description too.
"""

import re
import unicodedata
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct

from gencode.mcp.client import McpClient
from gencode.mcp.transport import Message

MOST_TOOLS = 256
MOST_PAGES = 64
LONGEST_DESCRIPTION = 2_000
LONGEST_TEXT = 1_000
LARGEST_SCHEMA = 32 * 1024
DEEPEST_SCHEMA = 24
MOST_NOTES = 10
_LARGEST_LOOKED_AT = 1024 * 1024
_LONGEST_NAME = 256
_TOO_LARGE = f"its input schema is larger than {LARGEST_SCHEMA:,} bytes"

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$schema", "$id", "title")
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})


class OfferedTool(Struct, frozen=True):
    """One tool of a server. `digest` is of everything the server says about it, before anything was cut.

    `mirrored` are the arguments that also travel as headers, by their path.
    """

    name: str
    description: str
    schema: dict[str, Any]
    reads: bool
    digest: str
    mirrored: dict[tuple[str, ...], str] = {}


class ToolList(Struct, frozen=True):
    """The tools of a server, and what was left out."""

    tools: tuple[OfferedTool, ...] = ()
    notes: tuple[str, ...] = ()


class _Unusable(ValueError):
    """A tool cannot be offered to models, and why."""


async def list_tools(client: McpClient) -> ToolList:
    """The tools of a server, requested page by page."""
    if "tools" not in client.capabilities:
        return ToolList(notes=("it has no tools",))
    tools: dict[str, OfferedTool] = {}
    notes: list[str] = []
    seen: set[str] = set()
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.request("tools/list", {"cursor": cursor} if cursor else None)
        found = page.get("tools")
        for raw in cast("list[object]", found) if isinstance(found, list) else []:
            if len(tools) >= MOST_TOOLS:
                return _listing(
                    tools, [f"it offers more than {MOST_TOOLS} tools; the others are left out", *notes]
                )
            _add(raw, tools, notes)
        following = page.get("nextCursor")
        if not isinstance(following, str) or not following:
            return _listing(tools, notes)
        if following in seen:
            return _listing(tools, ["its list of tools repeats the same pages", *notes])
        seen.add(following)
        cursor = following
    return _listing(tools, [f"its list of tools has more than {MOST_PAGES} pages", *notes])


def cleaned(text: str, most: int) -> str:
    """A text without invisible characters, cut to a length."""
    kept = "".join(
        character
        for character in text[: most * 2]
        if character in "\n\t" or unicodedata.category(character) not in _UNSEEN
    )
    return kept if len(kept) <= most and len(text) <= most * 2 else f"{kept[:most].rstrip()} […]"


def _listing(tools: dict[str, OfferedTool], notes: list[str]) -> ToolList:
    kept = notes if len(notes) <= MOST_NOTES else [*notes[:MOST_NOTES], f"and {len(notes) - MOST_NOTES} more"]
    return ToolList(tuple(tools[name] for name in sorted(tools)), tuple(kept))


def _add(raw: object, tools: dict[str, OfferedTool], notes: list[str]) -> None:
    name = cast("Message", raw).get("name") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME:
        notes.append("a tool without a usable name is left out")
    elif name in tools:
        notes.append(f"a second tool {cleaned(name, 60)!r} is left out")
    else:
        try:
            tools[name] = parse_tool(cast("Message", raw))
        except _Unusable as unusable:
            notes.append(f"the tool {cleaned(name, 60)!r} is left out: {unusable}")


def parse_tool(raw: Message) -> OfferedTool:
    """One tool; ValueError if it cannot be offered to models."""
    said = raw.get("description")
    annotations = raw.get("annotations")
    hints = cast("Message", annotations) if isinstance(annotations, dict) else {}
    schema = _usable(raw.get("inputSchema"))
    return OfferedTool(
        name=raw["name"],
        description=cleaned(said, LONGEST_DESCRIPTION) if isinstance(said, str) else "",
        schema=schema,
        reads=hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True,
        digest=_digest(raw),
        mirrored=_mirrored(schema),
    )


def _digest(raw: Message) -> str:
    parts = [
        raw.get(key) for key in ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
    ]
    return sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def _usable(raw: Any) -> dict[str, Any]:
    """A schema that every provider accepts: an object whose parameters have plain names."""
    if not isinstance(raw, dict) or cast("Message", raw).get("type", "object") != "object":
        raise _Unusable("its arguments are not an object")
    if len(msgspec.json.encode(raw)) > _LARGEST_LOOKED_AT:
        raise _Unusable(_TOO_LARGE)
    schema = cast("dict[str, Any]", _tidy(raw, DEEPEST_SCHEMA))
    if len(msgspec.json.encode(schema)) > LARGEST_SCHEMA:
        raise _Unusable(_TOO_LARGE)
    for key in _NOT_AT_THE_TOP:
        schema.pop(key, None)
    given = schema.get("properties")
    properties = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    for name in properties:
        if not _PARAMETER.fullmatch(name):
            raise _Unusable(f"it has a parameter called {cleaned(name, 60)!r}")
    needed = schema.get("required")
    required = (
        [name for name in cast("list[Any]", needed) if name in properties] if isinstance(needed, list) else []
    )
    plain: dict[str, Any] = {
        name: value if isinstance(value, dict) else {} for name, value in properties.items()
    }
    rest = {key: value for key, value in schema.items() if key not in ("type", "properties", "required")}
    return {"type": "object", "properties": plain, **({"required": required} if required else {}), **rest}


def _tidy(value: Any, deeper: int) -> Any:
    if not deeper:
        raise _Unusable(f"its input schema is nested more than {DEEPEST_SCHEMA} times")
    match value:
        case dict():
            tidy = {str(key): _tidy(each, deeper - 1) for key, each in cast("Message", value).items()}
            return _with_typed_enum(tidy)
        case list():
            return [_tidy(each, deeper - 1) for each in cast("list[Any]", value)]
        case str():
            return cleaned(value, LONGEST_TEXT)
        case _:
            return value


def _with_typed_enum(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with a type and no empty value for an enum of texts: some providers refuse others."""
    values = schema.get("enum")
    if not isinstance(values, list) or not all(isinstance(each, str) for each in cast("list[Any]", values)):
        return schema
    named = [each for each in cast("list[str]", values) if each]
    rest = {key: each for key, each in schema.items() if key != "enum"}
    return {"type": "string", **rest, **({"enum": named} if named else {})}


def _mirrored(schema: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """The arguments that the server also wants as headers `Mcp-Param-…`."""
    found: dict[tuple[str, ...], str] = {}
    properties = schema.get("properties")
    for name, below in cast("Message", properties).items() if isinstance(properties, dict) else ():
        if not isinstance(below, dict):
            continue
        inner = cast("Message", below)
        token = inner.get("x-mcp-header")
        if isinstance(token, str) and _HEADER_TOKEN.fullmatch(token):
            found[(*path, name)] = token
        found |= _mirrored(inner, (*path, name))
    return found
