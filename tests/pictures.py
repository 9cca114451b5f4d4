"""Small pictures for tests, whole in their outer form."""

import base64
import struct
import zlib

from gencode.core.messages import Image


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int = 1, height: int = 1, filling: int = 0) -> bytes:
    """A grey PNG of one row; other sizes are only said, and `filling` bytes of text make it larger."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    text = _chunk(b"tEXt", b"x" * filling) if filling else b""
    row = _chunk(b"IDAT", zlib.compress(b"\0\0"))
    return b"\x89PNG\r\n\x1a\n" + head + text + row + _chunk(b"IEND", b"")


def jpeg(width: int = 1, height: int = 1) -> bytes:
    """The segments of a JPEG without tables, so that only its form is right."""
    app = b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    frame = b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\0"
    scan = b"\xff\xda\x00\x08\x01\x01\0\0\x3f\0" + b"\x7f\xff\x00\x12"
    return b"\xff\xd8" + app + frame + scan + b"\xff\xd9"


def gif(width: int = 1, height: int = 1) -> bytes:
    """One dot of one colour."""
    screen = struct.pack("<HH", width, height) + b"\x80\0\0" + b"\0\0\0\xff\xff\xff"
    return b"GIF89a" + screen + b",\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0;"


def webp(form: str = "VP8L", width: int = 1, height: int = 1) -> bytes:
    """The head of one of the three forms of a WebP, and nothing in it."""
    sizes = {
        "VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + bytes(7),
        "VP8X": bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        "VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
    }
    inside = b"WEBP" + form.encode() + struct.pack("<I", len(sizes[form])) + sizes[form]
    return b"RIFF" + struct.pack("<I", len(inside)) + inside


WHOLE = {"image/png": png(), "image/jpeg": jpeg(), "image/gif": gif(), "image/webp": webp()}
"""One picture of every kind."""


def packed(raw: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(raw).decode()


PNG = Image("image/png", packed(png()))
