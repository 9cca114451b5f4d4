"""The bash parser that fails closed: from the text of a command line to a flat list of parts.

It reads what bash 5.2 reads without its interactive features. Whatever it is not sure to read as bash does is
`Unparsable`, so a command may be refused that bash would run, but not the other way round.

A part is marked as opaque for everything that can be seen without knowing any command: a dynamic command
word, expansions that do more than read a variable, arithmetic with names, arrays, redirections through
`{var}` or to the network, function definitions, coprocesses, the evaluating operators of `[[`. An inert part
can be opaque too. What depends on a command's name (`eval`, `trap`, `alias`, shells, wrappers, builtins that
evaluate subscripts) is not marked here.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from gencode.permissions.bash.commands import PLAIN_NAME, RESERVED_WORD
from gencode.permissions.bash.compounds import Compounds
from gencode.permissions.bash.parts import Frame, Part, ShellWord, Unparsable
from gencode.permissions.bash.scanner import MAX_CHARACTERS, WORD_ENDS, PartList
from gencode.permissions.secrets import deceptive_character

_BANG = re.compile(r"!(?=[ \t])")
_TIME = re.compile(rf"time{WORD_ENDS}(?:[ \t]++-p{WORD_ENDS})?(?:[ \t]++--{WORD_ENDS})?")
_OPTION = re.compile(r"(?:[ \t]|\\\n)++-")
_TIMED_COMMAND = re.compile(
    rf"{_TIME.pattern}[ \t]++(?!{RESERVED_WORD}|-){PLAIN_NAME}(?=[ \t\n;&|)])(?![ \t]*+\()"
)
_CLOSING_WORD = re.compile(rf"(?:then|elif|else|fi|do|done|esac|\}}){WORD_ENDS}")
_CLAUSE_END = re.compile(r";;&|;;|;&")
_AND_OR = re.compile(r"&&|\|\|")
_PIPE = re.compile(r"\|&|\|(?!\|)")
_END = frozenset({""})
_SWITCHES = frozenset({"set", "shopt"})
_RUN_BUILTINS = frozenset({"builtin", "command"})
_OTHER_RULES = frozenset({"history", "histexpand", "keyword", "posix", "extglob", "expand_aliases"})
_OTHER_RULES_SHORT = re.compile(r"[-+][A-Za-z]*[Hk]")
_COMPATIBLE = re.compile(r"compat\d")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def parse(text: str, frame: Frame | None = None) -> tuple[Part, ...]:
    """Everything a command line runs, writes and reads, in parts that are decided alone.

    `frame` is what is around the whole text.
    """
    if len(text) > MAX_CHARACTERS:
        raise Unparsable(f"it has more than {MAX_CHARACTERS} characters")
    if text.startswith(("-", "+")):
        raise Unparsable("bash would take it for an option")
    if deceptive := deceptive_character(text.replace("\n", "").replace("\t", "")):
        raise Unparsable(f"it has a character that shows as something else ({deceptive!a})")
    if _SURROGATE.search(text):
        raise Unparsable("it has bytes that are no text")
    found = PartList(frame)
    try:
        BashParser(text, found).whole_text(may_be_empty=False)
    except RecursionError:
        raise Unparsable("it is nested too deeply") from None
    if not found.parts:
        raise Unparsable("there is nothing to run")
    if "\n" in text and _changes_reading(found.parts):
        raise Unparsable("it changes how bash reads its later lines")
    return tuple(found.parts)


class BashParser(Compounds):
    """Reads lists of commands."""

    def whole_text(self, *, may_be_empty: bool) -> None:
        self.commands(_END, may_be_empty=may_be_empty)
        if self.here_line >= 0:
            raise Unparsable("a here-document begins in the middle of something else")

    def commands(self, closers: frozenset[str], *, may_be_empty: bool = False) -> str:
        self.newlines()
        if may_be_empty:
            self._check_time()
        closer = self._closer(closers)
        if closer is not None and not may_be_empty:
            raise Unparsable("a command is missing")
        while closer is None:
            separated = self._pipelines()
            closer = self._closer(closers)
            if closer is None and not separated:
                raise Unparsable("two commands without anything between them")
            if closer and not separated and self.redirected and closer[0] not in ");":
                raise Unparsable("a redirection before a closing word")
        return closer

    def _check_time(self) -> None:
        """Bash takes `time` at the beginning of a substitution for a program, until it reads it again."""
        if _TIME.match(self.text, self.pos) and not _TIMED_COMMAND.match(self.text, self.pos):
            raise Unparsable("time at the beginning of a substitution needs a plain command")

    def _closer(self, closers: frozenset[str]) -> str | None:
        """The closer that stands here, gone past; None if a command may begin here."""
        character = self.peek()
        if character in ("", ")"):
            closer = character
            length = len(character)
        elif character == ";":
            found = _CLAUSE_END.match(self.text, self.pos)
            closer, length = ";;", found.end() - self.pos if found else 0
        else:
            found = _CLOSING_WORD.match(self.text, self.pos)
            if found is None:
                return None
            closer, length = found[0], found.end() - self.pos
        if closer not in closers or (closer == ";;" and not length):
            raise Unparsable(f"{closer or 'the end'} comes where it should not")
        self.pos += length
        return closer

    def _pipelines(self) -> bool:
        """Pipelines joined by `&&` and `||`; says whether `;`, `&` or a newline ends them."""
        parts, chain = self.found.parts, 0
        start, simple = len(parts), self._pipeline()
        while (found := _AND_OR.match(self.text, self.pos)) is not None:
            self.operator(found.end() - self.pos)
            self.newlines()
            both = found[0] == "&&"
            if not both or not simple:
                chain = 0
            elif not chain:
                chain = self.found.chain(start, 0)
            start, simple = len(parts), self._pipeline()
            if simple and chain:
                self.found.chain(start, chain)
            # What follows `||` may be passed over, and then nothing is known of it.
            simple = simple and both
        character = self.peek()
        if character == "\n":
            self.newlines()
            return True
        if character in (";", "&") and not _CLAUSE_END.match(self.text, self.pos):
            self.operator(1)
            self.newlines()
            return True
        return False

    def _pipeline(self) -> bool:
        """Says whether it is one simple command that succeeds if the pipeline does."""
        simple = True
        while self.peek() in ("!", "t") and (self.skip(_BANG) or self.skip(_TIME)):
            if _OPTION.match(self.text, self.pos):
                raise Unparsable("time or ! before what is no command")
            self.blanks()
            simple = False
        simple = self.command() and simple
        self.blanks_and_comment()
        while (found := _PIPE.match(self.text, self.pos)) is not None:
            self.operator(found.end() - self.pos)
            self.newlines()
            if "\n" in self.text[found.end() : self.pos] and _TIME.match(self.text, self.pos):
                raise Unparsable("time after | and a newline, which is a program or an error")
            self.command()
            self.blanks_and_comment()
            simple = False
        return simple


def _changes_reading(parts: Sequence[Part]) -> bool:
    """Whether some part switches on what changes how later lines are read, or may do so.

    Bash reads and runs line by line: after history expansion, keyword assignments, aliases or extended
    patterns are switched on, a later line means something else than what we have read.
    """
    return any(_switches(part.words) for part in parts if part.kind == "command")


def _switches(words: Sequence[ShellWord]) -> bool:
    if not words:
        return False
    at = 0
    if words[0].value in _RUN_BUILTINS:
        at = next((index for index, word in enumerate(words) if word.value in _SWITCHES), 0)
    if words[at].value not in _SWITCHES:
        return False
    options = takewhile(lambda word: word.source != "--", words[at + 1 :])
    return any(map(_is_other_rule, options))


def _is_other_rule(option: ShellWord) -> bool:
    value = option.value
    return (
        not option.literal
        or value in _OTHER_RULES
        or _OTHER_RULES_SHORT.match(value) is not None
        or _COMPATIBLE.match(value) is not None
    )
