"""The scanner of the parser: its position, blanks, comments, depth, and the parts found so far.

A backslash before a newline joins two lines. Between words and inside of them that is done everywhere; inside
an operator or an expansion nobody writes it, so there it is refused.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from msgspec.structs import force_setattr

from gencode.permissions.bash.parts import Frame, FrameKind, Part, Unparsable

MAX_CHARACTERS = 32_768
MAX_DEPTH = 50
MAX_PARTS = 2_500
MAX_STEPS = 8_000

NAME = r"[A-Za-z_][A-Za-z0-9_]*+"
WORD_ENDS = r"(?=[ \t\n;&|<>()]|\Z)"

_BLANK = (" ", "\t", "\\")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*+")
_BLANKS_AND_COMMENT = re.compile(r"(?:[ \t]|\\\n)*+(?:#[^\n]*+)?")
_LINES = re.compile(r"(?:[ \t\n]|\\\n|#[^\n]*+)*+")
_JOINED_OPERATOR = re.compile(r"(?:\\\n)++[;&|<>()-]")


class PartList:
    """The parts found so far, which a text shares with those nested in it, and how much work that was."""

    def __init__(self, frame: Frame | None = None) -> None:
        self.parts: list[Part] = []
        self.frame = frame
        self._steps = 0

    def step(self) -> None:
        """Count what takes time. Nobody types a line that takes much of it."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unparsable("it is too complicated")

    def add(self, part: Part) -> None:
        if len(self.parts) >= MAX_PARTS:
            raise Unparsable("it has too many parts")
        if self.frame is not None:
            force_setattr(part, "frame", self.frame)  # nobody else has seen this part yet
        self.parts.append(part)

    def chain(self, start: int, number: int) -> int:
        """Note that the simple command read since `start` belongs to a chain; 0 begins a new one."""
        number = number or len(self.parts)
        for part in self.parts[start:]:
            if part.frame is self.frame:
                force_setattr(part, "chain", number)
        return number

    @contextmanager
    def within(self, kind: FrameKind) -> Generator[None]:
        """Everything added meanwhile is inside of such a frame. After an error nobody reads on."""
        outer = self.frame
        self.frame = Frame(kind, outer)
        yield
        self.frame = outer


class Scanner(ABC):
    """A text with a position.

    `reason` says why the part that is being read is opaque. `substitutions` counts the `$(…)` around us.
    """

    def __init__(self, text: str, found: PartList, depth: int = 0) -> None:
        self.text = text
        self.pos: int = 0
        self.found = found
        self.depth = depth
        self.reason: str = ""
        self.substitutions: int = 0
        self.substitution_depth: int = 0
        self.here_line: int = -1
        self.here_end: int = -1
        self.here_substitutions: int = 0

    @abstractmethod
    def commands(self, closers: frozenset[str], *, may_be_empty: bool = False) -> str:
        """Read commands up to one of the closers, which is passed too, and say which one it was."""

    @abstractmethod
    def whole_text(self, *, may_be_empty: bool) -> None:
        """Read the text as commands, to its end."""

    def nested(self, text: str) -> Self:
        """A parser for a text that stands inside this one."""
        return type(self)(text, self.found, self.depth)

    def peek(self) -> str:
        """The next character, empty at the end."""
        return self.text[self.pos : self.pos + 1]

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Go past what the pattern matches here, if it does."""
        found = pattern.match(self.text, self.pos)
        if found is None:
            return False
        self.pos = found.end()
        return True

    def blanks(self) -> None:
        if self.text[self.pos : self.pos + 1] in _BLANK:
            self.skip(_BLANKS)

    def blanks_and_comment(self) -> None:
        self.skip(_BLANKS_AND_COMMENT)

    def newlines(self) -> None:
        """Go past blanks, comments and newlines, and past the here-documents that begin after this line."""
        while self.here_line >= 0:
            self.blanks_and_comment()
            if self.peek() != "\n":
                return
            self.check_here_documents_begin()
            self.pos = self.here_end
            self.here_line = -1
        self.skip(_LINES)

    def check_here_documents_begin(self) -> None:
        """Bash looks for a here-document after the next newline that is a token; we take no other one."""
        if self.pos != self.here_line or self.substitutions != self.here_substitutions:
            raise Unparsable("a here-document begins in the middle of something else")

    def operator(self, length: int) -> None:
        """Go past an operator that must not go on in the next line."""
        self.pos += length
        if self.peek() == "\\" and _JOINED_OPERATOR.match(self.text, self.pos):
            raise Unparsable("an operator is spread over two lines")

    def enter(self) -> None:
        """Go one level deeper. An error ends everything, so nobody has to leave after one."""
        self.found.step()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unparsable("it is nested too deeply")

    def leave(self) -> None:
        self.depth -= 1

    def mark(self, reason: str) -> None:
        """The part that is being read is opaque."""
        self.reason = self.reason or reason
