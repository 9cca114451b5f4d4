"""The typed fields of one agent file, and what is wrong with them.

In our own dialect an invalid value is an error. In all others it is dropped with a warning, because one odd
field should not cost a user the whole agent. A field that limits access is never dropped: it is read in the
strictest way.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from gencode.agents.file_errors import BrokenAgentFile, FileFinding, mistake, mistakes
from gencode.core.spec import same_name
from gencode.core.text import inert, one_line

LONGEST_NAME = 64
LONGEST_OF_OTHERS = 128
LONGEST_WORD = 200
LONGEST_LIST = 4_096
LONGEST_DESCRIPTION = 4_096
MOST_WARNINGS = 20

_WEIGHTY = frozenset(
    (
        "name",
        "tools",
        "allowed-tools",
        "disallowed-tools",
        "permission",
        "permissions",
        "permission-mode",
        "readonly",
        "sends",
    )
)
"""Fields that must not be given twice, because it would be a guess which one applies."""
_PLACEHOLDER = re.compile(r"<[^>]+>|\[TODO|\{\{|\$\{")


class Fields:
    """One file: its values by the names that a dialect gives them, whatever their spelling."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        known: Mapping[str, str],
        path: str,
        lines: Mapping[str, int],
        strict: bool,
    ) -> None:
        """`known` leads from a spelling (without case and separators) to the name of a field."""
        self.path = path
        self.strict = strict
        self.values: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.findings: list[FileFinding] = []
        self.errors: list[tuple[str, int | None]] = []
        """Why the file cannot be used: each reason, and its line."""
        self._lines = lines
        self._spelled: dict[str, str] = {}
        for spelled, value in raw.items():
            seen = known.get(same_name(normalized(spelled)))
            weighs = seen if seen in _WEIGHTY else None
            self._sort_in(spelled, value, known.get(same_name(spelled)), weighs)

    def _sort_in(self, spelled: str, value: Any, field: str | None, known_by: str | None) -> None:
        if field is None and known_by is not None:
            hidden = f"the field {known_by!r} holds invisible or look-alike characters"
            raise mistake(self.path, hidden, self._lines.get(spelled))
        if field is None:
            self.extra[spelled] = value
            said = f"the field {one_line(spelled, 64)!r} is not known and has no effect"
            self.say("unknown-field", said, self._lines.get(spelled))
        elif field in self.values and not (self.strict or field in _WEIGHTY):
            self.extra[spelled] = value
            said = f"{field} is given twice; {one_line(self._spelled[field], 64)} is used"
            self.say("given-twice", said, self._lines.get(spelled))
        elif field in self.values:
            both = f"{one_line(self._spelled[field], 64)} and {one_line(spelled, 64)}"
            raise mistake(self.path, f"{field} is given twice, as {both}", self._lines.get(spelled))
        elif field == "":
            self.extra[spelled] = value
        else:
            self.values[field] = value
            self._spelled[field] = spelled

    def line(self, field: str) -> int | None:
        """The line of a field."""
        return self._lines.get(self._spelled.get(field, field))

    def say(self, code: str, message: str, line: int | None = None) -> None:
        """Notice something."""
        self.findings.append(FileFinding(code, message, line))

    def refuse(self, field: str, reason: str) -> NoReturn:
        """Refuse the file; nothing more can be said about it."""
        self.errors.append((reason, self.line(field)))
        raise mistake(self.path, reason, self.line(field))

    def wrong(self, field: str, reason: str) -> None:
        """A value cannot be used: an error in our own dialect, a field less in others."""
        if self.strict:
            self.errors.append((reason, self.line(field)))
        else:
            self.say("bad-value", f"{reason}; it was left out", self.line(field))

    def check(self) -> None:
        """Refuse the file if there is any reason to."""
        if self.errors:
            raise BrokenAgentFile(mistakes(self.path, self.errors), tuple(self.findings))

    def keep(self, field: str) -> None:
        """Put a field that cannot be used to the unknown ones, so that nothing is lost."""
        self.extra[self._spelled.get(field, field)] = self.values.get(field)

    def name(self, usual: str) -> str:
        """What the agent is called: the field, else `usual`."""
        given = self.values.get("name")
        if given is not None and (isinstance(given, bool) or not isinstance(given, str | int)):
            self.wrong("name", "name must be a text")
            given = None
        name = str(given).strip() if given is not None else ""
        derived = not name
        name = name or usual
        longest = LONGEST_NAME if self.strict else LONGEST_OF_OTHERS
        if len(name) > longest:
            self.refuse("name", f"the name is longer than {longest} characters")
        parts = name.split("/") if derived or not self.strict else [name]  # such as UI/UX Designer
        if not all(map(_is_name, parts)):
            self.refuse("name", f"{name!r} cannot be a name; use letters, digits, spaces, - and _")
        self._remark_name(name, usual, derived=derived)
        return name

    def _remark_name(self, name: str, usual: str, *, derived: bool) -> None:
        line = self.line("name")
        if self.strict:
            return
        if derived:
            self.say("name-missing", f"it has no name; {name!r} was taken from its path")
        elif same_name(name) != same_name(usual):
            self.say("name-differs", f"the name {name!r} is not that of its file, {usual!r}", line)
        if ":" in name or name.startswith("-"):
            self.say("name-odd", f"the name {name!r} holds : or begins with -; other products skip it", line)
        if _PLACEHOLDER.search(name):
            self.say("placeholder", f"the name {name!r} looks like a template that was not filled in", line)

    def description(self) -> str:
        """When to use the agent."""
        described = self.visible("description", self.text("description").replace("\\n", "\n"))
        if not described:
            self.say("description-missing", "it has no description, so no agent will know when to use it")
        elif len(described) > LONGEST_DESCRIPTION:
            said = f"the description is cut at {LONGEST_DESCRIPTION:,} characters"
            self.say("description-long", said, self.line("description"))
        return described[:LONGEST_DESCRIPTION]

    def visible(self, what: str, text: str) -> str:
        """A text without what cannot be seen in it."""
        if text.replace("\n", "").replace("\t", "").isprintable():
            return text.strip()
        shown = inert(text)
        if len(shown) != len(text):
            self.say("invisible", f"invisible characters were removed from its {what}")
        return shown.strip()

    def text(self, field: str) -> str:
        """A text or a number as a text; empty when it is not there."""
        value = self.values.get(field)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.wrong(field, f"{field} must be a text")
            return ""
        return str(value).strip()

    def word(self, field: str) -> str:
        """A text of one short line."""
        word = self.text(field)
        if len(word) > LONGEST_WORD or not word.isprintable():
            self.wrong(field, f"{field} must be one short line")
            return ""
        return word

    def truth(self, field: str, default: bool = False) -> bool:
        """A boolean; the dialects of other products may also write it as text."""
        value = self.values.get(field)
        if isinstance(value, str) and not self.strict and value.strip().casefold() in ("true", "false"):
            value = value.strip().casefold() == "true"
        if not isinstance(value, bool | None):
            self.wrong(field, f"{field} must be true or false")
            return default
        return default if value is None else value

    def number(self, field: str, allowed: range, default: int | None) -> int | None:
        """A whole number within bounds."""
        value = self.values.get(field)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
            value = int(value)
        if type(value) is not int or value not in allowed:
            self.wrong(field, f"{field} must be a whole number from {allowed[0]} to {allowed[-1]}")
            return default
        return value

    def decimal(self, field: str, lowest: float, highest: float) -> float | None:
        """A number within bounds, with or without a point."""
        value = self.values.get(field)
        if value is None:
            return None
        found = as_decimal(value)
        if found is None or not lowest <= found <= highest:
            self.wrong(field, f"{field} must be a number from {lowest:g} to {highest:g}")
            return None
        return found

    def mapping(self, field: str) -> dict[str, Any] | None:
        """Fields below a field; None when it is not there."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(field, f"{field} must hold fields")
            return None
        return cast("dict[str, Any]", value)

    def texts(self, field: str, value: Any) -> list[str]:
        """One text or a list of texts of a field, each short and visible."""
        several = cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]
        kept: list[str] = []
        for text in several:
            if not isinstance(text, str):
                self.wrong(field, f"{field} must be texts, not {one_line(repr(text), 64)}; use quotes")
            elif len(text) > LONGEST_LIST or inert(text.replace("\n", " ")) != text.replace("\n", " "):
                self.wrong(field, f"{field} holds a text that is too long or invisible")
            else:
                kept.append(text)
        return kept


def as_decimal(value: Any) -> float | None:
    """A number that was read as a text, an integer or a float."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", value.strip()):
        return None
    return float(value)


def _is_name(part: str) -> bool:
    return part.isprintable() and not re.search(r"[/\\]", part) and bool(same_name(part)) and ".." not in part


def normalized(text: str) -> str:
    """A text without invisible characters, with look-alike letters replaced by those they look like."""
    kept = (each for each in text if each == "\n" or unicodedata.category(each)[0] != "C")
    return unicodedata.normalize("NFKC", "".join(kept))
