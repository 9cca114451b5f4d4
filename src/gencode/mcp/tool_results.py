"""Converts the result of an MCP tool call into the output of a tool."""

from contextlib import suppress
from typing import Any, cast

import msgspec

from gencode.agent.toolbox import ToolOutput
from gencode.core.messages import Image
from gencode.core.text import clip
from gencode.files.images import KINDS, MOST_PICTURES, kind_of, picture
from gencode.mcp.transport import Message

LONGEST_RESULT = 1_000_000
MOST_PARTS = 1_000


def output_of(result: Message) -> ToolOutput:
    """The texts of a result, its pictures, and what has a structure as JSON."""
    content = result.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts: list[str] = []
    images: list[Image] = []
    for part in parts[:MOST_PARTS]:
        if isinstance(part, dict):
            _take(cast("Message", part), texts, images)
    if len(parts) > MOST_PARTS:
        texts.append(f"[{len(parts) - MOST_PARTS:,} further parts were left out]")
    structured = result.get("structuredContent")
    if structured is not None and not _says_the_same(texts, structured):
        texts.append(msgspec.json.format(msgspec.json.encode(structured), indent=2).decode())
    if result.get("resultType") == "input_required":
        texts.append("The server needs input from the user before it continues; that is not supported.")
    text = clip("\n".join(texts), LONGEST_RESULT)
    error = result.get("isError") is True or result.get("resultType") == "input_required"
    return ToolOutput(text or ("[no text]" if images else "[no output]"), error=error, images=tuple(images))


def _take(part: Message, texts: list[str], images: list[Image]) -> None:
    match part.get("type"):
        case "text":
            texts.append(_text(part.get("text")))
        case "image":
            _picture(part, texts, images)
        case "audio":
            texts.append(f"[sound ({_text(part.get('mimeType'))[:60]}) was left out]")
        case "resource_link":
            texts.append(f"[resource {_text(part.get('uri'))[:500]}: {_text(part.get('name'))[:200]}]")
        case "resource":
            _resource(part.get("resource"), texts, images)
        case kind:
            texts.append(f"[content of the type {_text(kind)[:60]!r} was left out]")


def _resource(inner: Any, texts: list[str], images: list[Image]) -> None:
    held = cast("Message", inner) if isinstance(inner, dict) else {}
    name = f"[resource {_text(held.get('uri'))[:500]}]"
    if isinstance(held.get("text"), str):
        texts.append(f"{name}\n{held['text']}")
    elif kind_of(_text(held.get("mimeType"))) in KINDS:
        texts.append(name)
        _picture({"mimeType": held["mimeType"], "data": held.get("blob")}, texts, images)
    else:
        texts.append(f"{name} holds no text and was left out")


def _picture(part: Message, texts: list[str], images: list[Image]) -> None:
    found = picture(_text(part.get("mimeType")), _text(part.get("data")))
    if isinstance(found, str):
        texts.append(f"[a picture {found} was left out]")
    elif len(images) >= MOST_PICTURES:
        texts.append("[a further picture was left out]")
    else:
        images.append(found)


def _says_the_same(texts: list[str], structured: object) -> bool:
    """Whether the texts are this JSON already, as servers send it for clients that know no structure."""
    same = [structured]
    if isinstance(structured, dict) and len(cast("Message", structured)) == 1:
        same += cast("Message", structured).values()
    said: list[object] = ["\n".join(texts)]
    for text in texts:
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            said.append(msgspec.json.decode(text))
    return any(each in said for each in same)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
