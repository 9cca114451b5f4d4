"""Finds the code that a command runs: scripts of shells, eval and trap, commands of find, builtins."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from gencode.core.text import word_set
from gencode.permissions.bash.forms import made_unknown, values_of
from gencode.permissions.bash.nested_shells import SHELLS, fed_by_process, is_stdin, shell_use, trap_text
from gencode.permissions.bash.parts import FrameKind, Part, ShellWord, Unparsable
from gencode.permissions.bash.rule_automaton import git_subcommand
from gencode.permissions.bash.wrappers import (
    RUNNERS,
    RUNS_FIRST_WORD,
    TAKES_SHELL_TEXT,
    WrapperReach,
    base_name,
)

_MOVES = frozenset({"cd", "pushd", "popd"})
_SOURCES = frozenset({"source", "."})
_KEEPS_TEXT = frozenset({"eval", "trap", "alias"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_SUBSCRIPTS = word_set(
    "test [ printf read unset declare typeset local export readonly let mapfile readarray getopts wait"
)
_COMPLETES = frozenset({"compgen", "complete"})
_OPTION_RUNS = {
    "mapfile": "C",
    "readarray": "C",
    "hash": "p",
    "enable": "f",
    "declare": "n",
    "typeset": "n",
    "local": "n",
}
"""Builtins with an option that names a command or another variable, by the letter of that option."""
SPECIAL = (
    SHELLS
    | _MOVES
    | _SOURCES
    | _KEEPS_TEXT
    | _SUBSCRIPTS
    | _COMPLETES
    | _OPTION_RUNS.keys()
    | RUNNERS.keys()
    | {"find"}
)
"""Commands whose name means something here."""
_MOST_PLACES = 100
_CD_OPTION = re.compile(r"-[LPe@]+")
# `su -c'text'`, `su --command=text`
_BEFORE_TEXT = re.compile(r"--[a-z-]+=|-[A-Za-z]*?c")
_TEXT_OPTION = re.compile(r"-[a-z]*c|--call|--command")
_SHELL_CHARACTERS = frozenset(" \t\n;&|<>()`$")


class NestedScript(NamedTuple):
    """A text that will be run. Not `certain`: the text is only close to what will run.

    `frame` is what it runs in: a shell of its own, the shell it stands in (None), or that one at any time.
    """

    text: str
    certain: bool
    frame: FrameKind | None = "subshell"

    @property
    def empty(self) -> bool:
        """Whether it certainly runs nothing."""
        return self.certain and not self.text.strip(" \t\n")


class FolderChange(NamedTuple):
    """A `cd`. `folder` is None if it is only known when it runs; `back` is `cd -` and `popd`."""

    folder: str | None
    back: bool = False


class CommandMeaning(Struct):
    """What the names in a part say: why it is opaque, the scripts and commands it runs, where a `cd` leads.

    `strict_scripts` are texts that a dispatcher may give to a shell: only deny and ask rules look at them.
    """

    opaque: str = ""
    plain_shell: bool = False
    move: FolderChange | None = None
    idle: bool = False
    """It is eval, trap or a plain shell with nothing to run."""
    scripts: list[NestedScript] = []
    exec_parts: list[Part] = []
    strict_scripts: list[NestedScript] = []


def places_of_names(values: Sequence[str | None], found: WrapperReach) -> tuple[int, ...]:
    """Where a command may stand whose name means something here."""
    if found.free_from < 0 or _runs_its_first_word(values, found):
        at = found.core
        return (at,) if at < len(values) and base_name(values[at] or "") in SPECIAL else ()
    names = [base_name(value) if value else "" for value in values]
    handing = [at for at in found.heads if at < len(values) and names[at] in TAKES_SHELL_TEXT]
    behind = [at for at in range(found.free_from, len(values)) if names[at] in SPECIAL]
    if len(behind) > _MOST_PLACES:
        raise Unparsable("one command of it may run too many others")
    return (*behind, *handing[:1])


def _runs_its_first_word(values: Sequence[str | None], found: WrapperReach) -> bool:
    """Whether dispatchers leave no doubt about their command: it follows them, without any option between."""
    on_the_way = [at for at in found.heads if found.free_from <= at < found.core]
    return not found.unknown and all(
        base_name(values[at] or "") in RUNS_FIRST_WORD and at + 1 in found.heads for at in on_the_way
    )


def meaning(
    part: Part, words: tuple[ShellWord, ...], found: WrapperReach, places: tuple[int, ...], *, alone: bool
) -> CommandMeaning:
    """What the names at these places say about a part. `alone`: nothing but safe wrappers is around it."""
    means = CommandMeaning()
    fed = [NestedScript(text, True) for text in part.fed if text is not None]
    for at in places:
        if not words[at].literal:
            continue
        name = base_name(words[at].value)
        if name in SHELLS:
            _shell(means, words, at, fed, alone=alone)
        elif name == "find":
            means.exec_parts = means.exec_parts or _exec_parts(words[at + 1 :])
        elif name in _MOVES:
            means.move = FolderChange(None) if means.move else _destination(name, words[at + 1 :])
        elif name in TAKES_SHELL_TEXT:
            means.strict_scripts.extend(_shell_words(words[at + 1 :]))
        elif name in RUNNERS and found.runs_from >= 0:
            _runner(means, words, found.runs_from, assigns=bool(part.assignments))
        elif at in found.heads:
            _builtin(means, name, words[at + 1 :], fed, bare=words[at].value == name)
    return means


def _shell(
    means: CommandMeaning, words: Sequence[ShellWord], at: int, fed: list[NestedScript], *, alone: bool
) -> None:
    use = shell_use(words, at, alone=alone)
    if use.script is not None:
        script = NestedScript(use.script.value, use.script.literal)
        means.scripts.append(script)
        means.idle = use.plain and script.empty
    if use.stdin:
        means.scripts.extend(fed)
    means.plain_shell = use.plain
    means.opaque = means.opaque or use.opaque


def _builtin(
    means: CommandMeaning, name: str, words: Sequence[ShellWord], fed: list[NestedScript], *, bare: bool
) -> None:
    script: NestedScript | None = None
    if name == "eval" and words:
        text = " ".join(word.value for word in words)
        script = NestedScript(text.removeprefix("-- "), all(word.literal for word in words), None)
    elif name == "trap" and (word := trap_text(words)):
        script = NestedScript(word.value, word.literal, "function")
    if script and script.empty and bare and all(word.literal for word in words):
        means.idle = True
    elif name in _KEEPS_TEXT:
        means.opaque = means.opaque or f"{name} keeps or runs a text as a command"
    if script:
        means.scripts.append(script)
    if name in _SOURCES and words and words[0].literal and is_stdin(words[0].value):
        means.opaque = means.opaque or f"{name} runs what is fed to it"
        means.scripts.extend(fed)
    elif name in _SOURCES and words and fed_by_process(words[0]):
        means.opaque = means.opaque or f"{name} runs what another command writes"
    elif name in _COMPLETES or any(_has_letter(word, _OPTION_RUNS.get(name, "")) for word in words):
        means.opaque = means.opaque or f"{name} may run what one of its words names"
    elif name in _SUBSCRIPTS and any(map(_may_hold_a_subscript, words)):
        means.opaque = means.opaque or f"{name} may run the code in a subscript"


def _destination(name: str, words: Sequence[ShellWord]) -> FolderChange:
    """Where a `cd` (or pushd, or popd) leads, from the words after it."""
    operands = list(words)
    while operands and operands[0].literal and _CD_OPTION.fullmatch(operands[0].value):
        operands.pop(0)
    if operands and operands[0].source == "--":
        operands.pop(0)
    if not operands:
        return FolderChange("~") if name == "cd" else FolderChange(None, back=True)
    word = operands[0]
    value = word.value
    if len(operands) > 1:
        return FolderChange(None)
    if value == "-" or name == "popd" or (name == "pushd" and value[:1] in ("-", "+")):
        return FolderChange(None, back=True)
    return FolderChange(None if value.startswith("-") else _folder(word))


def _folder(word: ShellWord) -> str | None:
    """The folder that a word names, None if that is only known when it runs.

    A quote anywhere in it may keep a tilde from being expanded.
    """
    value = word.value
    if not word.literal:
        return None
    tilde = value.startswith("~") and (
        value[1:2] not in ("", "/") or any(each.quoted for each in word.pieces)
    )
    return None if tilde else value


def git_folders(words: Sequence[ShellWord]) -> tuple[str | None, ...]:
    """The folders of git's `-C`, in their order; None for one that is only known when it runs."""
    options = range(1, git_subcommand(values_of(words)))
    return tuple(_folder(words[at + 1]) for at in options if words[at].value == "-C" and at + 1 < len(words))


def _has_letter(word: ShellWord, letter: str) -> bool:
    """Whether a word may be an option of a builtin with this letter."""
    if not letter:
        return False
    first = word.pieces[0] if word.pieces else None
    if word.literal:
        return word.value[:1] in ("-", "+") and letter in word.value
    return first is None or first.kind != "text" or first.text[:1] in ("", "-", "+")


def _may_hold_a_subscript(word: ShellWord) -> bool:
    text = "".join(piece.text if piece.kind == "text" else "\0" for piece in word.pieces)
    return "$(" in text or "${" in text or "`" in text


def _runner(means: CommandMeaning, words: Sequence[ShellWord], begin: int, *, assigns: bool) -> None:
    """A program that runs another one: shells behind it read scripts as well.

    With an assignment before it a shell may also run a file, as BASH_ENV names one.
    """
    means.strict_scripts.extend(_shell_texts(words[begin:]))
    for at in range(begin, len(words)):
        name = base_name(words[at].value) if words[at].literal else ""
        if name in SHELLS:
            use = shell_use(words, at, alone=False)
            assigns = assigns or any("=" in word.value for word in words[begin:at])
            means.opaque = means.opaque or ("" if use.script and not assigns else use.opaque)
        elif name in TAKES_SHELL_TEXT:
            means.strict_scripts.extend(_shell_words(words[at + 1 :]))
            return


def _shell_texts(words: Sequence[ShellWord]) -> Iterator[NestedScript]:
    """The texts that a program gives to a shell behind an option such as `-c`."""
    for option, word in pairwise(words):
        if _TEXT_OPTION.fullmatch(option.value):
            yield NestedScript(word.value, False)


def _shell_words(words: Sequence[ShellWord]) -> Iterator[NestedScript]:
    """The words of a dispatcher that a shell would take apart."""
    for word in words:
        text = word.value
        if not _SHELL_CHARACTERS.isdisjoint(text):
            option = _BEFORE_TEXT.match(text)
            yield NestedScript(text[option.end() :] if option else text, False)


def _exec_parts(words: Sequence[ShellWord]) -> list[Part]:
    """The commands of `-exec` and its kin."""
    values = values_of(words)
    exec_parts: list[Part] = []
    at = 0
    while at < len(values):
        begins = values[at] in _FIND_RUNS
        at += 1
        if not begins:
            continue
        end = at
        while end < len(values) and not _ends_exec(values, end):
            end += 1
        if at < end:
            command = tuple(
                [
                    made_unknown(word, ("{}",)) if value is not None and "{}" in value else word
                    for word, value in zip(words[at:end], values[at:end], strict=True)
                ]
            )
            source = " ".join([word.source for word in words[at:end]])
            exec_parts.append(Part("command", command, source=source))
        at = end + 1
    return exec_parts


def _ends_exec(values: Sequence[str | None], at: int) -> bool:
    return values[at] == ";" or (values[at] == "+" and at > 0 and values[at - 1] == "{}")
