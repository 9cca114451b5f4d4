"""Parses simple commands: assignments, words and redirections in any order that bash allows."""

import re

from gencode.core.text import word_set
from gencode.permissions.bash.parts import Assignment, Part, ShellWord, Unparsable, WordPiece
from gencode.permissions.bash.redirections import PartDraft, Redirections
from gencode.permissions.bash.scanner import NAME, WORD_ENDS
from gencode.permissions.bash.words import PLAIN, PLAIN_WORDS, bare, plain_words

RESERVED = word_set(
    "if then elif else fi for while until do done case esac in select function time coproc { } ! [[ ]]"
)

RESERVED_WORD = rf"(?:{'|'.join(map(re.escape, sorted(RESERVED)))}){WORD_ENDS}"
PLAIN_NAME = PLAIN.replace("{", "{=")
"""A command word without anything special, which is no assignment either."""

_PLAIN_COMMAND = re.compile(
    rf"(?!{RESERVED_WORD}){PLAIN_NAME}(?:[ \t]++{PLAIN})*+[ \t]*+(?=[\n;|)#]|&(?!>)|\Z)"
)
_ASSIGNMENT = re.compile(rf"({NAME})\+?=")
_BEGINS_WITH_NAME = re.compile(NAME)
_BEGINS_LIKE_ELEMENT = re.compile(rf"{NAME}\[")
_SUBSCRIPT = (
    r"""\[(?:[A-Za-z0-9_@*+./:-]|\$(?:\w|\{\w++\})|"[A-Za-z0-9_@*+./:$ -]*+"|'[A-Za-z0-9_@*+./: -]*+')*+\]"""
)
_ELEMENT = re.compile(rf"({NAME}){_SUBSCRIPT}(\+?=)?", re.ASCII)
_ARRAY_INDEX = re.compile(_SUBSCRIPT, re.ASCII)
_ARRAY = re.compile(rf"({NAME})(?:{_SUBSCRIPT})?\+?=\Z", re.ASCII)
_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_.:/,%^-]++\Z")
_EMPTY_PARENTHESES = re.compile(r"\([ \t]*+\)")
_ENDS_HERE = re.compile(WORD_ENDS)
_TAKE_ARRAYS = frozenset({"declare", "typeset", "local", "export", "readonly", "alias", "eval", "let"})

DYNAMIC_COMMAND = "its command word is only known when it runs"
ARRAY = "it assigns to an array"


class SimpleCommands(Redirections):
    """Reads simple commands."""

    def simple(self) -> str:
        """Read a simple command. If it turns out to be a function definition, give back the name."""
        start, outer = self.pos, self.reason
        self.reason = ""
        draft = PartDraft()
        words = draft.words
        text = self.text
        while True:
            if words and (found := PLAIN_WORDS.match(text, self.pos)):
                self.pos = found.end()
                words += plain_words(found[0])
            self.blanks()
            character = text[self.pos : self.pos + 1]
            if character == "(":
                name = self._function_name(text[start : self.pos])
                self.reason = outer
                return name
            if character in "\n;|)#" or (character == "&" and text[self.pos + 1 : self.pos + 2] != ">"):
                break
            if character not in "0123456789{<>&" or not self.redirection(draft):
                self._word_of_command(draft)
        if words and not words[0].literal:
            self.mark(DYNAMIC_COMMAND)
        written = self.finish(draft, start)
        if not written and self.pos == start:
            raise Unparsable("a command is missing")
        self.reason = outer
        return ""

    def plain(self) -> bool:
        """Read a command that consists of plain words, if there is one: most do, so this is the quick way."""
        found = _PLAIN_COMMAND.match(self.text, self.pos)
        if found is None:
            return False
        self.pos = found.end()
        self.found.add(Part("command", tuple(plain_words(found[0])), source=found[0].rstrip()))
        return True

    def finish(self, draft: PartDraft, start: int) -> bool:
        """Turn the draft into a part, if there is anything in it."""
        runs = bool(draft.words or draft.assignments)
        if not (runs or draft.inputs or draft.fed or self.reason):
            return False
        self.found.add(
            Part(
                "command" if runs else "inert",
                tuple(draft.words),
                tuple(draft.assignments),
                tuple(draft.inputs),
                tuple(draft.fed),
                self.reason,
                self.text[start : self.pos].rstrip(),
            )
        )
        return True

    def _word_of_command(self, draft: PartDraft) -> None:
        word = self.word()
        if not draft.words:
            if _BEGINS_LIKE_ELEMENT.match(word.source.replace("\\\n", "")):
                self._element(word, draft)
            elif self.peek() == "(" and _ARRAY.match(bare(word)):
                self._array(draft, word)
            elif found := _assignment(word):
                draft.assignments.append(found)
            elif not draft.assignments and bare(word) in RESERVED and word.source != "time":
                raise Unparsable(f"{bare(word)} stands where a command should")
            else:
                draft.words.append(word)
        else:
            if self.peek() == "(" and self._takes_arrays(draft) and _ARRAY.match(bare(word)):
                self._array(draft, word)
            draft.words.append(word)

    def _takes_arrays(self, draft: PartDraft) -> bool:
        return not draft.redirected and bare(draft.words[0]) in _TAKE_ARRAYS

    def _element(self, word: ShellWord, draft: PartDraft) -> None:
        """Bash reads a subscript before a command to its `]`, blanks and all; we know the simple ones."""
        found = _ELEMENT.match(word.source)
        if found is None:
            raise Unparsable("a subscript that cannot be read for certain")
        if found[2] is None:
            draft.words.append(word)
            return
        if self.peek() == "(" and found.end() == len(word.source):
            self._array(draft, word)
        self.mark(ARRAY)
        draft.assignments.append(Assignment(found[1], word))

    def _array(self, draft: PartDraft, beginning: ShellWord) -> None:
        """`(…)` after `name=`. Its words count as values."""
        self.mark(ARRAY)
        name = _BEGINS_WITH_NAME.match(beginning.source)
        draft.assignments.append(Assignment(name[0] if name else "", beginning))
        self.operator(1)
        self.newlines()
        while self.peek() != ")":
            if self.text.startswith("[", self.pos) and not _ARRAY_INDEX.match(self.text, self.pos):
                raise Unparsable("a subscript that cannot be read for certain")
            word = self.word()
            if self.substitutions and "\\" in word.source:
                raise Unparsable("bash loses backslashes of an array in a substitution")
            draft.assignments.append(Assignment(name[0] if name else "", word))
            self.newlines()
        self.pos += 1
        if not _ENDS_HERE.match(self.text, self.pos):
            raise Unparsable("something follows an array directly")

    def _function_name(self, source: str) -> str:
        name = source.rstrip(" \t")
        if not _FUNCTION_NAME.match(name) or not self.skip(_EMPTY_PARENTHESES):
            raise Unparsable("a ( that does not belong there")
        return name


def _assignment(word: ShellWord) -> Assignment | None:
    """The assignment a word before the command is, if it is one."""
    first = word.pieces[0]
    if first.kind != "text" or first.quoted:
        return None
    found = _ASSIGNMENT.match(first.text)
    if found is None:
        return None
    rest = first.text[found.end() :]
    pieces = (WordPiece(rest), *word.pieces[1:]) if rest else word.pieces[1:]
    return Assignment(found[1], ShellWord(pieces, word.source.partition("=")[2]))
