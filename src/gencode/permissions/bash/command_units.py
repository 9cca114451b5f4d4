"""Splits a command line, also `sh -c` and `find -exec`, into units, and says which of these only read.

The parser gives the parts that bash's syntax shows. Here come those that only the names of commands show:
the scripts of shells, the texts of eval and trap, what is fed to a shell, the commands of find -exec; and the
parts that are opaque because of what their command does.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from gencode.core.structs import replace
from gencode.permissions.bash.brace_expansion import with_braces_expanded
from gencode.permissions.bash.command_meanings import (
    SPECIAL,
    CommandMeaning,
    FolderChange,
    NestedScript,
    git_folders,
    meaning,
    places_of_names,
)
from gencode.permissions.bash.evaluated_variables import (
    INTEGERS,
    SETS_VARIABLES,
    declared_integers,
    evaluated_name,
)
from gencode.permissions.bash.forms import (
    AllowForm,
    allow_forms,
    known_values,
    strict_tracks,
    value_of,
    values_of,
    words_behind_xargs,
)
from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Frame, Part, ShellWord, Unparsable
from gencode.permissions.bash.readonly import harmless_assignment, not_read_only, safe_name
from gencode.permissions.bash.rule_automaton import Track
from gencode.permissions.bash.wrappers import NOTHING_WRAPPED, WrapperReach, base_name, reach

MOST_PARTS = 2_000
_MOST_NESTED = 6
_MOST_NESTED_TEXT = 32_768
_NOWHERE = 1 << 30
_NOTHING_SPECIAL = CommandMeaning()
_SAY_WHERE = frozenset({"CDPATH", "HOME", "OLDPWD", "PWD"})
"""Variables that change where a `cd` leads."""


class Unit(Struct):
    """One part with everything about it that does not depend on a policy.

    `words` are what transparent wrappers leave of its words. `more_than_read` says why it is not read-only.
    A `plain_shell` is `sh -c` whose script takes its place. A `strict_only` unit is text that a dispatcher
    hands to a shell: only deny and ask rules look at it. `tracks` is what those rules read, `forms` what
    allow rules read. `exact` are the words that a rule must equal to lift a guard. `move`: it changes the
    folder; `own` are the folders that it goes to for itself, as `git -C` does (None where one is not known).
    `behind_xargs`: further words come when it runs, and for `replaced`.
    """

    part: Part
    words: tuple[ShellWord, ...] = ()
    opaque: str = ""
    more_than_read: str = ""
    plain_shell: bool = False
    strict_only: bool = False
    tracks: tuple[Track, ...] = ()
    forms: tuple[AllowForm, ...] = ()
    exact: tuple[str, ...] | None = None
    move: FolderChange | None = None
    own: tuple[str | None, ...] = ()
    behind_xargs: bool = False
    replaced: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether no rule has to allow it: it only reads, or others of its line say what it does.

        What is allowed by this is run by this: the gate and whoever runs a command ask nothing else.
        """
        return self.strict_only or self.plain_shell or not self.more_than_read

    @property
    def is_git(self) -> bool:
        """Whether it is git, behind nothing but transparent wrappers."""
        return bool(self.words) and base_name(value_of(self.words[0]) or "") == "git"


class CommandLine(NamedTuple):
    """A whole command line. `unparsable` says why it cannot be read; then it has no units.

    `moves`: some part of it runs in another folder than the first.
    """

    units: tuple[Unit, ...] = ()
    unparsable: str = ""
    moves: bool = False


def split_units(text: str) -> CommandLine:
    """Take a command line apart."""
    unfolder = _UnitCollector()
    try:
        unfolder.add(parse(text), depth=0)
    except Unparsable as refusal:
        return CommandLine(unparsable=str(refusal))
    units = unfolder.units
    moving = [unit for unit in units if unit.move]
    if moving and any(each.name in _SAY_WHERE for unit in units for each in unit.part.assignments):
        for unit in moving:
            unit.move = FolderChange(None)
    mark_evaluated(units)
    return CommandLine(tuple(units), moves=bool(moving) or any(unit.own for unit in units))


def mark_evaluated(units: Iterable[Unit]) -> None:
    """Make opaque what sets a variable whose value bash evaluates, to something that may hold a command."""
    setting = [unit for unit in units if unit.part.assignments or _name_of(unit) in SETS_VARIABLES]
    if not setting:
        return
    integers = INTEGERS | {name for unit in setting for name in declared_integers(_name_of(unit), unit.words)}
    for unit in setting:
        if not unit.opaque and (name := evaluated_name(unit.part, _name_of(unit), unit.words, integers)):
            unit.opaque = unit.more_than_read = f"bash evaluates the value of {name}"
            unit.forms, unit.plain_shell = (), False


def _name_of(unit: Unit) -> str:
    name = (value_of(unit.words[0]) or "") if unit.words else ""
    return base_name(name) if "/" in name else name


class _UnitCollector:
    """Collects units; a script inside a part leads to more of them, within bounds that fail closed."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self._nested_text = 0

    def add(
        self, parts: Iterable[Part], depth: int, *, in_exec: bool = False, strict_only: bool = False
    ) -> None:
        """Add parts and whatever is inside them. `in_exec`: find runs them."""
        for part in map(with_braces_expanded, parts):
            if len(self.units) >= MOST_PARTS:
                raise Unparsable(f"it has more than {MOST_PARTS:,} parts")
            if part.kind != "command" or not part.words:
                self.units.append(_without_command(part, strict_only=strict_only))
            else:
                self._look(part, depth, in_exec=in_exec, strict_only=strict_only)

    def _look(self, part: Part, depth: int, *, in_exec: bool, strict_only: bool) -> None:
        values = values_of(part.words)
        found = reach(values)
        if found is NOTHING_WRAPPED and not part.assignments and not part.opaque and _is_common(values[0]):
            self.units.append(_simple(part, values, strict_only=strict_only))
            return
        behind = words_behind_xargs(part.words, found) if found.xargs >= 0 else part.words
        places = places_of_names(values, found)
        means = _NOTHING_SPECIAL
        if places:
            wrapped = in_exec or found.xargs >= 0 or found.free_from >= 0
            means = meaning(part, behind, found, places, alone=not wrapped and _only_safe(part))
        unit = _with_command(part, values, found, behind, means)
        unit.strict_only = strict_only
        self.units.append(unit)
        if places:
            self._go_deeper(unit, means, depth + 1)

    def _go_deeper(self, unit: Unit, means: CommandMeaning, depth: int) -> None:
        if depth > _MOST_NESTED:
            if means.scripts or means.exec_parts:
                raise Unparsable("scripts are nested too deeply in it")
            return
        for script in means.scripts:
            self._nest(script, depth, unit, strict_only=unit.strict_only)
        exec_parts = [replace(part, frame=unit.part.frame) for part in means.exec_parts]
        self.add(exec_parts, depth, in_exec=True, strict_only=unit.strict_only)
        for script in means.strict_scripts:
            self._nest(script, depth, unit, strict_only=True)

    def _nest(self, script: NestedScript, depth: int, owner: Unit, *, strict_only: bool) -> None:
        if script.empty or (not script.certain and not script.text.strip()):
            return
        self._nested_text += len(script.text)
        if self._nested_text > _MOST_NESTED_TEXT:
            raise Unparsable("the scripts inside it are too long")
        try:
            around = owner.part.frame
            parts = parse(script.text, Frame(script.frame, around) if script.frame else around)
        except Unparsable as refusal:
            if script.certain:
                name = owner.words[0].source if owner.words else owner.part.source
                raise Unparsable(f"the script of {name} cannot be read: {refusal}") from None
            return
        self.add(parts, depth, strict_only=strict_only)


def _without_command(part: Part, *, strict_only: bool) -> Unit:
    """A redirection, a bare assignment, or words that run nothing."""
    more = part.opaque
    if part.kind == "write":
        more = "it writes a file"
    elif not more:
        more = _unsafe(part, bare=True)
    tracks = _assignment_tracks(part) if part.kind == "command" else ()
    return Unit(part, opaque=part.opaque, more_than_read=more, strict_only=strict_only, tracks=tracks)


def _is_common(name: str | None) -> bool:
    return name is not None and base_name(name) not in SPECIAL


def _simple(part: Part, values: tuple[str | None, ...], *, strict_only: bool) -> Unit:
    """What most commands are: a known name that means nothing here, and words."""
    track = Track(values, (0,), _NOWHERE)
    unit = Unit(part, part.words, strict_only=strict_only, tracks=(track,), forms=(AllowForm(track),))
    unit.more_than_read = not_read_only(part.words, behind_xargs=False)
    if unit.is_git:
        unit.own = git_folders(part.words)
    if not part.inputs:
        unit.exact = known_values(values)
    return unit


def _with_command(
    part: Part,
    values: tuple[str | None, ...],
    found: WrapperReach,
    behind: tuple[ShellWord, ...],
    means: CommandMeaning,
) -> Unit:
    words = behind[found.inner :] if found.inner else behind
    opaque = part.opaque or found.unknown
    if not opaque and words and not words[0].literal:
        opaque = "its command is only known when it runs"
    unit = Unit(
        part,
        words,
        opaque or means.opaque,
        plain_shell=means.plain_shell and not opaque,
        move=means.move,
        own=found.folders,
        behind_xargs=found.xargs >= 0,
        replaced=found.replaced,
    )
    unit.tracks = strict_tracks(values, found)
    if part.assignments:
        unit.tracks += _assignment_tracks(part)
    elif not part.inputs:
        unit.exact = known_values(values)
    if not unit.opaque and not unit.plain_shell and _only_safe(part):
        unit.forms = allow_forms(values, found)
    if unit.is_git:
        unit.own += git_folders(words)
    unit.more_than_read = unit.opaque or _unsafe(part, bare=False)
    idle = means.idle and found.free_from < 0 and found.xargs < 0
    if not unit.more_than_read and not idle:
        unit.more_than_read = _does_more(unit)
    return unit


def _does_more(unit: Unit) -> str:
    if unit.plain_shell:
        return f"{unit.words[0].value} runs a script"
    if not unit.words:
        return f"{base_name(unit.part.words[0].value)} has no command to run"
    # The last word behind xargs stands for all it will add, and the read-only judgement is told of that.
    words = unit.words[:-1] if unit.behind_xargs else unit.words
    return not_read_only(words, behind_xargs=unit.behind_xargs)


def _unsafe(part: Part, *, bare: bool) -> str:
    """What about its assignments and braces keeps a part from being read-only."""
    for each in part.assignments:
        if not (harmless_assignment(each.name, each.value) if bare else safe_name(each.name)):
            return f"it sets {each.name}"
    for word in part.words:
        for piece in word.pieces:
            if piece.kind == "brace":
                return f"the braces of {word.source} can turn into any words"
    return ""


def _only_safe(part: Part) -> bool:
    return not part.assignments or all(safe_name(each.name) for each in part.assignments)


def _assignment_tracks(part: Part) -> tuple[Track, ...]:
    """A deny or ask rule may also name the assignments before a command."""
    if not all(each.value.literal for each in part.assignments):
        return ()
    named = tuple([f"{each.name}={each.value.value}" for each in part.assignments])
    return (Track((*named, *values_of(part.words)), (0,), _NOWHERE),)
