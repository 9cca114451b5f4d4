"""Read: a range of lines of a text file, an image, or the entries of a folder."""

import asyncio
import codecs
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct, field

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.messages import Image, Trace
from gencode.core.text import CLIP, counted
from gencode.files.images import LARGEST_PICTURE, image_of, shows
from gencode.files.safe_files import identity_of
from gencode.tools.file_changes import hash_of, known_as
from gencode.tools.files import is_folder, open_file, relative, size_text
from gencode.tools.ls import list_folder
from gencode.tools.output_page import NOTE_ROOM, OutputPage
from gencode.tools.text_files import HEAD, binary_kind, marked

LONGEST_LINE = 2_000
KEPT = 4 * LONGEST_LINE + 4
CHUNK = 256 * 1024
COUNTED_TO_THE_END = 64 * 1024 * 1024
SECONDS = 10.0
LARGEST_HASHED = 2_000_000
"""Whether a larger file was changed or only given other rights is not known later, so it is read again."""


@tool(effect="read", name="Read", aliases=("read_file",))
async def READ(
    ctx: ToolContext,
    file_path: Annotated[str, Param("Absolute, or relative to the working directory", also=("path",))],
    offset: Annotated[int, Meta(ge=0), "First line, from 1"] = 1,
    limit: Annotated[int, Meta(ge=1), "Number of lines"] = 2000,
) -> ToolOutput:
    """Read a file, with line numbers (`number<tab>text`), or list a folder. Images are shown.

    At most 30,000 characters are returned; the last line says how to continue. Read a file before you change
    it; of a long file, read only what you need.
    """
    stop = threading.Event()
    try:
        return await asyncio.to_thread(_read, ctx, file_path, _Range(max(offset, 1), limit, stop))
    finally:
        stop.set()


class _Range(Struct):
    """The requested range of lines, collected while the file is read."""

    first: int
    limit: int
    stop: threading.Event
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    lines: list[str] = []
    room: int = CLIP - NOTE_ROOM
    cut: int = 0
    latin: bool = False

    def take(self, number: int, raw: bytes, length: int) -> bool:
        """Add one line, given its first bytes and its whole length; False when the page is full."""
        text, whole = self._decoded(raw, length)
        if not whole:
            text = f"{text[:LONGEST_LINE]} [… the line goes on, {size_text(length)} in all]"
        line = f"{number}\t{text}"
        if len(self.lines) >= self.limit or (self.lines and len(line) + 1 > self.room):
            return False
        self.cut += not whole
        self.room -= len(line) + 1
        self.lines.append(line)
        return True

    def _decoded(self, raw: bytes, length: int) -> tuple[str, bool]:
        partial = length > len(raw)
        raw = raw if partial else raw.removesuffix(b"\r")
        try:
            text = codecs.getincrementaldecoder("utf-8")().decode(raw, final=not partial)
        except UnicodeDecodeError:
            self.latin = True
            text = raw.decode("latin-1")
        return text, not partial and len(text) <= LONGEST_LINE

    def check(self) -> None:
        """Give up when the caller is gone or the time is over."""
        if self.stop.is_set() or time.monotonic() > self.deadline:
            raise ToolError(
                f"Reading up to line {self.first:,} takes over {SECONDS:.0f} seconds; find it with Grep."
            )


def _read(ctx: ToolContext, file_path: str, wanted: _Range) -> ToolOutput:
    place = ctx.place(file_path)
    if is_folder(place):
        return ToolOutput(list_folder(ctx, place, OutputPage(wanted.first - 1, wanted.limit, first=1)))
    shown = relative(ctx.workspace, place.real)
    with open_file(place, shown) as file:
        # As it was before it was read: whatever changes it meanwhile shows when it is to be edited.
        state = identity_of(file)
        try:
            digest = hash_of(file, LARGEST_HASHED)
            ctx.seen.note(place.real, state, digest)
            trace = Trace(read=(shown,), seen=known_as(shown, place.real, digest, state))
            text, images = _told(shown, file.fileno(), wanted)
            return ToolOutput(text, trace, images=images)
        except OSError as error:
            raise ToolError(f"{shown} cannot be read: {os.strerror(error.errno or 0)}.") from None


def _told(shown: str, handle: int, wanted: _Range) -> tuple[str, tuple[Image, ...]]:
    head = os.pread(handle, HEAD, 0)
    if not head:
        return f"{shown} is empty.", ()
    mark, codec = marked(head)
    kind = None if mark else binary_kind(handle, head)
    if kind is None:
        return _text(shown, handle, wanted, (len(mark), codec)), ()
    pixels = f", {kind.pixels[0]:,} × {kind.pixels[1]:,} pixels" if kind.pixels else ""
    size = os.fstat(handle).st_size
    described = f"{kind.name}{pixels}, {size_text(size)}"
    if shows(head):
        found = image_of(os.pread(handle, LARGEST_PICTURE + 1, 0))
        if isinstance(found, Image):
            return f"{shown}: {described}.", (found,)
        return f"{shown} is an image {found}, so it is not shown: {described}.", ()
    return f"{shown} is not text and is not shown: {described}.", ()


def _text(shown: str, handle: int, wanted: _Range, begins: tuple[int, str]) -> str:
    encoding = begins[1].upper().removesuffix("-LE").removesuffix("-BE")
    lines = _Lines(_chunks(handle, wanted, begins))
    lines.skip(wanted.first - 1)
    full = False
    while not full and (line := lines.take()) is not None:
        full = not wanted.take(lines.number, *line)
    if not lines.number:
        return f"{shown} is empty."
    if not wanted.lines:
        return f"{shown} has only {counted(lines.number, 'line')}; offset={wanted.first} is past the end."
    notes: list[str] = []
    if full:
        following = lines.number
        more = "more lines"
        if os.fstat(handle).st_size <= COUNTED_TO_THE_END:
            lines.skip(sys.maxsize)
            rest = lines.number - following + 1
            more = counted(rest, "more line")
        notes.append(f"[… {more}; go on with offset={following}]")
    if wanted.cut:
        notes.append(f"[{counted(wanted.cut, 'long line')} cut at 2,000 characters]")
    if encoding != "UTF-8":
        notes.append(f"[the file is {encoding}]")
    if wanted.latin:
        notes.append("[the file is not UTF-8; the bytes that are not were read as Latin-1]")
    return "\n".join([*wanted.lines, *notes])


def _chunks(handle: int, wanted: _Range, begins: tuple[int, str]) -> Iterator[bytes]:
    """The file as UTF-8 (or whatever has no byte order mark) in pieces, from behind its mark."""
    at, codec = begins
    decoder = None if codec == "utf-8" else codecs.getincrementaldecoder(codec)("replace")
    while chunk := os.pread(handle, CHUNK, at):
        wanted.check()
        at += len(chunk)
        yield decoder.decode(chunk).encode("utf-8", "replace") if decoder else chunk


class _Lines:
    """Splits chunks into lines in constant memory. `number` is the last line passed."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._piece = b""
        self._at = 0
        self.number = 0

    def skip(self, lines: int) -> None:
        """Pass over so many lines, or all there are."""
        unfinished = False
        while lines and self._more():
            ends = self._piece.count(b"\n", self._at)
            if ends >= lines:
                for _ in range(lines):
                    self._at = self._piece.index(b"\n", self._at) + 1
                self.number += lines
                return
            self.number += ends
            lines -= ends
            unfinished = not self._piece.endswith(b"\n")
            self._at = len(self._piece)
        self.number += unfinished

    def take(self) -> tuple[bytes, int] | None:
        """The next line as its first bytes and its whole length; None at the end."""
        kept, length = b"", 0
        while self._more():
            end = self._piece.find(b"\n", self._at)
            until = len(self._piece) if end < 0 else end
            kept += self._piece[self._at : min(until, self._at + KEPT - len(kept))]
            length += until - self._at
            self._at = until + (end >= 0)
            if end >= 0:
                self.number += 1
                return kept, length
        if not length:
            return None
        self.number += 1
        return kept, length

    def _more(self) -> bool:
        while self._at >= len(self._piece):
            piece = next(self._chunks, None)
            if piece is None:
                return False
            self._piece, self._at = piece, 0
        return True
