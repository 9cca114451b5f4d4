"""Reads hooks from the settings and from agent files, and says what is wrong with them.

The shape is Claude Code's:

    hooks:
      PreToolUse:
        - matcher: "Bash|Edit"
          hooks:
            - {type: command, command: "scripts/guard.sh", timeout: 5}

What cannot be understood is a finding. A matcher that cannot be understood fits every tool: rather once too
often than not at all. A hook before a call that cannot be run refuses the calls that it should have judged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, cast

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.spec import same_name

HookEvent = Literal["start", "before", "after", "stop"]
HookScope = Literal["", "main", "sent"]
"""Whose hooks these are: everybody's, those of the agent that leads a conversation, those of subagents."""

SECONDS = 10.0
MOST_SECONDS = 60.0
MOST_HOOKS = 20
MOST_FINDINGS = 20
LONGEST_COMMAND = 8_000
LONGEST_MATCHER = 500
MOST_STARS = 8
_ALIKE = 0.75

EVENTS: dict[str, tuple[HookEvent, HookScope]] = {
    "PreToolUse": ("before", ""),
    "PostToolUse": ("after", ""),
    "SubagentStart": ("start", "sent"),
    "SubagentStop": ("stop", "sent"),
    "SessionStart": ("start", "main"),
    "Stop": ("stop", "main"),
}
GUARD = "PreToolUse"
_SPELLED = {same_name(name): name for name in EVENTS}
_ELSEWHERE = frozenset(
    same_name(name)
    for name in (
        "UserPromptSubmit",
        "Notification",
        "PreCompact",
        "PostCompact",
        "SessionEnd",
        "PermissionRequest",
        "PostToolUseFailure",
        "StopFailure",
        "TaskCompleted",
        "TeammateIdle",
        "WorktreeCreate",
        "Setup",
    )
)
_NAME = re.compile(r"[\w:.*-]+\Z")
_OUTER = re.compile(r"\^?\((?P<inner>[^()]*)\)\$?\Z")


class Hook(Struct, frozen=True):
    """One hook command. `fits` are the patterns of the tools it is for; none: every tool."""

    event: HookEvent
    command: str
    fits: tuple[str, ...] = ()
    seconds: float = SECONDS
    seats: HookScope = ""
    broken: str = ""
    """Why it cannot be run; then it refuses the calls it should have checked."""

    def meant_for(self, names: Iterable[str]) -> bool:
        """Whether it is for a tool with these names."""
        return not self.fits or any(_fits(pattern, name) for pattern in self.fits for name in names)


class HookSettings(Struct, frozen=True):
    """The hooks of a file, and what is wrong with them."""

    hooks: tuple[Hook, ...] = ()
    findings: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """The findings that say a hook is not run."""


def parse_hooks(raw: object, *, of_agent: bool) -> HookSettings:
    """The hooks of an agent's file, which are all for that agent, or of the settings."""
    reading = _HookParser(of_agent)
    if isinstance(raw, Mapping):
        for name, groups in cast("Mapping[object, Any]", raw).items():
            reading.event(str(name), groups)
    elif raw:
        reading.lose(GUARD, "hooks must name events such as PreToolUse; they have no effect")
    hooks = tuple(dict.fromkeys(reading.hooks))
    return HookSettings(hooks, tuple(reading.findings[:MOST_FINDINGS]), tuple(reading.lost[:MOST_FINDINGS]))


def check_hooks(raw: object) -> None:
    """UserMistake for settings with a hook that would not be run: its author relies on it."""
    if raw and (lost := parse_hooks(raw, of_agent=False).lost):
        raise UserMistake(f"The setting hooks: {lost[0]}.")


class _HookParser:
    def __init__(self, of_agent: bool) -> None:
        self._of_agent = of_agent
        self.hooks: list[Hook] = []
        self.findings: list[str] = []
        self.lost: list[str] = []

    def say(self, text: str) -> None:
        self.findings.append(text)

    def lose(self, name: str, text: str, fits: tuple[str, ...] = ()) -> None:
        """Drop a hook that cannot be run. A hook before a call refuses it instead."""
        self.say(text)
        self.lost.append(text)
        if name == GUARD:
            self.hooks.append(Hook("before", GUARD, fits, broken=text))

    def event(self, name: str, groups: Any) -> None:
        known = _SPELLED.get(same_name(name))
        shown = repr(name[:40])
        if known is None:
            if same_name(name) in _ELSEWHERE:
                self.say(f"the hook {shown} has no effect: it is not run here")
                return
            meant = GUARD if _like_a_guard(same_name(name)) else ""
            said = f"the hook {shown} has no effect: there is no such event; use one of {', '.join(EVENTS)}"
            self.lose(meant, said)
            return
        event, seats = EVENTS[known]
        for group in self._listed(known, groups):
            matcher = group.get("matcher", "")
            inner = group.get("hooks", [group] if "command" in group else None)
            if inner is None:
                self.lose(known, f"a hook of {known} has no effect: it names no commands under `hooks`")
                continue
            fits = self._patterns(known, matcher) if event in ("before", "after") else ()
            for each in self._listed(known, inner, fits):
                self._command(known, each, Hook(event, "", fits, SECONDS, "" if self._of_agent else seats))

    def _listed(self, name: str, value: Any, fits: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(each, Mapping):
                yield cast("Mapping[str, Any]", each)
            else:
                said = f"a hook of {name} has no effect: write it as a list of matcher and hooks"
                self.lose(name, said, fits)

    def _command(self, name: str, said: Mapping[str, Any], bare: Hook) -> None:
        kind, command = said.get("type", "command"), said.get("command")
        if kind != "command" or not isinstance(command, str) or not command.strip():
            why = f"a hook of {name} has no effect: only those with a command are run"
            self.lose(name, why, bare.fits)
        elif len(command) > LONGEST_COMMAND or "\0" in command:
            why = f"a hook of {name} has no effect: its command is too long or holds a NUL"
            self.lose(name, why, bare.fits)
        elif len(self.hooks) >= MOST_HOOKS:
            why = f"a hook of {name} has no effect: there are more than {MOST_HOOKS}"
            self.lose(name, why, bare.fits)
        else:
            if "if" in said:
                self.say(f"a hook of {name} is run for every call that its matcher fits: `if` is not known")
            seconds = self._seconds(name, said.get("timeout"))
            self.hooks.append(Hook(bare.event, command, bare.fits, seconds, bare.seats))

    def _seconds(self, name: str, value: Any) -> float:
        if value is None:
            return SECONDS
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = 0.0
        if isinstance(value, bool) or not 0 < seconds < float("inf"):
            self.say(f"the timeout of a hook of {name} is no number of seconds above 0; it is {SECONDS:g}")
            return SECONDS
        if seconds > MOST_SECONDS:
            self.say(f"the timeout of a hook of {name} is limited to {MOST_SECONDS:g} seconds")
        return min(seconds, MOST_SECONDS)

    def _patterns(self, name: str, matcher: Any) -> tuple[str, ...]:
        """The names in a matcher; none if it matches everything."""
        text = matcher.strip() if isinstance(matcher, str) else "" if matcher is None else repr(matcher)
        outer = _OUTER.match(text)
        text = outer["inner"] if outer else text.removeprefix("^").removesuffix("$")
        names = [each.strip().removeprefix("^").removesuffix("$") for each in text.split("|")]
        if text in ("", "*", ".*"):
            return ()
        plain = all(_NAME.match(each) and each.count("*") <= MOST_STARS for each in names)
        if len(text) > LONGEST_MATCHER or not plain:
            self.say(
                f"the matcher {text[:40]!r} of {name} is not understood, so its hooks are run for every tool"
            )
            return ()
        return tuple(each.casefold() for each in names)


def _like_a_guard(name: str) -> bool:
    """Whether a name that is no event was probably meant to be one before a call."""
    return (
        name.startswith("pre")
        or "before" in name
        or bool(get_close_matches(name, [same_name(GUARD)], cutoff=_ALIKE))
    )


def _fits(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern: `*` and `.*` are anything, `.` is any one character."""
    pieces = re.split(r"\.?\*", pattern)
    spelled = ".*".join(re.escape(piece).replace(r"\.", ".") for piece in pieces)
    return re.fullmatch(spelled, name.casefold(), re.DOTALL) is not None
