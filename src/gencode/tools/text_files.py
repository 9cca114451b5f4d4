"""Text files: encoding, line ends, and the type of a binary file by its first bytes.

A byte order mark decides the encoding. A file without one is UTF-8 or, where that does not fit, Latin-1, so
that no byte is lost.
"""

import codecs
import os
from typing import BinaryIO, NamedTuple

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.tools.files import size_text

HEAD = 64 * 1024

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF87a", "GIF image"),
    (0, b"GIF89a", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"BM", "BMP image"),
    (0, b"%PDF-", "PDF document"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (0, b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (0, b"MZ", "Windows program or library"),
    (0, b"\0asm", "WebAssembly module"),
    (0, b"PK\x03\x04", "ZIP archive (or a document in one)"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\0", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (257, b"ustar", "tar archive"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (0, b"\0\0\x01\0", "ICO image"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (8, b"WAVE", "WAV sound"),
    (0, b"ID3", "MP3 sound"),
    (0, b"OggS", "Ogg sound or video"),
    (0, b"fLaC", "FLAC sound"),
    (4, b"ftyp", "MP4 or QuickTime video"),
    (0, b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (0, b"wOFF", "WOFF font"),
    (0, b"wOF2", "WOFF2 font"),
    (0, b"OTTO", "OpenType font"),
    (0, b"\0\x01\0\0\0", "TrueType font"),
)
_NEVER_TEXT = (b"\x89PNG", b"\xff\xd8\xff", b"%PDF-", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ODD = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"


class BinaryKind(NamedTuple):
    """The type of a binary file; for an image also width and height where they could be read."""

    name: str
    pixels: tuple[int, int] | None = None


def binary_kind(handle: int, head: bytes) -> BinaryKind | None:
    """The type of a binary file, or None for text. `head` is its beginning, at most `HEAD` bytes."""
    if not _is_binary(head):
        return None
    name = next((name for at, magic, name in _MAGIC if head[at : at + len(magic)] == magic), "binary file")
    return BinaryKind(name, _pixels(name, handle, head))


def _is_binary(head: bytes) -> bool:
    if head.startswith(_NEVER_TEXT):
        return True
    if head.startswith(_UTF16):
        return False
    if b"\0" in head:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return len(head) - len(head.translate(None, _ODD)) > len(head) // 20
    return False


def _pixels(name: str, handle: int, head: bytes) -> tuple[int, int] | None:
    try:
        match name:
            case "PNG image" if head[12:16] == b"IHDR":
                return _number(head, 16, 4, "big"), _number(head, 20, 4, "big")
            case "GIF image":
                return _number(head, 6, 2), _number(head, 8, 2)
            case "BMP image":
                return _bmp(head)
            case "WebP image":
                return _webp(head)
            case "JPEG image":
                return _jpeg(handle)
            case _:
                return None
    except IndexError:
        return None


def _number(head: bytes, at: int, size: int, order: str = "little") -> int:
    piece = head[at : at + size]
    if len(piece) < size:
        raise IndexError(at)
    return int.from_bytes(piece, "big" if order == "big" else "little")


def _bmp(head: bytes) -> tuple[int, int]:
    if _number(head, 14, 4) == 12:
        return _number(head, 18, 2), _number(head, 20, 2)
    height = _number(head, 22, 4)
    return _number(head, 18, 4), height if height < 1 << 31 else (1 << 32) - height


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8 ":
            return _number(head, 26, 2) & 0x3FFF, _number(head, 28, 2) & 0x3FFF
        case b"VP8L":
            bits = _number(head, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _number(head, 24, 3) + 1, _number(head, 27, 3) + 1
        case _:
            return None


def _jpeg(handle: int) -> tuple[int, int] | None:
    """The size stands in the first start-of-frame segment; those before it are stepped over."""
    at = 2
    for _ in range(500):
        segment = os.pread(handle, 9, at)
        if segment[0] != 0xFF:
            return None
        if segment[1] == 0xFF:
            at += 1
        elif 0xC0 <= segment[1] <= 0xCF and segment[1] not in (0xC4, 0xC8, 0xCC):
            return _number(segment, 7, 2, "big"), _number(segment, 5, 2, "big")
        elif segment[1] in (0x01, *range(0xD0, 0xD9)):
            at += 2
        else:
            at += 2 + _number(segment, 2, 2, "big")
    return None


LARGEST = 8_000_000
"""Bigger files are neither edited nor compared."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class NotText(ToolError):
    """A file that cannot be taken as text."""


class TextFile(Struct, frozen=True):
    """The text of a file, how it is encoded, and the mark it begins with."""

    text: str = ""
    codec: str = "utf-8"
    mark: bytes = b""

    @property
    def crlf(self) -> bool:
        """Whether every line ends with CR LF."""
        return 0 < self.text.count("\n") == self.text.count("\r\n")

    def bytes_with(self, text: str) -> bytes:
        """The whole file with another text."""
        return self.mark + text.encode(self.codec, _errors(self.codec))


def marked(head: bytes) -> tuple[bytes, str]:
    """The byte order mark a file begins with, and the encoding it stands for; UTF-8 without one."""
    return next(((mark, codec) for mark, codec in _MARKS if head.startswith(mark)), (b"", "utf-8"))


def read_text(file: BinaryIO, shown: str) -> TextFile:
    """Read an open file as text; NotText says why that is not possible."""
    data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise NotText(f"{shown} is larger than {size_text(LARGEST)}, the limit for edits.")
    mark, codec = marked(data)
    if not mark and (kind := binary_kind(file.fileno(), data[:HEAD])):
        raise NotText(f"{shown} is not text and cannot be edited: {kind.name}.")
    body = data[len(mark) :]
    try:
        return TextFile(body.decode(codec, _errors(codec)), codec, mark)
    except UnicodeDecodeError:
        if codec == "utf-8":
            return TextFile(body.decode("latin-1"), "latin-1", mark)
        raise NotText(f"{shown} begins like {codec.upper()} but is not; it cannot be edited.") from None


def _errors(codec: str) -> str:
    """A file in UTF-16 or UTF-32 may hold lone surrogates, and keeps them."""
    return "surrogatepass" if codec.startswith(("utf-16", "utf-32")) else "strict"


def checked(text: str, field: str) -> str:
    """Text from a model that can be encoded; ToolError for a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        found = f"U+{ord(text[error.start]):04X}"
        raise ToolError(
            f"{field} contains a lone surrogate ({found}, line {line}); write the whole character."
        ) from None
    return text


def line_count(text: str) -> int:
    """How many lines a text has; the last one need not be ended."""
    return text.count("\n") + (not text.endswith("\n") and text != "")
