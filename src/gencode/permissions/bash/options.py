"""Parses the options of a command: which words are options, values and operands.

A table lists what a command may be given, spelled exactly; whatever is not listed is refused. Programs mix
options and operands, so every word that starts with `-` is an option wherever it stands, until `--`.
"""

from collections.abc import Sequence

from msgspec import Struct

from gencode.permissions.bash.parts import ShellWord


class NotReadOnly(Exception):
    """The command may do more than read; its message says why."""


class OptionTable(Struct, frozen=True):
    """What may be given to one command. Short options are letters, long ones have no dashes.

    `flags` and `long` take no value; `valued` and `long_valued` take one, glued on or as the next word;
    `optional` and `long_optional` take one only glued on; `long_pairs` take the next two words.
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    long_optional: frozenset[str] = frozenset()
    long_pairs: frozenset[str] = frozenset()


def text_of(word: ShellWord) -> str:
    """The value of a word; nearly every word is one piece."""
    pieces = word.pieces
    return pieces[0].text if len(pieces) == 1 else word.value


class ParsedOptions(Struct, frozen=True):
    """The words of a command sorted out; `value_words` are the values that stand as words of their own."""

    operands: tuple[ShellWord, ...]
    values: tuple[str, ...]
    value_words: tuple[ShellWord, ...]


def read(command: str, table: OptionTable, words: Sequence[ShellWord]) -> ParsedOptions:
    """Sort out the words after a command, or refuse the first one that is not listed."""
    reader = _OptionParser(command, table, words)
    while reader.position < len(words):
        word = words[reader.position]
        text = text_of(word)
        reader.position += 1
        if text == "--":
            reader.operands.extend(words[reader.position :])
            break
        if text.startswith("--"):
            reader.read_long(text)
        elif len(text) > 1 and text[0] == "-":
            reader.read_cluster(text)
        else:
            reader.operands.append(word)
    return ParsedOptions(tuple(reader.operands), tuple(reader.values), tuple(reader.value_words))


class _OptionParser:
    __slots__ = ("command", "operands", "position", "table", "value_words", "values", "words")

    def __init__(self, command: str, table: OptionTable, words: Sequence[ShellWord]) -> None:
        self.command = command
        self.table = table
        self.words = words
        self.position = 0
        self.operands: list[ShellWord] = []
        self.values: list[str] = []
        self.value_words: list[ShellWord] = []

    def read_long(self, text: str) -> None:
        name, equals, value = text[2:].partition("=")
        table = self.table
        if equals:
            if name not in table.long_valued and name not in table.long_optional:
                raise unlisted(self.command, text)
            self.values.append(value)
        elif name in table.long_valued:
            self.take_next(text)
        elif name in table.long_pairs:
            self.take_next(text)
            self.take_next(text)
        elif name not in table.long and name not in table.long_optional:
            raise unlisted(self.command, text)

    def read_cluster(self, text: str) -> None:
        table = self.table
        for index in range(1, len(text)):
            letter, rest = text[index], text[index + 1 :]
            if letter in table.flags:
                continue
            if letter in table.valued and not rest:
                self.take_next(f"-{letter}")
            elif letter in table.valued or letter in table.optional:
                self.values.extend([rest] if rest else [])
            else:
                raise unlisted(self.command, f"-{letter}")
            return

    def take_next(self, option: str) -> None:
        if self.position == len(self.words):
            raise NotReadOnly(f"{self.command} {option} lacks its value")
        word = self.words[self.position]
        self.position += 1
        self.values.append(text_of(word))
        self.value_words.append(word)


def unlisted(command: str, option: str) -> NotReadOnly:
    """The refusal of an option that is in no table."""
    return NotReadOnly(f"{command} {option} is not among the options that only read")
