"""Agents room: the fields between two lines of dashes at the top of a Markdown file, and the text below.

Agent files are hostile input. YAML is read as a stream of events and built here, so that anchors, aliases,
tags, deep nesting and repeated fields are refused before anything grows. Numbers and dates keep their
spelling except for plain integers; only `true`, `false` and `null` are words with a meaning.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import Struct

from gencode.agents.simple_fields import Plain, simple_fields
from gencode.core.errors import UserMistake
from gencode.runtime.prompt import one_line

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 64 * 1024
DEEPEST = 8

_FENCE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"(?P<indent> *)(?P<head>[\w-]+:[ \t]+)(?P<value>\S.*)\Z")
_ITEM = re.compile(r"(?P<indent> *)(?P<head>- +)(?P<value>[*@`%].*)\Z")
_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(#.*)?\Z")
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


class FrontMatter(Struct, frozen=True):
    """What a file says: its fields, the line each one stands on, the text below, and what was repaired."""

    fields: dict[str, Any]
    lines: dict[str, int]
    body: str
    warnings: tuple[str, ...] = ()


class _Unreadable(Exception):
    """The text is not YAML; quoting may help."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line


def read_front_matter(text: str, path: str) -> FrontMatter:
    """The fields and the body of a file; UserMistake with the file, the line and the reason otherwise."""
    block, body, before = _split(text, path)
    if (simple := simple_fields(block)) is not None:
        lines = {name: line + before for name, (line, _) in simple.items()}
        return FrontMatter({name: _meant(value) for name, (_, value) in simple.items()}, lines, body)
    try:
        fields, lines = _Builder(path, before).build(block)
        return FrontMatter(fields, lines, body)
    except _Unreadable as error:
        first = error
    quoted, changed = _quote(block)
    try:
        fields, lines = _Builder(path, before).build(quoted)
    except _Unreadable:
        line = None if first.line is None else first.line + before
        raise mistake(path, f"the front matter cannot be read: {first}", line) from None
    notes = tuple(f"line {line + before} was read as if its value were in quotes" for line in changed)
    return FrontMatter(fields, lines, body, notes)


def mistake(path: str, reason: str, line: int | None = None) -> UserMistake:
    """A sentence that says which file, where in it, and what is wrong."""
    place = one_line(path, 400) + (f", line {line}" if line else "")
    return UserMistake(f"{place}: {reason if reason.endswith(('.', '?')) else reason + '.'}")


def _split(text: str, path: str) -> tuple[str, str, int]:
    """The text between the fences, the text below them, and how many lines stand before the first field."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    trimmed = text.lstrip(" \n")
    if text.startswith(" ") or "\n " in text[: len(text) - len(trimmed)]:
        text = textwrap.dedent(text)
    start = text.lstrip("\n")
    opening = _FENCE.match(start)
    if opening is None:
        raise mistake(path, "it has no front matter (fields between two lines of ---), so it is no agent")
    before = len(text) - len(start) + 1
    closing = _FENCE.search(start, opening.end() + 1)
    if closing is None:
        raise mistake(path, "the front matter is never closed; end it with a line of ---", before)
    block = start[opening.end() + 1 : closing.start()]
    if len(block.encode(errors="surrogatepass")) > MOST_BYTES:
        raise mistake(path, f"the front matter is longer than {MOST_BYTES:,} bytes")
    return block, start[closing.end() :].strip("\n"), before


def _quote(block: str) -> tuple[str, list[int]]:
    """The block with quotes around one-line values that YAML takes for something else, and their lines."""
    lines = block.split("\n")
    changed: list[int] = []
    at = 0
    while at < len(lines):
        found = _FIELD.match(lines[at]) or _ITEM.match(lines[at])
        first, at = at, at + 1
        if found is None:
            continue
        deeper = at
        while deeper < len(lines) and _belongs(lines[deeper], len(found["indent"])):
            deeper += 1
        value = found["value"].rstrip()
        if _BLOCK.match(value):
            at = deeper
        elif _misleading(value):
            whole = " ".join([value, *(line.strip() for line in lines[at:deeper])]).strip()
            lines[first] = f"{found['indent']}{found['head']}'{whole.replace(chr(39), chr(39) * 2)}'"
            lines[at:deeper] = [""] * (deeper - at)
            changed.append(first + 1)
            at = deeper
    return "\n".join(lines), changed


def _belongs(line: str, indent: int) -> bool:
    """Whether a line continues a value whose field is indented so far."""
    return not line.strip() or len(line) - len(line.lstrip(" ")) > indent


def _misleading(value: str) -> bool:
    if value[0] in "\"'[{|>&!#":
        return False
    return value[0] in "*@`%" or ": " in value or value.endswith(":")


class _Builder:
    """Builds plain lists, mappings, texts, integers and truth values from YAML events, with bounds."""

    def __init__(self, path: str, before: int) -> None:
        self._path = path
        self._before = before
        self._lines: dict[str, int] = {}

    def build(self, block: str) -> tuple[dict[str, Any], dict[str, int]]:
        import yaml  # 20 ms that no other command should pay

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        events = cast("Iterator[yaml.Event]", yaml.parse(block, loader))  # pyright: ignore[reportUnknownMemberType]
        try:
            fields = self._document(events)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            raise _Unreadable(error.problem or "it is not YAML", line) from None
        except (yaml.YAMLError, UnicodeError):
            raise _Unreadable("it holds characters that YAML does not allow", None) from None
        return fields, self._lines

    def _document(self, events: "Iterator[yaml.Event]") -> dict[str, Any]:
        import yaml

        fields: Any = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(event, "the front matter holds a second document")
            elif isinstance(event, yaml.NodeEvent):
                fields = self._value(event, events, 1)
        if fields is None:
            return {}
        if not isinstance(fields, dict):
            raise mistake(
                self._path, "the front matter must be fields such as `name: tester`", self._before + 1
            )
        return cast("dict[str, Any]", fields)

    def _value(self, event: "yaml.Event", events: "Iterator[yaml.Event]", depth: int) -> Any:
        import yaml

        self._refuse_magic(event)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event.value) if event.implicit[0] else event.value
        if depth > DEEPEST:
            self._refuse(event, f"the front matter is nested deeper than {DEEPEST} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self._value(event, events, depth + 1))
            return items
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._refuse(event, "a field's name must be a plain word")
            self._refuse_magic(event)
            key = event.value
            if key in mapping:
                self._refuse(event, f"the field {one_line(key, 64)!r} is given twice")
            if depth == 1:
                self._lines[key] = self._line(event)
            mapping[key] = self._value(next(events), events, depth + 1)
        return mapping

    def _refuse_magic(self, event: "yaml.Event") -> None:
        if getattr(event, "anchor", None) is not None:
            self._refuse(event, "anchors and aliases (& and *) are not allowed; put the text in quotes")
        if getattr(event, "tag", None) is not None:
            self._refuse(event, "tags (!) are not allowed; put the text in quotes")

    def _line(self, event: "yaml.Event") -> int:
        return event.start_mark.line + 1 + self._before

    def _refuse(self, event: "yaml.Event", reason: str) -> NoReturn:
        raise mistake(self._path, reason, self._line(event))


def _meant(value: Plain | dict[str, Plain]) -> Any:
    """A value with its words and integers as what they mean."""
    match value:
        case str():
            return _scalar(value)
        case list():
            return [_scalar(each) for each in value]
        case dict():
            return {name: _meant(each) for name, each in value.items()}


def _scalar(text: str) -> str | int | bool | None:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if _INTEGER.match(text) else text
