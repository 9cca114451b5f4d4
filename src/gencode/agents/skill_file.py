"""Reads a `SKILL.md` file as a skill.

    ---
    name: release-notes
    description: Writes release notes from the commits since the last tag.
    agent: general-purpose
    ---
    What to do, step by step.

A skill is text and gives nothing away: `allowed-tools` is kept and has no effect. Only a wrong `agent` is an
error, because the work would be done by one that may do more.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, NoReturn, cast

from gencode.agents.file_errors import mistake
from gencode.agents.frontmatter import FrontMatter, read_front_matter
from gencode.core.spec import Skill, same_name
from gencode.core.text import inert, one_line
from gencode.permissions.project_files import LARGEST_KEPT

FILE = "SKILL.md"
LONGEST_NAME = 64
LONGEST_WORD = 200
LONGEST_DESCRIPTION = 4_096
MOST_TOOLS = 200
MOST_WARNINGS = 10
GENERAL = "general"
"""The type `general` of the folder, or else the built-in general-purpose."""

_KNOWN = {
    same_name(spelled): field
    for spelled, field in (
        ("name", "name"),
        ("description", "description"),
        ("when-to-use", "when"),
        ("agent", "agent"),
        ("context", "context"),
        ("model", "model"),
        ("allowed-tools", "tools"),
        ("tools", "tools"),
        ("argument-hint", "hint"),
        ("disable-model-invocation", "hidden"),
    )
}
_SPLIT = re.compile(r"[\s,]")


def read_skill(content: bytes, path: str, *, project: bool = False) -> Skill:
    """The skill that a file describes; UserMistake with the file, the reason and the line where possible.

    Of a file of more than `LARGEST_KEPT` bytes the beginning is read.
    """
    text = _text(content, path)
    matter = read_front_matter(text, path, "skill")
    reading = _SkillBuilder(matter, path)
    return reading.skill(project=project, cut=len(content) > LARGEST_KEPT)


def split_tools(text: str) -> list[str]:
    """Names between commas and blanks, but not those in parentheses."""
    names = [""]
    depth = 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if not depth and _SPLIT.match(character):
            names.append("")
        else:
            names[-1] += character
    return [name for name in names if name]


def _text(content: bytes, path: str) -> str:
    kept = content[:LARGEST_KEPT]
    try:
        return kept.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(content) > LARGEST_KEPT and error.start > len(kept) - 4:  # the limit fell inside a character
            return kept[: error.start].decode("utf-8")
        line = kept.count(b"\n", 0, error.start) + 1
        raise mistake(path, "it is not UTF-8 text", line) from None


class _SkillBuilder:
    """One file on its way to a skill; warnings gather as fields are read."""

    def __init__(self, matter: FrontMatter, path: str) -> None:
        self._matter = matter
        self._path = path
        self._warnings = [each.message for each in matter.repaired]
        self._fields: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}
        self._extra: dict[str, Any] = {}
        for spelled, value in matter.fields.items():
            field = _KNOWN.get(same_name(spelled))
            if field is None:
                self._extra[spelled] = value
            elif field not in self._fields:
                self._fields[field] = value
                self._spelled[field] = spelled
            elif field == "agent":
                self._refuse(field, "agent is given twice")
            else:
                self._warn(f"{one_line(spelled, 64)} was ignored: {self._spelled[field]} says it already")

    def skill(self, *, project: bool, cut: bool) -> Skill:
        return Skill(
            name=self._name(),
            description=self._description(),
            body=self._matter.body,
            source=self._path,
            agent=self._agent(),
            model=self._word("model"),
            tools=self._tools(),
            hint=self._word("hint"),
            hidden=self._truth("hidden"),
            project=project,
            cut=cut,
            extra=self._extra,
            warnings=tuple(self._warnings[:MOST_WARNINGS]),
        )

    def _warn(self, text: str) -> None:
        self._warnings.append(text)

    def _refuse(self, field: str, reason: str) -> NoReturn:
        raise mistake(self._path, reason, self._matter.lines.get(self._spelled.get(field, field)))

    def _name(self) -> str:
        folder = PurePath(self._path).parent.name
        value = self._fields.get("name")
        if value is not None and not _is_text(value):
            self._warn("its name is not text, so the name of its folder is used")
            value = None
        name = str(value).strip() if value is not None else ""
        name = name or folder
        if len(name) > LONGEST_NAME:
            self._refuse("name", f"the name is longer than {LONGEST_NAME} characters")
        parts = name.split("/")  # some sort their skills so, but none may look like a way somewhere else
        if not name.isprintable() or "\\" in name or not all(same_name(part) for part in parts):
            self._refuse("name", f"{name!r} cannot be a name; use letters, digits, spaces, - and _")
        return name

    def _description(self) -> str:
        said = [self._long(field) for field in ("description", "when")]
        described = " ".join(text for text in said if text)
        if not described:
            self._warn("it has no description, so its first words are used")
            described = one_line(self._matter.body[:2_000].lstrip("# "), 200)
        if len(described) > LONGEST_DESCRIPTION:
            self._warn(f"the description is cut at {LONGEST_DESCRIPTION:,} characters")
        return described[:LONGEST_DESCRIPTION]

    def _long(self, field: str) -> str:
        value = self._fields.get(field)
        if value is None or _is_text(value):
            return inert("" if value is None else str(value)).strip()
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return inert("; ".join(str(item) for item in items if _is_text(item))).strip()
        self._warn(f"{self._spelled[field]} is not text and was ignored")
        return ""

    def _agent(self) -> str:
        """The agent that does the work: the named one, or the general one for a skill that asks for one."""
        value = self._fields.get("agent")
        if value is not None and not (_is_text(value) and _is_word(str(value).strip())):
            self._refuse("agent", "agent must be the name of an agent")
        named = "" if value is None else str(value).strip()
        context = self._word("context").casefold()
        if context not in ("", "fork", "inline"):
            self._warn(f"the context {one_line(context, 64)!r} is not known and has no effect")
        return named or (GENERAL if context == "fork" else "")

    def _word(self, field: str) -> str:
        value = self._fields.get(field)
        if value is None:
            return ""
        word = _plainly(value)
        if word is None or not _is_word(word):
            self._warn(f"{self._spelled[field]} is not a short text and was ignored")
            return ""
        return word

    def _truth(self, field: str) -> bool:
        """A field that restricts when it is true: any value that is not plainly false is taken as true."""
        value = self._fields.get(field)
        return value not in (None, False, "", "false", "no", "off", 0)

    def _tools(self) -> tuple[str, ...] | None:
        if "tools" not in self._fields:
            return None
        value = self._fields["tools"]
        items = cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, str) for item in items):
            self._warn(f"{self._spelled['tools']} holds something that is not a name")
        texts: Iterable[str] = (item for item in items if isinstance(item, str))
        names = dict.fromkeys(
            inert(name) for text in texts for name in split_tools(text[:LONGEST_DESCRIPTION])
        )
        return None if "*" in names else tuple(names)[:MOST_TOOLS]


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_word(text: str) -> bool:
    return 0 < len(text) <= LONGEST_WORD and text.isprintable()


def _plainly(value: Any) -> str | None:
    """A field as the text its author saw: `[a] [b]` in a hint is a list to YAML."""
    if _is_text(value):
        return str(value).strip()
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return " ".join(f"[{item}]" for item in items) if all(_is_text(item) for item in items) else None
    return None
