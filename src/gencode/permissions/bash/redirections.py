"""Parses redirections: a written file is a part of its own, inputs belong to the command."""

import re

from gencode.permissions.bash.heredocs import HereDocuments
from gencode.permissions.bash.parts import Assignment, Part, ShellWord, Unparsable
from gencode.permissions.bash.scanner import NAME, WORD_ENDS

_REDIRECTION = re.compile(
    rf"""([0-9]{{1,9}}+|\{{{NAME}(?:\[[^\]\n]*+\])?\}})?+"""
    r"""(<<<|<<-|<<|<&|<>|<(?!\()|>>|>\||>&|>(?!\())|(&>>|&>)"""
)
_DUPLICATE = re.compile(rf"(?:[0-9]++|-){WORD_ENDS}")
_SURVIVES_EXPANSION = re.compile(r"[A-Za-z0-9_./:@%+,=-]+\Z")
_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_SOCKETS = ("/dev/tcp/", "/dev/udp/")
_DEVICES = "/dev/"

EXPANDED_TWICE = "bash expands the target of >& twice"
THROUGH_VARIABLE = "it redirects through a variable"
SOCKET = "it opens a network connection"


class PartDraft:
    """A part while it is read."""

    def __init__(self) -> None:
        self.words: list[ShellWord] = []
        self.assignments: list[Assignment] = []
        self.inputs: list[ShellWord] = []
        self.fed: list[str | None] = []
        self.redirected: bool = False


class Redirections(HereDocuments):
    """Reads redirections."""

    def redirection(self, draft: PartDraft) -> bool:
        """Read the redirection that begins here, if one does."""
        found = _REDIRECTION.match(self.text, self.pos)
        if found is None:
            return False
        self.found.step()
        draft.redirected = True
        if found[1] and found[1][0] == "{":
            self.mark(THROUGH_VARIABLE)
        start = self.pos
        self.operator(found.end() - start)
        operator = found[2] or found[3]
        match operator:
            case "<<" | "<<-":
                text, reason = self.here_document(strip_tabs=operator == "<<-")
                draft.fed.append(text)
                if reason:
                    self.mark(reason)
            case "<<<":
                self.blanks()
                word = self.word()
                draft.fed.append(word.value if word.literal else None)
            case "<":
                self.blanks()
                self._input(self.word(), draft)
            case "<&" | ">&":
                self._duplicate(operator, draft, start)
            case _:
                self._output(operator, start)
        return True

    def _duplicate(self, operator: str, draft: PartDraft, start: int) -> None:
        self.blanks()
        if self.skip(_DUPLICATE):
            return
        if self.peek() == "-":
            raise Unparsable("a word that begins where a descriptor is closed")
        if operator == ">&":
            self._output(operator, start)
        else:
            self._input(self.word(), draft)

    def _input(self, target: ShellWord, draft: PartDraft) -> None:
        if _may_be_socket(target):
            self.mark(SOCKET)
        draft.inputs.append(target)

    def _output(self, operator: str, start: int) -> None:
        outer, self.reason = self.reason, ""
        self.blanks()
        target = self.word()
        if _may_be_socket(target):
            self.mark(SOCKET)
        if operator == ">&":
            self._expanded_twice(target)
        reason, self.reason = self.reason, outer
        if target.literal and operator != "<>":
            if target.value in _HARMLESS_TARGETS:
                return
            if operator == ">&" and target.value.isascii() and target.value.isdigit():
                return
        self.found.add(Part("write", (target,), opaque=reason, source=self.text[start : self.pos]))

    def _expanded_twice(self, target: ShellWord) -> None:
        """Bash expands the target of `>&` and then expands the result again, so quotes do not protect it."""
        if not target.literal:
            self.mark(EXPANDED_TWICE)
        elif not _SURVIVES_EXPANSION.match(target.value):
            raise Unparsable("a target of >& that bash expands twice")


def _may_be_socket(target: ShellWord) -> bool:
    known = ""
    for piece in target.pieces:
        if piece.kind != "text":
            break
        known += piece.text
    else:
        return known.startswith(_SOCKETS)
    return known.startswith(_DEVICES) and any(
        known.startswith(socket) or socket.startswith(known) for socket in _SOCKETS
    )
