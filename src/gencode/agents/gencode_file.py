"""Agents room: GenCode's own dialect of agent files.

    ---
    name: tester
    description: Runs the tests and says what broke.
    model: inherit
    permission-mode: acceptEdits
    max-turns: 20
    tools: {mode: allowlist, allow: [Read, Bash]}
    permissions: {deny: ["Bash(git push:*)"]}
    result-cap: 4000
    effort: low
    override: false
    ---
    The agent's own instructions.

Whatever would quietly give an agent more than its file says is an error; what has no effect is a warning.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, NoReturn, cast, get_args

from gencode.agents.frontmatter import FrontMatter, mistake, read_front_matter
from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Rule, merge, parse_mode, parse_rule
from gencode.core.spec import AgentSpec, Effort, ToolChoice, same_name
from gencode.runtime.prompt import inert, one_line

LONGEST_NAME = 64
LONGEST_WORD = 200
LONGEST_LIST = 4_096
LONGEST_DESCRIPTION = 4_096
MOST_TURNS = 10_000
MOST_WARNINGS = 20
RESULT_CAPS = range(100, 100_001)

_KNOWN = {
    same_name(field): field
    for field in (
        "name",
        "description",
        "model",
        "permission-mode",
        "max-turns",
        "tools",
        "allowed-tools",
        "disallowed-tools",
        "permissions",
        "result-cap",
        "effort",
        "override",
    )
}
_EVERY_TOOL = "*"
_EFFORTS: dict[str, Effort] = {effort: effort for effort in get_args(Effort)}
_MORE_EFFORT = ("xhigh", "max")
"""What other products know above the most there is here."""


def read_agent(text: str, path: str, *, builtin: bool = False) -> AgentSpec:
    """The agent that a file describes; UserMistake with the file, the reason and the line where possible."""
    return _Reading(read_front_matter(text, path), path).spec(builtin)


class _Reading:
    """One file on its way to a spec; warnings gather as fields are read."""

    def __init__(self, matter: FrontMatter, path: str) -> None:
        self._matter = matter
        self._path = path
        self._warnings = list(matter.warnings)
        self._fields: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}
        self._extra: dict[str, Any] = {}
        for spelled, value in matter.fields.items():
            self._sort_in(spelled, value)

    def spec(self, builtin: bool) -> AgentSpec:
        if "name" not in self._fields and "description" not in self._fields:
            raise mistake(self._path, "it has neither a name nor a description, so it is no agent")
        tools, tool_rules = self._tools()
        plain = AgentSpec(self._name(), self._description())
        return AgentSpec(
            name=plain.name,
            description=plain.description,
            prompt=self._prompt(),
            tools=tools,
            model=self._word("model") or plain.model,
            mode=self._mode(),
            max_turns=self._number("max-turns", range(1, MOST_TURNS + 1), plain.max_turns),
            result_cap=self._number("result-cap", RESULT_CAPS, plain.result_cap) or plain.result_cap,
            rules=merge(self._rules(), tool_rules),
            source=self._path,
            builtin=builtin,
            extra=self._extra,
            effort=self._effort(),
            override=self._truth("override"),
            warnings=self._bounded_warnings(),
        )

    def _bounded_warnings(self) -> tuple[str, ...]:
        rest = len(self._warnings) - MOST_WARNINGS
        return (*self._warnings[:MOST_WARNINGS], *([f"and {rest} more warnings"] if rest > 0 else []))

    def _sort_in(self, spelled: str, value: Any) -> None:
        field = _KNOWN.get(same_name(spelled))
        if field is None:
            self._extra[spelled] = value
            self._warnings.append(f"the field {one_line(spelled, 64)!r} is not known and has no effect")
        elif field in self._fields:
            line = self._matter.lines.get(spelled)
            both = f"{one_line(self._spelled[field], 64)} and {one_line(spelled, 64)}"
            raise mistake(self._path, f"{field} is given twice, as {both}", line)
        else:
            self._fields[field] = value
            self._spelled[field] = spelled

    def _refuse(self, field: str, reason: str) -> NoReturn:
        raise mistake(self._path, reason, self._matter.lines.get(self._spelled.get(field, field)))

    def _name(self) -> str:
        name = self._text("name") or PurePath(self._path).stem
        if len(name) > LONGEST_NAME:
            self._refuse("name", f"the name is longer than {LONGEST_NAME} characters")
        if not name.isprintable() or re.search(r"[/\\]", name) or not same_name(name):
            self._refuse("name", f"{name!r} cannot be a name; use letters, digits, spaces, - and _")
        return name

    def _description(self) -> str:
        described = self._visible("description", self._text("description"))
        if not described:
            self._warnings.append("it has no description, so no agent will know when to send it")
        if len(described) > LONGEST_DESCRIPTION:
            self._warnings.append(f"the description is cut at {LONGEST_DESCRIPTION:,} characters")
        return described[:LONGEST_DESCRIPTION]

    def _prompt(self) -> str:
        return self._visible("text", self._matter.body)

    def _visible(self, what: str, text: str) -> str:
        shown = inert(text)
        if len(shown) != len(text):
            self._warnings.append(f"characters that cannot be seen were taken out of its {what}")
        return shown.strip()

    def _text(self, field: str) -> str:
        value = self._fields.get(field)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int):
            self._refuse(field, f"{field} must be a text")
        return str(value).strip()

    def _word(self, field: str) -> str:
        word = self._text(field)
        if len(word) > LONGEST_WORD or not word.isprintable():
            self._refuse(field, f"{field} must be one short line")
        return word

    def _mode(self) -> Mode | None:
        word = self._word("permission-mode")
        try:
            return parse_mode(word) if word else None
        except UserMistake as error:
            self._refuse("permission-mode", str(error))

    def _effort(self) -> Effort | None:
        word = self._word("effort").casefold()
        if word in _MORE_EFFORT:
            self._warnings.append(f"effort {word} was read as high, which is the most there is here")
            return "high"
        if word and word not in _EFFORTS:
            self._refuse("effort", f"effort must be one of {', '.join(_EFFORTS)}, not {one_line(word, 64)!r}")
        return _EFFORTS.get(word)

    def _truth(self, field: str) -> bool:
        value = self._fields.get(field)
        if not isinstance(value, bool | None):
            self._refuse(field, f"{field} must be true or false")
        return bool(value)

    def _number(self, field: str, allowed: range, default: int | None) -> int | None:
        value = self._fields.get(field)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
            value = int(value)
        if type(value) is not int or value not in allowed:
            self._refuse(field, f"{field} must be a whole number from {allowed[0]} to {allowed[-1]}")
        return value

    def _rules(self) -> tuple[Rule, ...]:
        value = self._fields.get("permissions")
        if value is None:
            return ()
        lists = self._mapping("permissions", value, tuple(Action))
        return tuple(
            self._rule("permissions", text, action)
            for action in Action
            for text in self._texts("permissions", lists.get(action))
        )

    def _rule(self, field: str, text: str, action: Action) -> Rule:
        try:
            return parse_rule(text, action, self._path)
        except UserMistake as error:
            self._refuse(field, str(error))

    def _tools(self) -> tuple[ToolChoice, tuple[Rule, ...]]:
        """The tools, and a deny rule for every call (not a whole tool) that the file takes away."""
        allow, denied = self._tools_field()
        if "allowed-tools" in self._fields:
            if "tools" in self._fields:
                self._refuse("allowed-tools", "tools and allowed-tools are both given; keep tools")
            self._warnings.append("allowed-tools was read as tools")
            allow = self._names("allowed-tools", self._fields["allowed-tools"])
        denied += self._names("disallowed-tools", self._fields.get("disallowed-tools"))
        calls = [name for name in denied if "(" in name]
        rules = tuple(self._rule("tools", call, Action.DENY) for call in calls)
        if _EVERY_TOOL in denied:
            allow = []
        elif allow is not None and _EVERY_TOOL in allow:
            allow = None
        if allow is not None:
            self._warn_of_patterns(allow)
        deny = tuple(name for name in denied if name not in (_EVERY_TOOL, *calls))
        return ToolChoice(None if allow is None else tuple(allow), deny), rules

    def _tools_field(self) -> tuple[list[str] | None, list[str]]:
        """What `tools` allows (None: everything) and denies."""
        if "tools" not in self._fields:
            return None, []
        value = self._fields["tools"]
        if not isinstance(value, dict):
            if not value:
                self._warnings.append("tools is empty, so it has none")
            return self._names("tools", value), []
        parts = self._mapping("tools", value, ("mode", "allow", "deny"))
        deny = self._names("tools", parts.get("deny"))
        mode = parts.get("mode") or ("denylist" if "deny" in parts and "allow" not in parts else "allowlist")
        if mode == "denylist":
            if parts.get("allow"):
                self._refuse("tools", "tools.allow contradicts the mode denylist; take one of them out")
            return None, deny
        if mode != "allowlist":
            self._refuse(
                "tools", f"tools.mode must be allowlist or denylist, not {one_line(str(mode), 64)!r}"
            )
        if not parts.get("allow"):
            self._warnings.append("tools.allow is empty, so it has no tools")
        return self._names("tools", parts.get("allow")), deny

    def _warn_of_patterns(self, allow: Iterable[str]) -> None:
        for name in allow:
            if "(" in name:
                self._warnings.append(
                    f"{name!r} is no tool and gives none; name the tool here and the call under permissions"
                )

    def _mapping(self, field: str, value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._refuse(field, f"{field} must hold {', '.join(keys)}")
        mapping = cast("dict[str, Any]", value)
        for key in mapping:
            if key not in keys:
                self._refuse(field, f"{field} has no part {one_line(key, 64)!r}, only {', '.join(keys)}")
        return mapping

    def _names(self, field: str, value: Any) -> list[str]:
        """Names from a comma-separated text or a list of such, without repeats."""
        return list(dict.fromkeys(name for text in self._texts(field, value) for name in _split(text)))

    def _texts(self, field: str, value: Any) -> list[str]:
        """One text or a list of texts, each short and visible."""
        several = cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]
        for text in several:
            if not isinstance(text, str):
                self._refuse(field, f"{field} must be texts, not {one_line(repr(text), 64)}; use quotes")
            if len(text) > LONGEST_LIST or not text.isprintable():
                self._refuse(field, f"{field} holds a text that is too long or cannot be seen")
        return several


def _split(text: str) -> list[str]:
    """The parts of `text` between its commas, but not the commas in parentheses."""
    parts = [""]
    depth = 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
