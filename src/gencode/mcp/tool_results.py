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
    """The texts and pictures of a result, and its structured content as JSON."""
    content = result.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts: list[str] = []
    images: list[Image] = []
    for part in parts[:MOST_PARTS]:
        if isinstance(part, dict):
            _add_part(cast("Message", part), texts, images)
    if len(parts) > MOST_PARTS:
        texts.append(f"[{len(parts) - MOST_PARTS:,} more parts were left out]")
    structured = result.get("structuredContent")
    if structured is not None and not _is_in_texts(texts, structured):
        texts.append(msgspec.json.format(msgspec.json.encode(structured), indent=2).decode())
    if result.get("resultType") == "input_required":
        texts.append("The server needs input from the user to continue; that is not supported.")
    text = clip("\n".join(texts), LONGEST_RESULT)
    error = result.get("isError") is True or result.get("resultType") == "input_required"
    return ToolOutput(
        text or ("[no text]" if images else "[no output]"), error=error, images=tuple(images), foreign=True
    )


def _add_part(part: Message, texts: list[str], images: list[Image]) -> None:
    match part.get("type"):
        case "text":
            texts.append(_text(part.get("text")))
        case "image":
            _picture(part, texts, images)
        case "audio":
            texts.append(f"[audio ({_text(part.get('mimeType'))[:60]}) was left out]")
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
        texts.append(f"{name} is not text and was left out")


def _picture(part: Message, texts: list[str], images: list[Image]) -> None:
    found = picture(_text(part.get("mimeType")), _text(part.get("data")))
    if isinstance(found, str):
        texts.append(f"[a picture {found} was left out]")
    elif len(images) >= MOST_PICTURES:
        texts.append("[another picture was left out]")
    else:
        images.append(found)


def _is_in_texts(texts: list[str], structured: object) -> bool:
    """Whether the texts already contain this JSON, as servers send it for older clients."""
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
