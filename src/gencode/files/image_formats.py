"""runtime: the outer form of pictures, kind by kind: how they begin, how large they are, how they end.

Nothing is decoded; what is read is hostile, so every place is checked before it is read.
"""

from collections.abc import Callable

from msgspec import Struct

Size = tuple[int, int]
_PNG = b"\x89PNG\r\n\x1a\n"
_RIFF_HEAD = 8
_MOST_PARTS = 20_000


class ImageFormat(Struct, frozen=True):
    """One kind: `begins` looks at the first bytes, `size` gives width and height of one that is whole."""

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
