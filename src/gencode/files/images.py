"""Images for models: their format, size and limits, checked without decoding them.

The bytes are hostile, so every offset is checked before it is read.
"""

import base64
import binascii
from collections.abc import Callable

from msgspec import Struct

from gencode.core.messages import Image

Size = tuple[int, int]
_PNG = b"\x89PNG\r\n\x1a\n"
_RIFF_HEAD = 8
_MOST_PARTS = 20_000


class ImageFormat(Struct, frozen=True):
    """An image format: `begins` checks the first bytes, `size` gives width and height of a complete image."""

    begins: Callable[[bytes], bool]
    size: Callable[[bytes], Size | None]


def _png_size(raw: bytes) -> Size | None:
    if raw[8:16] != b"\0\0\0\rIHDR":
        return None
    place, kinds = len(_PNG), set[bytes]()
    for _ in range(_MOST_PARTS):
        kinds.add(raw[place + 4 : place + 8])
        place += 12 + _big(raw, place, 4)
        if place > len(raw) or b"IEND" in kinds:
            break
    whole = place <= len(raw) and kinds >= {b"IDAT", b"IEND"}
    return (_big(raw, 16, 4), _big(raw, 20, 4)) if whole else None


def _jpeg_size(raw: bytes) -> Size | None:
    """Its segments up to the first scan; then only the end is looked for, which no scan can hold."""
    place, size = 2, None
    for _ in range(_MOST_PARTS):
        if place + 4 > len(raw) or raw[place] != 0xFF:
            break
        mark = raw[place + 1]
        if mark == 0xFF:  # filling
            place += 1
            continue
        if mark == 0xDA:
            return size if raw.find(b"\xff\xd9", place) > 0 else None
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC) and place + 9 <= len(raw):
            size = _big(raw, place + 7, 2), _big(raw, place + 5, 2)
        place += 2 + max(2, _big(raw, place + 2, 2))
    return None


def _gif_size(raw: bytes) -> Size | None:
    """Its last byte that is no filling ends it."""
    whole = len(raw) > 13 and raw.rstrip(b"\0").endswith(b";")
    return (_little(raw, 6, 2), _little(raw, 8, 2)) if whole else None


def _webp_size(raw: bytes) -> Size | None:
    if not 30 <= _little(raw, 4, 4) + _RIFF_HEAD <= len(raw):
        return None
    match raw[12:16]:
        case b"VP8X":
            return _little(raw, 24, 3) + 1, _little(raw, 27, 3) + 1
        case b"VP8L" if raw[20] == 0x2F:
            sizes = _little(raw, 21, 4)
            return (sizes & 0x3FFF) + 1, (sizes >> 14 & 0x3FFF) + 1
        case b"VP8 " if raw[23:26] == b"\x9d\x01\x2a":
            return _little(raw, 26, 2) & 0x3FFF, _little(raw, 28, 2) & 0x3FFF
        case _:
            return None


def _big(raw: bytes, place: int, length: int) -> int:
    return int.from_bytes(raw[place : place + length], "big")


def _little(raw: bytes, place: int, length: int) -> int:
    return int.from_bytes(raw[place : place + length], "little")


FORMS = {
    "image/png": ImageFormat(lambda raw: raw.startswith(_PNG), _png_size),
    "image/jpeg": ImageFormat(lambda raw: raw.startswith(b"\xff\xd8\xff"), _jpeg_size),
    "image/gif": ImageFormat(lambda raw: raw.startswith((b"GIF87a", b"GIF89a")), _gif_size),
    "image/webp": ImageFormat(lambda raw: raw.startswith(b"RIFF") and raw[8:12] == b"WEBP", _webp_size),
}


LARGEST_PICTURE = 3_932_160
"""The largest image in bytes: vendors accept 5 MiB of it as base64."""
MOST_PICTURES = 20
MOST_TOGETHER = 3 * LARGEST_PICTURE // 3 * 4
"""The most base64 characters of all images of a request, as vendors limit it: three large ones."""
WIDEST = 8_000
"""The largest width and height of an image in pixels."""
KINDS = frozenset(FORMS)
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def kind_of(said: str) -> str:
    """A media type in its usual spelling."""
    kind = said.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)


def picture(said: str, content: str) -> Image | str:
    """An image from its media type and its base64 content, or what is wrong with it, in a few words.

    It is not decoded: a provider may still refuse it.
    """
    kind = kind_of(said)
    if kind not in KINDS:
        return f"of the kind {said[:60]!r}"
    if len(content) > 2 * LARGEST_PICTURE:
        return f"of more than {LARGEST_PICTURE:,} bytes"
    try:
        raw = base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw:
        return "that cannot be read"
    if len(raw) > LARGEST_PICTURE:
        return f"of more than {LARGEST_PICTURE:,} bytes"
    return _sound(kind, raw)


def shows(head: bytes) -> bool:
    """Whether a file with this beginning is an image of a format that models accept."""
    return any(form.begins(head) for form in FORMS.values())


def image_of(raw: bytes) -> Image | str:
    """An image from its bytes, or what is wrong with it, in a few words."""
    if len(raw) > LARGEST_PICTURE:
        return f"of more than {LARGEST_PICTURE:,} bytes"
    kind = next((name for name, form in FORMS.items() if form.begins(raw)), "")
    return _sound(kind, raw) if kind else "of an unknown kind"


def _sound(kind: str, raw: bytes) -> Image | str:
    form = FORMS[kind]
    if not form.begins(raw):
        return f"that is no {kind}"
    size = form.size(raw)
    if size is None or not all(size):
        return "that is cut or broken"
    if max(size) > WIDEST:
        return f"of {size[0]:,} x {size[1]:,} pixels, more than {WIDEST:,} in a row or column"
    return Image(kind, base64.b64encode(raw).decode())
