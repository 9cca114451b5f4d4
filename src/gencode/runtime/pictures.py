"""runtime: pictures that come from outside, as models can be shown them, and why others cannot be."""

import base64
import binascii

from gencode.core.messages import Image

LARGEST_PICTURE = 5 * 1024 * 1024
"""So many characters of base64 a picture has at most."""
MOST_PICTURES = 20
_BEGINNINGS = {
    "image/png": (0, (b"\x89PNG",)),
    "image/jpeg": (0, (b"\xff\xd8\xff",)),
    "image/gif": (0, (b"GIF87a", b"GIF89a")),
    "image/webp": (8, (b"WEBP",)),
}
KINDS = frozenset(_BEGINNINGS)
_LONGEST_BEGINNING = 12


def picture(kind: str, content: str) -> Image | str:
    """A picture from its media type and its bytes as base64, or what is wrong with it, in a few words."""
    if kind not in KINDS:
        return f"of the kind {kind[:60]!r}"
    if len(content) > LARGEST_PICTURE:
        return f"of more than {LARGEST_PICTURE:,} bytes"
    try:
        head = base64.b64decode(content, validate=True)[:_LONGEST_BEGINNING]
    except (binascii.Error, ValueError):
        head = b""
    if not head:
        return "that cannot be read"
    at, beginnings = _BEGINNINGS[kind]
    return Image(kind, content) if head[at:].startswith(beginnings) else f"that is no {kind}"
