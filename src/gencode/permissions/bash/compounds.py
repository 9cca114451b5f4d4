"""Parses compound commands: groups, loops, conditions, case, functions and coprocesses.

None of them runs anything by itself. What they read becomes a part that is inert: the words of a loop, the
patterns of a case, the redirections behind a group.
"""

import re

from gencode.permissions.bash.commands import RESERVED, RESERVED_WORD
from gencode.permissions.bash.conditions import Conditions
from gencode.permissions.bash.parts import Assignment, Part, ShellWord, Unparsable
from gencode.permissions.bash.redirections import PartDraft
from gencode.permissions.bash.scanner import NAME, WORD_ENDS
from gencode.permissions.bash.words import bare

_KEYWORD = re.compile(rf"(?:if|for|while|until|case|select|function|coproc|\{{|\[\[(?=[ \t])){WORD_ENDS}")
_VARIABLE = re.compile(rf"({NAME}){WORD_ENDS}")
_IN = re.compile(rf"in{WORD_ENDS}")
_DO = re.compile(rf"do{WORD_ENDS}")
_BRACE = re.compile(r"\{(?=[ \t\n])")
_ESAC = re.compile(rf"esac{WORD_ENDS}")
_CLAUSE_END = re.compile(r";;&|;;|;&")
_LIST_END = re.compile(r"[\n;](?![;&])")
_FUNCTION = re.compile(r"([A-Za-z0-9_.:/,%^-]++)(?=[ \t\n(])[ \t]*+(\([ \t]*+\))?")
_NAMED_COPROCESS = re.compile(rf"(?!{RESERVED_WORD})({NAME})[ \t]++(?=\{{[ \t\n]|\()")

_END_OF_GROUP = frozenset({"}"})
_END_OF_SUBSHELL = frozenset({")"})
_THEN = frozenset({"then"})
_END_OF_BRANCH = frozenset({"elif", "else", "fi"})
_FI = frozenset({"fi"})
_START_OF_BODY = frozenset({"do"})
_DONE = frozenset({"done"})
_END_OF_CLAUSE = frozenset({";;", "esac"})

FUNCTION = "it defines a function"
COPROCESS = "it starts a coprocess"


class Compounds(Conditions):
    """Reads compound commands. `redirected` says whether the last one had redirections behind it."""

    redirected = False

    def command(self) -> bool:
        """Any command: a compound one, or a simple one, which may turn out to define a function.

        Says whether it is a simple one.
        """
        self.redirected = True
        if self.plain():
            return True
        if self._compound():
            return False
        name = self.simple()
        if name:
            self._function_body(name)
        return not name

    def _compound(self, *, body: bool = False) -> bool:
        """Read a compound command, if one begins here. A body is neither function nor coprocess."""
        start = self.pos
        if self.peek() == "(":
            keyword = "("
        else:
            found = _KEYWORD.match(self.text, self.pos)
            if found is None:
                return False
            keyword = found[0]
        if body and keyword in ("function", "coproc"):
            raise Unparsable(f"{keyword} stands where it cannot")
        self.enter()
        if keyword == "(" and self.text.startswith("((", start):
            self._arithmetic_command()
        else:
            self.operator(len(keyword))
            self._read_compound(keyword)
        self.leave()
        if keyword not in ("function", "coproc"):
            self._redirections_behind()
        return True

    def _read_compound(self, keyword: str) -> None:
        match keyword:
            case "(":
                with self.found.within("subshell"):
                    self.commands(_END_OF_SUBSHELL)
            case "{":
                self.commands(_END_OF_GROUP)
            case "if":
                self._if()
            case "while" | "until":
                with self.found.within("loop"):
                    self.commands(_START_OF_BODY)
                    self.commands(_DONE)
            case "for" | "select":
                with self.found.within("loop"):
                    self._loop(keyword)
            case "case":
                self._case()
            case "[[":
                self.condition()
            case "function":
                self._function()
            case _:
                self._coprocess()

    def _redirections_behind(self) -> None:
        self.blanks()
        start, outer = self.pos, self.reason
        self.reason = ""
        draft = PartDraft()
        self.redirected = False
        while self.redirection(draft):
            self.redirected = True
            self.blanks()
        self.finish(draft, start)
        self.reason = outer

    def _arithmetic_command(self) -> None:
        start, outer = self.pos, self.reason
        self.reason = ""
        self.pos += 2
        self.arithmetic()
        self.found.add(Part("inert", opaque=self.reason, source=self.text[start : self.pos]))
        self.reason = outer

    def _if(self) -> None:
        branch = "elif"
        while branch == "elif":
            self.commands(_THEN)
            branch = self.commands(_END_OF_BRANCH)
        if branch == "else":
            self.commands(_FI)

    def _loop(self, keyword: str) -> None:
        start, outer = self.pos - len(keyword), self.reason
        self.reason = ""
        self.blanks()
        if keyword == "for" and self.text.startswith("((", self.pos):
            self.pos += 2
            self.arithmetic(semicolons=2)
            self.found.add(Part("inert", opaque=self.reason, source=self.text[start : self.pos]))
            self.blanks()
            if self.peek() == ";":
                self.operator(1)
        else:
            self._loop_words(start)
        self.reason = outer
        self.newlines()
        if self.skip(_DO):
            self.commands(_DONE)
        elif self.skip(_BRACE) and self.text[start : self.pos].rstrip("{ \t\n").endswith((";", ")")):
            self.commands(_END_OF_GROUP)
        else:
            raise Unparsable("do is missing")

    def _loop_words(self, start: int) -> None:
        found = _VARIABLE.match(self.text, self.pos)
        if found is None:
            raise Unparsable("a loop without a variable")
        self.pos = found.end()
        words: list[ShellWord] = []
        self.blanks()
        if self.skip(_IN):
            self.blanks_and_comment()
            while self.peek() not in ("", "\n", ";"):
                words.append(self.word())
                self.blanks_and_comment()
            if not _LIST_END.match(self.text, self.pos):
                raise Unparsable("do is missing")
        variable = Assignment(found[1], ShellWord((), ""))
        source = self.text[start : self.pos].rstrip()
        self.found.add(Part("inert", tuple(words), (variable,), opaque=self.reason, source=source))
        if self.peek() == ";":
            self.operator(1)

    def _case(self) -> None:
        start, outer = self.pos - len("case"), self.reason
        self.reason = ""
        self.blanks()
        words = [self.word()]
        self.newlines()
        if not self.skip(_IN):
            raise Unparsable("in is missing after case")
        self.newlines()
        while not self.skip(_ESAC):
            self._patterns(words)
            self.newlines()
            if self.skip(_CLAUSE_END):
                self.newlines()
            elif not _ESAC.match(self.text, self.pos):
                reason, self.reason = self.reason, ""
                closer = self.commands(_END_OF_CLAUSE)
                self.reason = reason
                if closer == "esac":
                    break
                self.newlines()
        source = self.text[start : self.pos]
        self.found.add(Part("inert", tuple(words), opaque=self.reason, source=source))
        self.reason = outer

    def _patterns(self, words: list[ShellWord]) -> None:
        if self.peek() == "(":
            self.operator(1)
        while True:
            self.blanks()
            word = self.word()
            if bare(word) == "esac":
                raise Unparsable("esac stands where a pattern should")
            words.append(word)
            self.blanks()
            if self.peek() != "|":
                break
            self.operator(1)
        if self.peek() != ")":
            raise Unparsable("a pattern that cannot be read for certain")
        self.pos += 1

    def _function(self) -> None:
        self.blanks()
        found = _FUNCTION.match(self.text, self.pos)
        if found is None or not (found[2] or self.text[found.end() : found.end() + 1] in ("\n", "{", "(")):
            raise Unparsable("a function that cannot be read for certain")
        self.pos = found.end()
        self._function_body(found[1])

    def _function_body(self, name: str) -> None:
        self.found.add(Part("inert", opaque=FUNCTION, source=f"{name}()"))
        self.newlines()
        with self.found.within("function"):
            if not self._compound(body=True):
                raise Unparsable("a function without a body")

    def _coprocess(self) -> None:
        if self.substitutions:
            raise Unparsable("a coprocess in a substitution, which bash reads differently when it runs")
        self.found.add(Part("inert", opaque=COPROCESS, source="coproc"))
        self.blanks()
        self.skip(_NAMED_COPROCESS)
        if self._compound(body=True):
            return
        if not self.plain() or any(word.source in RESERVED for word in self.found.parts[-1].words[:2]):
            raise Unparsable("a coprocess that cannot be read for certain")
