"""Finds the script that a shell such as `sh -c` runs, as far as its words show.

`sh -c 'text'` with nothing else is plain: its script takes its place. Every other way to hand a shell its
script is opaque, but a script that stands there as text is still taken apart, so that deny rules reach it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gencode.permissions.bash.parts import ShellWord
from gencode.permissions.bash.wrappers import base_name

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "ksh93", "mksh", "yash", "csh", "tcsh", "fish"}
)
"""The first six are those of the specification; the others read scripts in the same ways."""

_PLAIN = frozenset({"sh", "bash", "dash"})
_LONG_VALUED = frozenset({"--rcfile", "--init-file"})
_LONG_FLAGS = frozenset({"--norc", "--noprofile", "--posix", "--login", "--verbose", "--restricted"})
_STDIN = ("/dev/stdin", "/dev/fd/", "/proc/")


class ShellUse(NamedTuple):
    """`script` is the word of `-c`, `opaque` why nobody knows what it runs, `stdin` that it reads there."""

    plain: bool = False
    script: ShellWord | None = None
    opaque: str = ""
    stdin: bool = False


def is_stdin(value: str) -> bool:
    """Whether a script of this name is really what is fed to the command."""
    return value == "-" or value.startswith(_STDIN)


def fed_by_process(word: ShellWord) -> bool:
    """Whether a word is `<(…)`: a script that another command writes."""
    return any(piece.kind == "substitution" and piece.text.startswith("<(") for piece in word.pieces)


def shell_use(words: Sequence[ShellWord], at: int, *, alone: bool) -> ShellUse:
    """How the shell at `at` gets its script. Only one that stands `alone` can be plain."""
    name = base_name(words[at].value)
    reading = _read_options(words, at + 1)
    operand = words[reading.at] if reading.at < len(words) else None
    if reading.script:
        plain = (
            alone
            and operand is not None
            and words[at].value in _PLAIN
            and words[at + 1].value == "-c"
            and reading.at == at + 2
            and all(word.literal for word in words[at + 1 :])
        )
        return ShellUse(
            plain, operand, "" if plain else f"{name} gets its script in another way than plain -c"
        )
    if reading.unsure:
        return ShellUse(opaque=reading.unsure.format(name), stdin=True)
    if reading.stdin or operand is None or (operand.literal and is_stdin(operand.value)):
        return ShellUse(opaque=f"{name} reads its script from its input", stdin=True)
    if fed_by_process(operand):
        return ShellUse(opaque=f"{name} runs what another command writes")
    return ShellUse()


class _ShellOptions(NamedTuple):
    at: int
    script: bool
    stdin: bool
    unsure: str


def _read_options(words: Sequence[ShellWord], at: int) -> _ShellOptions:
    script = stdin = False
    unsure = ""
    while at < len(words):
        word = words[at]
        if not word.literal:
            first = word.pieces[0]
            if script or (first.kind == "text" and first.text and first.text[0] not in "-+"):
                break
            unsure = "a word of {} before its script is only known when it runs"
            at += 1
            continue
        value = word.value
        if value in ("--", "-"):
            at += 1
            break
        if value.startswith("--"):
            if value not in _LONG_FLAGS and value not in _LONG_VALUED:
                unsure = "an option of {} is not known here"
            at += 2 if value in _LONG_VALUED else 1
        elif len(value) > 1 and value[0] in "-+":
            letters = value[1:]
            script = script or "c" in letters
            stdin = stdin or "s" in letters
            at += 1 + letters.count("o") + letters.count("O")
        else:
            break
    return _ShellOptions(min(at, len(words)), script, stdin, unsure)


def trap_text(words: Sequence[ShellWord]) -> ShellWord | None:
    """The command that `trap` keeps for later, from the words after it."""
    operands = [word for word in words if word.value not in ("-l", "-p", "-P", "--")]
    return operands[0] if len(operands) > 1 and operands[0].value != "-" else None
