"""tools: base64_encode and base64_decode, between text and base64."""

import base64
import binascii
import re
from typing import Annotated

from msgspec import Meta

from gencode.core.errors import ToolError
from gencode.runtime.toolbox import Param, ToolContext, tool
from gencode.tools.files import size_text
from gencode.tools.textfile import checked

LONGEST = 1_000_000
_SHOWN_BYTES = 64
_BLANK = re.compile(r"\s+")

Text = Annotated[str, Meta(max_length=LONGEST)]


@tool(effect="read", name="base64_encode", on_request=True)
async def BASE64_ENCODE(
    ctx: ToolContext,
    text: Annotated[Text, Param("It is taken as UTF-8", also=("input", "data"))],
    url_safe: Annotated[bool, "With - and _ instead of + and /"] = False,
) -> str:
    """Write a text as base64."""
    data = checked(text, "text").encode()
    return (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()


@tool(effect="read", name="base64_decode", on_request=True)
async def BASE64_DECODE(
    ctx: ToolContext, text: Annotated[Text, Param("In either alphabet", also=("input", "data"))]
) -> str:
    """Read base64 as text. What is no UTF-8 text is described and not shown."""
    packed = _BLANK.sub("", text).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        data = base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("It is not base64: check that it is whole and holds nothing else.") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        begins = data[:_SHOWN_BYTES].hex(" ")
        return f"It is not text and is not shown: {size_text(len(data))}, beginning with the bytes {begins}."
