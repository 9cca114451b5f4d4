"""Matches Bash rules: all patterns of a policy compiled into one automaton.

All rules of a list become one automaton whose set of states is one integer, so a command is read once, word
by word, however many rules there are and wherever they begin to read. Nothing here backtracks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gencode.core.rules import Rule

Values = Sequence[str | None]
"""The words of a command after quote removal; None is a word whose value is not known."""

GIT_VALUED = frozenset(
    {
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--config-env",
        # Not in the specification, but git takes their value the same way.
        "--attr-source",
        "--super-prefix",
    }
)


class BashPattern(NamedTuple):
    """A pattern taken apart. `words` may hold lone stars; `fixed` counts the leading words without a star."""

    words: tuple[str, ...]
    open_tail: bool
    fixed: int

    @property
    def exact(self) -> bool:
        """Whether it has no star at all."""
        return not self.open_tail and self.fixed == len(self.words)


def bash_pattern(text: str) -> BashPattern:
    """Read `git status`, `git status:*`, `git status *`, `git * main` or `test*`."""
    open_tail = text.endswith(":*")
    words = (text[:-2] if open_tail else text).split()
    if words and not open_tail and words[-1] == "*":
        open_tail = True
        words.pop()
    fixed = next((at for at, word in enumerate(words) if "*" in word), len(words))
    return BashPattern(tuple(words), open_tail, fixed)


def only_stars(text: str) -> bool:
    """Whether a pattern names nothing at all; as a deny or ask rule it then speaks of everything."""
    return not text.strip("*: \t\n")


class Track(NamedTuple):
    """Words and the places from which rules read them: `starts`, and every place from `free_from` on."""

    values: tuple[str | None, ...]
    starts: tuple[int, ...]
    free_from: int


class Automaton:
    """Rules compiled together. Each pattern has one bit before each of its words and one at its end.

    A bit in `_any` moves on with every word, a bit in `_fixed[word]` with that word, a bit of `_globs` with
    the words that fit, and a bit in `_loop` also stays where it is. With `through` the path of a command word
    and the global options of git are looked through, as deny and ask rules do.
    """

    __slots__ = (
        "_any",
        "_ends",
        "_fixed",
        "_git",
        "_globs",
        "_longest",
        "_loop",
        "_open_start",
        "_starts",
        "_through",
        "ends_of",
        "rules",
    )

    def __init__(self, rules: Sequence[Rule], *, through: bool) -> None:
        self.rules = tuple(rules)
        self._through = through
        self.ends_of: dict[int, tuple[Rule, BashPattern]] = {}
        self._any = self._ends = self._loop = self._starts = self._longest = 0
        self._fixed: dict[str, int] = {}
        self._globs: list[tuple[int, list[str]]] = []
        bit = 1
        for rule in self.rules:
            pattern = bash_pattern(rule.pattern)
            self._starts |= bit
            self._longest = max(self._longest, len(pattern.words))
            for word in pattern.words:
                self._add(word, bit)
                bit <<= 1
            self._ends |= bit
            self.ends_of[bit] = (rule, pattern)
            if pattern.open_tail:
                self._loop |= bit
            bit <<= 1
        open_bits = self._any | self._loop | sum(bit for bit, _ in self._globs)
        self._open_start = bool(self._starts & open_bits)
        self._git = self._begun("git")

    def _add(self, word: str, bit: int) -> None:
        if word == "*":
            self._any |= bit
            self._loop |= bit << 1
        elif "*" in word:
            self._globs.append((bit, word.split("*")))
        else:
            self._fixed[word] = self._fixed.get(word, 0) | bit

    def matches(self, track: Track, *, possible: bool = False) -> int:
        """The ends of all patterns that match from some start.

        With `possible` an unknown word stands for any number of words; without, only an open tail or a lone
        star covers it.
        """
        values, starts, free_from = track
        if not self._starts:
            return 0
        if free_from > len(values) and len(starts) == 1 and self._silent(values[starts[0]]):
            return 0
        last_start = len(values) if free_from <= len(values) else starts[-1] if starts else -1
        states = 0
        jumps: dict[int, int] = {}
        skipped: dict[int, int] = {}
        began: bool | None = None
        same = 0
        for at, value in enumerate(values):
            begins = at >= free_from or at in starts
            if begins:
                states |= self._starts
            if at in jumps:
                states |= jumps.pop(at)
                began = None
            if not states and at > last_start and not jumps:
                return 0
            if value is None:
                same = same + 1 if began == begins else 0
                began = begins
                # After so many unknown words in a row nothing changes any more.
                if same <= self._longest + 1:
                    states = self._filled(states) if possible else self._moved(states, self._any)
                continue
            began = None
            after = self._moved(states, self._step(value, states)) if states else 0
            if begins and self._through and (value == "git" or "/" in value):
                name = value.rpartition("/")[2]
                begun = self._git if name == "git" else self._begun(name)
                if name != value:
                    after |= begun
                if name == "git" and begun:
                    sub = _subcommand(values, at + 1, skipped)
                    if sub != at + 1:
                        jumps[sub] = jumps.get(sub, 0) | begun
            states = after
        return (states | jumps.get(len(values), 0)) & self._ends

    def _silent(self, value: str | None) -> bool:
        """Whether no pattern can begin with a word, which is so for most commands."""
        if value is None or self._open_start or (self._through and "/" in value):
            return False
        return not self._fixed.get(value, 0) & self._starts

    def first(self, ends: int) -> tuple[Rule, BashPattern]:
        """The first rule of a set of ends that is not empty."""
        return self.ends_of[ends & -ends]

    def _begun(self, name: str) -> int:
        """The states after a command word alone."""
        return self._moved(self._starts, self._step(name, self._starts))

    def _moved(self, states: int, movers: int) -> int:
        return ((states & movers) << 1) | (states & self._loop)

    def _step(self, value: str, states: int) -> int:
        movers = self._any | self._fixed.get(value, 0)
        for bit, pieces in self._globs:
            if states & bit and _fits(value, pieces):
                movers |= bit
        return movers

    def _filled(self, states: int) -> int:
        for _ in range(self._longest):
            more = states | ((states & ~self._ends) << 1)
            if more == states:
                break
            states = more
        return states


def _fits(value: str, pieces: list[str]) -> bool:
    """Whether a word is these pieces in their order with anything between them."""
    first, last = pieces[0], pieces[-1]
    if len(value) < len(first) + len(last) or not value.startswith(first) or not value.endswith(last):
        return False
    at, end = len(first), len(value) - len(last)
    for piece in pieces[1:-1]:
        at = value.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def git_subcommand(values: Values) -> int:
    """Where the subcommand stands in the words of git."""
    return _subcommand(values, 1, {})


def _subcommand(values: Values, at: int, skipped: dict[int, int]) -> int:
    """Where git's subcommand stands if its options begin at `at`. `skipped` remembers earlier walks."""
    walked: list[int] = []
    while at < len(values) and at not in skipped:
        value = values[at]
        if value is None or not value.startswith("-"):
            break
        walked.append(at)
        at += 2 if value in GIT_VALUED else 1
    found = min(skipped.get(at, at), len(values))
    for place in walked:
        skipped[place] = found
    return found
