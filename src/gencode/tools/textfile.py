"""tools: a text file as text and back, byte for byte the same where nothing was changed.

A byte order mark says what a file is; without one it is UTF-8 or, when it is not, every byte is one character
of Latin-1, so that no byte is ever lost.
"""

import codecs
from typing import BinaryIO

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.tools.files import size_text
from gencode.tools.kinds import HEAD, binary_kind

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
    """An open file as text; NoText says why it is none, or that it is too big."""
    data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise NotText(f"{shown} is bigger than {size_text(LARGEST)}, which is too big to edit.")
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
    """A wide file may hold half characters, and keeps them."""
    return "surrogatepass" if codec.startswith(("utf-16", "utf-32")) else "strict"


def checked(text: str, field: str) -> str:
    """Text from a model that every file can hold; ToolError for half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        half = f"U+{ord(text[error.start]):04X}"
        raise ToolError(
            f"{field} has half a character in it ({half}, a lone surrogate, in line {line}); write it whole."
        ) from None
    return text


def line_count(text: str) -> int:
    """How many lines a text has; the last one need not be ended."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def counted(number: int, thing: str) -> str:
    """`1 line`, `2,345 lines`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
