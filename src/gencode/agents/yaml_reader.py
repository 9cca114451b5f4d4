"""Reads YAML for agent and skill files: no anchors, tags or deep nesting. TOML and JSON: `agent_file`.

It is read as a stream of events and built here, so that anchors, aliases, tags, deep nesting and repeated
fields are refused before anything grows. Numbers and dates keep their spelling except for plain integers;
only `true`, `false` and `null` are words with a meaning.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

from gencode.agents.file_errors import mistake
from gencode.core.text import one_line

if TYPE_CHECKING:
    import yaml

DEEPEST = 8
DEEPEST_FILE = 16
"""For a file that is YAML as a whole, and may hold schemas."""

_NO_TAGS = "tags (!) are not allowed; put the text in quotes"
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


class NotYaml(Exception):
    """The text is not YAML; quoting may help."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line


def yaml_fields(
    block: str, path: str, before: int = 0, deepest: int = DEEPEST
) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of a block and their lines. Unreadable if it is no YAML, UserMistake if it is not plain."""
    return _YamlBuilder(path, before, deepest).build(block)


def scalar(text: str) -> str | int | bool | None:
    """A plain word as what it means."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if _INTEGER.match(text) else text


class _YamlBuilder:
    """Builds plain lists, mappings, texts, integers and truth values from YAML events, with bounds."""

    def __init__(self, path: str, before: int, deepest: int) -> None:
        self._path = path
        self._before = before
        self._deepest = deepest
        self._lines: dict[str, int] = {}

    def build(self, block: str) -> tuple[dict[str, Any], dict[str, int]]:
        import yaml  # 20 ms that no other command should pay

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        events = cast("Iterator[yaml.Event]", yaml.parse(block, loader))  # pyright: ignore[reportUnknownMemberType]
        try:
            fields = self._document(events)
        except yaml.MarkedYAMLError as error:
            raise NotYaml(error.problem or "it is not YAML", _line(error)) from None
        except (yaml.YAMLError, UnicodeError):
            raise NotYaml("it holds characters that YAML does not allow", None) from None
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
            return scalar(event.value) if event.implicit[0] else event.value
        if depth > self._deepest:
            self._refuse(event, f"the front matter is nested deeper than {self._deepest} levels")
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
        tag = getattr(event, "tag", None)
        if isinstance(tag, str) and tag.startswith("!"):  # a word after an exclamation mark, most often
            raise NotYaml(_NO_TAGS, event.start_mark.line + 1)
        if tag is not None:
            self._refuse(event, _NO_TAGS)

    def _line(self, event: "yaml.Event") -> int:
        return event.start_mark.line + 1 + self._before

    def _refuse(self, event: "yaml.Event", reason: str) -> NoReturn:
        raise mistake(self._path, reason, self._line(event))


def _line(error: "yaml.MarkedYAMLError") -> int | None:
    """Where a mistake is: where the bracket, the quote or the word began that was never finished.

    The parser notices it at the next line or at the end. Of a block it names the first field: no help.
    """
    block = (error.context or "").startswith("while parsing a block")
    mark = error.problem_mark if block or error.context_mark is None else error.context_mark
    return None if mark is None else mark.line + 1
