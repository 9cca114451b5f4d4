"""Decides about a command line, and whether all of it only reads: each unit alone, the strictest wins.

`read_command` does once what does not depend on a policy; `decide_command` is asked for every policy of a
chain. The numbers of the steps are those of the specification.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from gencode.core.rules import Action, Decision, Mode, Policy, Rule
from gencode.core.structs import replace
from gencode.permissions.bash.command_units import CommandLine, Unit, split_units
from gencode.permissions.bash.compiled_rules import BashRules, PathRule, bash_rules
from gencode.permissions.bash.destruction import destruction
from gencode.permissions.bash.forms import allowing, values_of
from gencode.permissions.bash.guards import GuardResult, NamedPaths, check_guards, named_paths
from gencode.permissions.bash.reasons import PartFinding, told, told_allowed, told_unparsable
from gencode.permissions.bash.rule_automaton import git_subcommand
from gencode.permissions.bash.working_folders import (
    HERE,
    WorkingFolders,
    in_other_repository,
    leaves,
    working_folders,
)
from gencode.permissions.bash.wrappers import base_name
from gencode.permissions.links import as_links_lead
from gencode.permissions.patterns import Places

_REMEMBERED_TEXT = 4_096
_MOST_GIT_FOLDERS = 16
# Looking a member up in its enumeration costs more than most steps below.
_ALLOW, _ASK, _DENY = Action.ALLOW, Action.ASK, Action.DENY
_PLAN, _DONT_ASK = Mode.PLAN, Mode.DONT_ASK
_FILE_COMMANDS = frozenset(
    {"chmod", "cp", "ln", "mkdir", "mktemp", "mv", "rm", "rmdir", "tee", "touch", "truncate"}
)
"""Programs that start no other and ask no variable for one."""
_BRINGS_FOLDERS = frozenset({"cp", "mv", "ln"})
_RECURSES = re.compile(r"--[ra]|-[A-Za-z]*[rRa]|.*[$*`]", re.DOTALL)


class CommandReading:
    """A command line taken apart at these places, with what guards say about each unit.

    `only_reads` is what both the gate and whoever runs a command go by; `working_folders` are
    those each unit may run in.
    """

    __slots__ = ("_named", "command", "destroyed", "guards", "only_reads", "places", "working_folders")

    def __init__(self, command: CommandLine, places: Places, *, own_jq: bool = False) -> None:
        self.command = command
        self.places = places
        units = command.units
        self.working_folders = working_folders(units, places) if command.moves else (HERE,) * len(units)
        copied = [unit for unit in units if _name(unit) in _BRINGS_FOLDERS]
        if copied:
            for unit, stay in zip(units, self.working_folders, strict=True):
                if unit.is_git and (stay.runs_in or any(map(_copies_folders, copied))):
                    why = "git obeys the settings of what this line copies"
                    unit.more_than_read = unit.more_than_read or why
        too_many = command.moves and len(self.git_folders()) > _MOST_GIT_FOLDERS
        for unit, stay in zip(units, self.working_folders, strict=True):
            if stay is not HERE and unit.is_git:
                _bound_to_workspace(unit, stay, places, too_many=too_many)
            elif own_jq and unit.words and base_name(unit.words[0].value) == "jq":
                unit.more_than_read = unit.more_than_read or "jq loads ~/.jq"
        self.only_reads = not command.unparsable and all(unit.reads for unit in units)
        self.guards = tuple(
            [check_guards(unit, places, stay) for unit, stay in zip(units, self.working_folders, strict=True)]
        )
        self.destroyed = tuple(
            [
                destruction(unit, places, stay) if unit.more_than_read else ""
                for unit, stay in zip(units, self.working_folders, strict=True)
            ]
        )
        """What each unit would destroy."""
        self._named: dict[int, NamedPaths] = {}

    def git_folders(self) -> tuple[str, ...]:
        """Where git may run beside the folder in which the line begins."""
        pairs = zip(self.command.units, self.working_folders, strict=True)
        return tuple(dict.fromkeys(folder for unit, stay in pairs if unit.is_git for folder in stay.runs_in))

    def named(self, at: int) -> NamedPaths:
        """The paths that a unit names, worked out once and only if a policy has rules for paths."""
        found = self._named.get(at)
        if found is None:
            found = self._named[at] = named_paths(
                self.command.units[at], self.places, self.working_folders[at]
            )
        return found


def read_command(text: object, places: Places) -> CommandReading:
    """Take a command line apart. The last ones are remembered: a call is decided under several policies."""
    if not isinstance(text, str):
        return CommandReading(CommandLine(unparsable="the command is not a text"), places)
    own_jq = "jq" in text and Path(places.home, ".jq").is_file()
    return (_short if len(text) <= _REMEMBERED_TEXT else _long)(text, places, own_jq)


def _read(text: str, places: Places, own_jq: bool) -> CommandReading:
    return CommandReading(split_units(text), places, own_jq=own_jq)


def _bound_to_workspace(unit: Unit, stay: WorkingFolders, places: Places, *, too_many: bool) -> None:
    """Git that may work outside the workspace is not shown to be harmless, and hardly any rule speaks of it.

    Only one that names the folder as the command does: it stands behind `-C`.
    """
    if too_many:  # in each of them git has to be asked first what it would start
        unit.more_than_read = unit.more_than_read or "git runs in too many folders"
        unit.forms = ()
        return
    if not stay.unknown and not leaves(stay.runs_in, places):
        return
    unit.more_than_read = unit.more_than_read or "git obeys the settings of a folder outside the workspace"
    named = 0
    if unit.own and not stay.unknown and (unit.own[0] or "")[:1] in ("/", "~"):
        named = git_subcommand(values_of(unit.words))
    begin = len(unit.part.words) - len(unit.words)
    unit.forms = tuple(
        form._replace(need=max(form.need, begin - form.track.starts[0] + named))
        for form in unit.forms
        if named
    )


_short = lru_cache(maxsize=128)(_read)
_long = lru_cache(maxsize=2)(_read)


def decide_command(reading: CommandReading, policy: Policy, aliases: tuple[str, ...] = ()) -> Decision:
    """What one policy says about a whole command line."""
    policy = as_links_lead(policy, reading.places)
    rules = bash_rules(policy, aliases, reading.places)
    command = reading.command
    if command.unparsable:
        return told_unparsable(command.unparsable, policy, rules)
    findings: list[PartFinding] = []
    mode, asks = policy.mode, False
    for at in range(len(command.units)):
        finding = _decide(reading, at, rules, mode)
        action = finding.action
        if action is _DENY:
            return told([finding], policy)
        asks = asks or action is _ASK
        findings.append(finding)
    if asks:
        decision = told([finding for finding in findings if finding.action is _ASK], policy)
    else:
        decision = told_allowed(findings, policy)
    return replace(decision, neutral=True) if _must_be_neutral(reading, findings, asks=asks) else decision


def _must_be_neutral(reading: CommandReading, findings: Sequence[PartFinding], *, asks: bool) -> bool:
    """Whether these findings only hold if nothing is started that a repository names.

    So it is with what only reads, and with git in a repository inside the workspace that is not the one of
    the workspace, whatever rule allows it. Where one part of a line reads with git and a rule allows another,
    both get the same environment: the neutral one, if what the rule allows can do without any other.
    """
    if reading.only_reads:
        return True
    free: list[PartFinding] = []
    for finding, stay in zip(findings, reading.working_folders, strict=True):
        if finding.cause == "read-only":
            free += [finding] if finding.unit.is_git else []
        elif finding.cause != "rule" or finding.rule is None or finding.rule.blanket:
            continue
        if finding.unit.is_git and stay.runs_in and in_other_repository(stay.runs_in, reading.places):
            return True
    if asks or not free:
        return False
    return all(finding.unit.reads or _only_handles_files(finding.unit) for finding in findings)


def _only_handles_files(unit: Unit) -> bool:
    return not unit.opaque and _name(unit) in _FILE_COMMANDS


def _name(unit: Unit) -> str:
    return unit.words[0].value if unit.words else ""


def _copies_folders(unit: Unit) -> bool:
    """Whether a part may put a whole folder into another one, a repository's settings among it."""
    options = [word.value for word in unit.words[1:] if not word.literal or word.value.startswith("-")]
    return _name(unit) == "cp" and any(map(_RECURSES.match, options))


def _decide(reading: CommandReading, at: int, rules: BashRules, mode: Mode) -> PartFinding:
    unit = reading.command.units[at]
    if rules.deny:  # step 1
        return PartFinding(_DENY, "rule", unit, rules.deny)
    certain = 0
    for track in unit.tracks:
        certain |= rules.strict.matches(track)
    if certain and (denied := certain & rules.denying):
        return PartFinding(_DENY, "rule", unit, rules.strict.first(denied)[0])
    limit = _limited(unit, rules) if rules.limits else None
    if limit and limit.action is _DENY:
        return PartFinding(_DENY, "rule", unit, limit)
    path = doubt = None
    if applied := _applied(unit, reading.guards[at], rules):
        path, doubt = _path_findings(unit, reading.named(at), applied)
        if path and path.action is _DENY:
            return path
    if mode is _PLAN and unit.more_than_read and not unit.strict_only:  # step 2
        return PartFinding(_DENY, "plan", unit)
    if rules.ask:  # step 3
        return PartFinding(_ASK, "rule", unit, rules.ask)
    if certain:
        return PartFinding(_ASK, "rule", unit, rules.strict.first(certain)[0])
    if limit:
        return PartFinding(_ASK, "rule", unit, limit)
    if found := path or (_possible(unit, rules) if rules.narrower else None) or doubt:
        return found
    destroyed = reading.destroyed[at]
    if destroyed and (unit.exact is None or unit.exact not in rules.exact):
        return PartFinding(_ASK, "guard", unit, detail=destroyed)
    if mode is _DONT_ASK:
        return PartFinding(_ALLOW, "dontAsk", unit)
    return _covered(unit, reading.guards[at].guard, rules, plan=mode is _PLAN)


def _limited(unit: Unit, rules: BashRules) -> Rule | None:
    """The strictest rule for every command but some that a part is not among."""
    found = [rule for rule, excepted in rules.limits if allowing(excepted, unit.forms) is None]
    return min(found, key=lambda rule: rule.action is not _DENY, default=None)


def _covered(unit: Unit, guard: str, rules: BashRules, *, plan: bool) -> PartFinding:
    """Steps 4 to 7, and the rest of step 2: no rule forbids it; is it shown to be covered?"""
    if unit.strict_only:
        return PartFinding(_ALLOW, "plain shell", unit)
    if guard and (plan or unit.exact is None or unit.exact not in rules.exact):  # step 4
        return PartFinding(_ASK, "plan guard" if plan else "guard", unit, detail=guard)
    if not plan:
        if rules.allow:  # step 5
            return PartFinding(_ALLOW, "rule", unit, rules.allow)
        if rule := allowing(rules.allowing, unit.forms):  # step 6
            return PartFinding(_ALLOW, "rule", unit, rule)
    if unit.reads:
        return PartFinding(_ALLOW, "plain shell" if unit.more_than_read else "read-only", unit)
    return PartFinding(_ASK, "uncovered", unit)  # step 7


def _possible(unit: Unit, rules: BashRules) -> PartFinding | None:
    """A narrower deny or ask rule that could match for some value of what is not known."""
    if unit.opaque:
        return PartFinding(_ASK, "opaque", unit, rules.narrower, unit.opaque)
    for track in unit.tracks:
        if None in track.values and (ends := rules.strict.matches(track, possible=True)):
            return PartFinding(_ASK, "possible", unit, rules.strict.first(ends)[0])
    return None


def _applied(unit: Unit, watched: GuardResult, rules: BashRules) -> Sequence[PathRule]:
    """The path rules that speak of a part and may match it."""
    applied = rules.reads
    if unit.part.kind == "write":
        applied = rules.writes
    elif unit.more_than_read and unit.part.kind == "command":
        applied = rules.changes
    if watched.doubtful or not applied:
        return applied
    text = watched.text
    return [each for each in applied if each.needle in text] if text else ()


def _path_findings(
    unit: Unit, named: NamedPaths, applied: Sequence[PathRule]
) -> tuple[PartFinding | None, PartFinding | None]:
    """What path rules say: for certain, and for some value of what is not known."""
    asked: PartFinding | None = None
    for path, small, word in named.paths:
        for rule, pattern, needle in applied:
            if small and needle not in small:
                continue
            if pattern.matches(path):
                if rule.action is _DENY:
                    return PartFinding(_DENY, "path", unit, rule, word), None
                asked = asked or PartFinding(_ASK, "path", unit, rule, word)
    doubt = PartFinding(_ASK, "possible path", unit, applied[0].rule, named.unsure) if named.unsure else None
    return asked, doubt
