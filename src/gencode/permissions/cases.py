"""Case files: one call per line with its rules and the expected decision.

A case is judged by what it says and by nothing else: no settings, no flags, no files but those it asks for.
"""

import json
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.core.spec import Workspace, same_name
from gencode.permissions.calls import CallFacts
from gencode.permissions.case_folders import CaseFolders, Item, scratch
from gencode.permissions.decision import decide
from gencode.permissions.paths import shown
from gencode.permissions.urls import walk

LONGEST_LINE = 4_000_000
ROOT = "{ROOT}"
COMMANDS_RUN_IN = Workspace(Path("/ws"), Path("/ws"), Path("/home/me"))
"""Where the commands of cases would run. It need not exist: a command is judged by its text."""

_FIELDS = {
    "read": ("Read", "file_path"),
    "write": ("Write", "file_path"),
    "edit": ("Edit", "file_path"),
    "grep": ("Grep", "path"),
    "glob": ("Glob", "pattern"),
    "ls": ("LS", "path"),
}


class CasePolicy(Struct, frozen=True):
    """A policy as a case writes it, with the one above it."""

    mode: Mode
    rules: tuple[Rule, ...]
    parent: "CasePolicy | None" = None

    def chain(self) -> tuple[Policy, ...]:
        """The policies from the root down to this one."""
        policies: list[Policy] = []
        link: CasePolicy | None = self
        while link is not None:
            owner = f"its parent {len(policies)}" if policies else "the case"
            policies.append(Policy(link.mode, link.rules, owner))
            link = link.parent
        return tuple(reversed(policies))


class CallCase(CasePolicy, frozen=True, kw_only=True):
    """What the cases of commands and of paths have in common."""

    id: str
    expect: Action | None = None
    background: bool = False
    grant: Mode | None = None


class CommandCase(CallCase, frozen=True, kw_only=True):
    """A command for Bash."""

    command: str


class PathCase(CallCase, frozen=True, kw_only=True):
    """A path for a file tool, and what has to be on the disk."""

    tool: str
    path: str
    setup: tuple[Item, ...] = ()


class UrlCase(Struct, frozen=True, kw_only=True):
    """A URL to fetch. `dns` is all that can be looked up; `connect_ip` is where the connection must go."""

    id: str
    url: str
    dns: dict[str, tuple[str, ...]] = {}
    redirects: tuple[str, ...] = ()
    connect_ip: str | None = None
    expect: Action | None = None


Case = CommandCase | PathCase | UrlCase


class CaseResult(Struct, frozen=True):
    """What came of one line. `mistake` is set, and nothing else known, when the line is no case."""

    line: int
    id: str = ""
    decision: Action | None = None
    why: str = ""
    expect: Action | None = None
    mistake: str = ""

    @property
    def met(self) -> bool:
        """Whether it is what the case expects; a case that expects nothing is always met."""
        return not self.mistake and self.expect in (None, self.decision)


def judge_file(file: BinaryIO) -> Iterator[CaseResult]:
    """Judge every line of a case file as it comes; a broken line does not keep the others from theirs."""
    with scratch() as place:
        for number, line in _lines(file):
            known = ""
            try:
                raw = _object(line)
                known = str(raw.get("id", ""))
                case = _case(raw)
                decision, why = judge(case, place)
            except UserMistake as mistake:
                yield CaseResult(number, known, mistake=str(mistake))
            else:
                yield CaseResult(number, case.id, decision, why, case.expect)


def judge(case: Case, place: CaseFolders) -> tuple[Action, str]:
    """The decision for one case, and why."""
    match case:
        case CommandCase():
            call = CallFacts(
                tool="Bash",
                input={"command": case.command},
                effect="execute",
                workspace=COMMANDS_RUN_IN,
                background=case.background,
                grant=case.grant,
            )
            decision = decide(call, case.chain())
            return decision.action, decision.why
        case PathCase():
            return _judge_path(_rooted(case, place.root), place)
        case UrlCase():
            return _judge_url(case)


def _judge_path(case: PathCase, place: CaseFolders) -> tuple[Action, str]:
    root = place.root
    if same_name(case.tool) not in _FIELDS:
        raise UserMistake(f"{shown(case.tool)} is no tool of path cases; those are Read, Write, Edit, …")
    tool, field = _FIELDS[same_name(case.tool)]
    call = CallFacts(
        tool=tool,
        input={field: case.path},
        effect="write" if tool in ("Write", "Edit") else "read",
        workspace=Workspace(root / "ws", root / "ws", root / "home"),
        background=case.background,
        grant=case.grant,
    )
    with place.built(case.setup):
        decision = decide(call, case.chain())
    return decision.action, decision.why.replace(str(root), ROOT)


def _judge_url(case: UrlCase) -> tuple[Action, str]:
    found = walk(case.url, case.redirects, lambda host: case.dns.get(host, ()))
    if not found.allowed:
        return Action.DENY, found.why
    addresses = {address for hop in found.hops for address in hop.addresses}
    if case.connect_ip is not None and _spelled(case.connect_ip) not in addresses:
        return Action.DENY, f"A connection would go to {', '.join(addresses)}, not to {case.connect_ip}."
    return Action.ALLOW, found.why


def _spelled(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        return address


def _rooted(case: PathCase, root: Path) -> PathCase:
    """A case with the real folder in every place where it speaks of its root."""
    return msgspec.convert(_filled(msgspec.to_builtins(case), str(root)), PathCase)


def _filled(value: Any, root: str) -> Any:
    if isinstance(value, str):
        return value.replace(ROOT, root)
    if isinstance(value, dict):
        return {key: _filled(each, root) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_filled(each, root) for each in cast("Iterable[Any]", value)]
    return value


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that hold anything, each with its number; of an endless one only the beginning."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n") and len(rest) > LONGEST_LINE:
            rest = file.readline(LONGEST_LINE + 1)
        if line.strip():
            yield number, line


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise UserMistake(f"It is longer than {LONGEST_LINE:,} bytes.")
    try:
        value: object = json.loads(line.decode("utf-8").removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UserMistake(f"It is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UserMistake("It is not a JSON object.")
    return cast("dict[str, Any]", value)


def _case(raw: dict[str, Any]) -> Case:
    kind = next((kind for field, kind in _KINDS.items() if field in raw), None)
    if kind is None:
        raise UserMistake("It has neither a command nor a path nor a url, so it is no case.")
    try:
        return msgspec.convert(raw, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UserMistake(f"It is no case: {error}.") from None


_KINDS: dict[str, type[Case]] = {"command": CommandCase, "path": PathCase, "url": UrlCase}
