"""Agents room: the bytes of a file become an agent, or the sentence that says why they do not.

Nothing here raises for what a file holds: one bad file never stops the others.
"""

import re
from math import isfinite
from pathlib import PurePath
from typing import Any, cast

from msgspec.structs import replace

from gencode.agents.dialect import AgentFile, Dialect, Near, Parsed, alone
from gencode.agents.frontmatter import mistake, read_front_matter
from gencode.agents.making import make
from gencode.agents.places import dialect as dialect_named
from gencode.agents.yaml_fields import DEEPEST_FILE, NoAgent, Unreadable, no_agent, yaml_fields
from gencode.core.errors import UserMistake
from gencode.core.spec import AgentSpec
from gencode.permissions.agent_places import CONFIG_NAMES
from gencode.permissions.brought import LARGEST_KEPT
from gencode.runtime.prompt import one_line

ENDINGS = (".md", ".toml", ".yaml", ".yml", ".json", ".jsonc")
MOST_DOTS = 100
"""A TOML key of more parts than this is no agent's; the time to read one grows with their square."""
LARGEST_NUMBER = 2**63
DEEPEST_VALUE = 100
_NO_VALUE = "it holds a number that is too large, or a date that there is not"
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART}){{{MOST_DOTS}}}")


def read_agent_files(
    content: bytes, path: str, dialect: str | None = None, *, near: Near = alone
) -> list[AgentFile]:
    """The agents of a file: one, but for settings of other products that may hold some."""
    if PurePath(path).name in CONFIG_NAMES:
        from gencode.agents.dialects.opencode_settings import agents_inside, plain_json

        try:
            fields = _json(plain_json(_decoded(content, path)), path)
        except UserMistake as error:
            return [AgentFile(path, "opencode", why_not=str(error))]
        return agents_inside(fields, path, near)
    return [read_agent_file(content, path, dialect, near=near)]


def read_agent_file(
    content: bytes, path: str, dialect: str | None = None, *, builtin: bool = False, near: Near = alone
) -> AgentFile:
    """A file as one of a dialect; without one it is told from its path and what it holds.

    `near` gives the files beside it that it may be based on.
    """
    name = dialect or ""
    try:
        text = _decoded(content, path)
        if dialect is None:
            from gencode.agents.recognising import dialect_of, from_path, has_form

            name = from_path(PurePath(path)) or name
            parsed = parse(text, path)
            if not name and not has_form(PurePath(path), parsed):
                raise no_agent(path, "it does not have the form of an agent")
            name = dialect_of(PurePath(path), parsed)
        else:
            parsed = parse(text, path)
        made_by = dialect_named(name)
        return make(made_by.joined(parsed, near, PurePath(path)), made_by, path, builtin=builtin)[1]
    except UserMistake as error:
        return AgentFile(path, name, why_not=str(error), other=isinstance(error, NoAgent))


def read_agent(text: str, path: str, dialect: Dialect, *, builtin: bool = False) -> AgentSpec:
    """The agent of a file; UserMistake says what is wrong with it."""
    return make(parse(text, path), dialect, path, builtin=builtin)[0]


def parse(text: str, path: str) -> Parsed:
    """A file as its format says it."""
    ending = PurePath(path).suffix.casefold()
    if ending == ".toml":
        return Parsed(_toml(text, path))
    if ending == ".json":
        return Parsed(_json(text, path))
    if ending in (".yaml", ".yml"):
        found = _yaml(text, path)
        return replace(found, fields=_plain(found.fields, path))
    matter = read_front_matter(text, path)
    fields = _plain(matter.fields, path)
    return Parsed(fields, matter.lines, matter.body, matter.stage, matter.repaired)


def _decoded(content: bytes, path: str) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise mistake(path, "it is not UTF-8 text", line) from None
    if len(content) > LARGEST_KEPT:
        raise mistake(path, f"it is larger than {LARGEST_KEPT:,} bytes")
    return text


def _toml(text: str, path: str) -> dict[str, Any]:
    import tomllib

    if _DOTTED.search(text):
        raise mistake(path, "it is nested too deep")
    try:
        return _plain(tomllib.loads(text.removeprefix("\ufeff")), path)
    except tomllib.TOMLDecodeError as error:
        raise mistake(path, f"it is not TOML: {one_line(str(error), 200)}") from None
    except ValueError:  # a number with more digits than Python reads, or a date that is none
        raise mistake(path, _NO_VALUE) from None
    except RecursionError:
        raise mistake(path, "it is nested too deep") from None


def _json(text: str, path: str) -> dict[str, Any]:
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise mistake(path, f"the field {one_line(twice, 64)!r} is given twice")
        return fields

    try:
        found = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise mistake(path, f"it is not JSON: {one_line(str(error), 200)}") from None
    except ValueError:  # a number with more digits than Python reads
        raise mistake(path, _NO_VALUE) from None
    except RecursionError:
        raise mistake(path, "it is nested too deep") from None
    if not isinstance(found, dict):
        raise no_agent(path, "it holds no fields, so it is no agent")
    return _plain(cast("dict[str, Any]", found), path)


def _plain(fields: dict[str, Any], path: str) -> dict[str, Any]:
    """The fields, with nothing in them that cannot be written down again: everybody after this shows values.

    Dates are texts, as in YAML. UserMistake for what is too deep, too large, or no Unicode.
    """

    def plain(value: Any, depth: int) -> Any:
        match value:
            case str():
                if not _is_unicode(value):
                    raise mistake(path, "it holds half a character (a lone surrogate), which is no text")
                return value
            case bool() | None:
                return value
            case int():
                if abs(value) >= LARGEST_NUMBER:
                    raise mistake(path, "it holds a number that is too large")
                return value
            case float():
                return value if isfinite(value) else str(value)
            case dict() | list() if depth == DEEPEST_VALUE:
                raise mistake(path, "it is nested too deep")
            case dict():
                pairs = cast("dict[str, Any]", value).items()
                return {plain(name, depth): plain(each, depth + 1) for name, each in pairs}
            case list():
                return [plain(each, depth + 1) for each in cast("list[Any]", value)]
            case _:
                return str(value)

    return plain(fields, 0)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _yaml(text: str, path: str) -> Parsed:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        fields, lines = yaml_fields(text, path, deepest=DEEPEST_FILE)
    except Unreadable as error:
        raise mistake(path, f"it is not YAML: {error}", error.line) from None
    return Parsed(fields, lines)
