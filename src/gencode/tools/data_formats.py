"""json_parse, json_stringify, base64_encode and base64_decode."""

import base64
import binascii
import json
import re
from typing import Annotated, Any, NoReturn, cast

from msgspec import Meta

from gencode.agent.toolbox import Param, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.permissions.paths import shown
from gencode.tools.files import size_text
from gencode.tools.text_files import checked

LONGEST = 1_000_000
MOST_KEYS_TOLD = 20

Text = Annotated[str, Meta(max_length=LONGEST)]


@tool(effect="read", name="json_parse", on_request=True)
async def JSON_PARSE(
    ctx: ToolContext,
    text: Annotated[Text, Param("The JSON text", also=("json", "input"))],
    pointer: Annotated[str, "Only this part of it, as a JSON pointer such as /items/0/name"] = "",
) -> str:
    """Parse a JSON text and show it, or one part of it, indented. Errors name line and column."""
    return _written(_part(_read(text), pointer), 2)


@tool(effect="read", name="json_stringify", on_request=True)
async def JSON_STRINGIFY(
    ctx: ToolContext,
    value: Annotated[Any, Param("Any JSON value", also=("data", "input"))],
    indent: Annotated[int, Meta(ge=0, le=8), "Spaces per level; 0: all on one line"] = 0,
    sort_keys: bool = False,
) -> str:
    """Write a value as JSON text."""
    return _written(value, indent, sort_keys=sort_keys)


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        lines = text.splitlines() or [""]
        near = shown(lines[min(error.lineno, len(lines)) - 1].strip(), 80)
        raise ToolError(
            f"This is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}: {near}."
        ) from None
    except RecursionError:
        raise ToolError("The JSON is nested too deeply.") from None
    except ValueError as error:
        raise ToolError(f"This is not valid JSON: {error}.") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON; write null or a number")


def _part(value: Any, pointer: str) -> Any:
    if not pointer:
        return value
    if not pointer.startswith("/"):
        raise ToolError(
            f"{shown(pointer)} is not a JSON pointer; begin it with a slash, as in /items/0/name."
        )
    for token in pointer[1:].split("/"):
        value = _inside(value, token.replace("~1", "/").replace("~0", "~"), pointer)
    return value


def _inside(value: Any, key: str, pointer: str) -> Any:
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            if key in fields:
                return fields[key]
            there = ", ".join(shown(each, 40) for each in list(fields)[:MOST_KEYS_TOLD]) or "no fields"
            raise ToolError(
                f"{shown(pointer)} does not exist: there is no {shown(key)}; the keys are {there}."
            )
        case list():
            items = cast("list[Any]", value)
            if key.isascii() and key.isdecimal() and int(key[:9]) < len(items) and len(key) < 10:
                return items[int(key)]
            raise ToolError(
                f"{shown(pointer)} does not exist: {shown(key)} is not an index of a list "
                f"of length {len(items):,}."
            )
        case _:
            before = f"{value!r:.80}"
            raise ToolError(f"{shown(pointer)} does not exist: before {shown(key)} there is only {before}.")


def _written(value: Any, indent: int, *, sort_keys: bool = False) -> str:
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=indent or None, sort_keys=sort_keys
        )
    except RecursionError:
        raise ToolError("The value is nested too deeply to be written as JSON.") from None
    except ValueError as error:
        raise ToolError(f"The value cannot be written as JSON: {error}.") from None


_SHOWN_BYTES = 64
_BLANK = re.compile(r"\s+")


@tool(effect="read", name="base64_encode", on_request=True)
async def BASE64_ENCODE(
    ctx: ToolContext,
    text: Annotated[Text, Param("Encoded as UTF-8", also=("input", "data"))],
    url_safe: Annotated[bool, "With - and _ instead of + and /"] = False,
) -> str:
    """Encode a text as base64."""
    data = checked(text, "text").encode()
    return (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()


@tool(effect="read", name="base64_decode", on_request=True)
async def BASE64_DECODE(
    ctx: ToolContext, text: Annotated[Text, Param("Standard or URL-safe", also=("input", "data"))]
) -> str:
    """Decode base64 to text. Data that is not UTF-8 is described, not shown."""
    packed = _BLANK.sub("", text).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        data = base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(
            "This is not valid base64: check that it is complete and holds nothing else."
        ) from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        size, first = size_text(len(data)), data[:_SHOWN_BYTES].hex(" ")
        return f"The data is not text and is not shown: {size}, beginning with the bytes {first}."
