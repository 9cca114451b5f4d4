"""runtime: results that fit a JSON Schema. A schema is checked when it is given, the text when an agent ends.

Both come from models and repositories. The schema is small, shallow and refers to nothing outside itself; its
patterns are matched in linear time. Whether a value fits is found out by a process of its own with a time
limit, because a schema of ten lines can ask for more steps than there are. These calls block for as long as
that takes; call them in a thread.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from gencode.core.errors import ToolError, UserMistake
from gencode.runtime.json_text import MOST_DEPTH, Refused, path_of, the_json_in, unfit
from gencode.runtime.shape_check import LARGEST_PATTERN, MOST_PROBLEMS

MOST_SCHEMA_BYTES = 64 * 1024
MOST_SCHEMA_VALUES = 10_000
MOST_PATTERNS = 100
SECONDS = 5.0
LONGEST_COMPLAINT = 4000
_LONGEST_WORD = 200

_ASKING = {
    *("$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions", "type", "enum", "const", "properties"),
    *("patternProperties", "additionalProperties", "required", "propertyNames", "minProperties"),
    *("maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
    *("unevaluatedProperties", "items", "prefixItems", "additionalItems", "contains"),
    *("minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"),
    *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
}
"""Keywords that ask for something. A schema without any is an example somebody took for a schema."""
_QUOTED = re.compile(r"'[^']{0,200}'")
_MISSING = "Results cannot be checked because the package jsonschema-rs is missing; pip install gencode-ai"


class NotFitting(ToolError):
    """The text of an agent is not what its schema asks for; the model reads what to repair."""


def check_schema(schema: object) -> dict[str, Any]:
    """A copy of the schema; UserMistake if it is none, is too large, or refers to something outside."""
    if not isinstance(schema, dict):
        raise UserMistake(f"An output schema is a JSON object such as {_EXAMPLE}; this is {_kind(schema)}.")
    _measure(cast("dict[object, object]", schema))
    text = json.dumps(schema, ensure_ascii=False)
    if len(text.encode()) > MOST_SCHEMA_BYTES:
        raise UserMistake(f"An output schema may have {MOST_SCHEMA_BYTES // 1024} KiB; this one is larger.")
    copy: dict[str, Any] = json.loads(text)
    if copy and _ASKING.isdisjoint(copy):
        raise UserMistake(f"An output schema is a JSON Schema such as {_EXAMPLE}; this one asks for nothing.")
    _compile(copy)
    return copy


def read_output(text: str, schema: dict[str, Any]) -> Any:
    """The JSON value that an agent's final text holds, if it fits a checked schema; else NotFitting."""
    try:
        value = the_json_in(text)
    except Refused as refused:
        raise NotFitting(f"{refused} {REPAIR} and nothing else.") from None
    problems = _problems(schema, value)
    if problems:
        raise NotFitting(_complaint(problems))
    return value


NOT_FITTING = "The result does not fit its schema:"
_TYPES = "string, number, integer, boolean, object, array and null"
REPAIR = "Answer again with the whole JSON value"
"""So begins what an agent should do; who reads how a task ended is not told that."""
_EXAMPLE = '{"type": "object", "properties": {"name": {"type": "string"}}}'


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "a truth value"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "something else"


def _measure(schema: dict[object, object]) -> None:
    """Look at every value before anything is made of it; what is shared or circular counts each time."""
    waiting: list[tuple[object, int]] = [(schema, 1)]
    values = patterns = 0
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if values > MOST_SCHEMA_VALUES:
            raise UserMistake(f"An output schema may have {MOST_SCHEMA_VALUES:,} values; this one has more.")
        if depth > MOST_DEPTH:
            raise UserMistake(f"An output schema may be {MOST_DEPTH} levels deep; this one is deeper.")
        if isinstance(value, dict):
            members = cast("dict[object, object]", value)
            patterns += _patterns(members)
            waiting += ((each, depth + 1) for each in members.values())
        elif isinstance(value, list):
            waiting += ((each, depth + 1) for each in cast("list[object]", value))
        elif reason := unfit(value):
            raise UserMistake(f"This is not an output schema: {reason}.")
    if patterns > MOST_PATTERNS:
        raise UserMistake(f"An output schema may have {MOST_PATTERNS} patterns; this one has {patterns:,}.")


def _patterns(members: dict[object, object]) -> int:
    """How many patterns stand in one object; names that JSON does not know are refused."""
    for name in members:
        if not isinstance(name, str):
            raise UserMistake(f"This is not an output schema: its name {str(name)[:40]!r} is not a text.")
        if reason := unfit(name):
            raise UserMistake(f"This is not an output schema: {reason}.")
    named = members.get("patternProperties")
    return isinstance(members.get("pattern"), str) + (
        len(cast("Any", named)) if isinstance(named, dict) else 0
    )


def _compile(schema: dict[str, Any]) -> None:
    try:
        import jsonschema_rs as rs  # 30 ms that only those pay who use schemas
    except ImportError:
        raise UserMistake(f"{_MISSING}.") from None
    patterns = rs.RegexOptions(size_limit=LARGEST_PATTERN, dfa_size_limit=LARGEST_PATTERN)
    try:
        rs.validator_for(schema, pattern_options=patterns, validate_formats=True, offline=True)
    except rs.ValidationError as error:
        raise UserMistake(_what_is_wrong(error.message, error.instance_path)) from None
    except ValueError as error:
        raise UserMistake(f"This is not a JSON Schema: {str(error)[:_LONGEST_WORD]}.") from None


def _what_is_wrong(message: str, path: list[str | int]) -> str:
    where = f" at {path_of(path)}" if path else ""
    if "registry" in message:
        named = _QUOTED.search(message)
        return (
            'An output schema may refer to its own parts ("$ref": "#/$defs/…") and be of a known draft of '
            f"JSON Schema; {named[0] if named else 'something in it'} is neither{where}."
        )
    if message.endswith('is not a "regex"'):
        return (
            f"The pattern{where} of the output schema cannot be used; it must be a small regular expression "
            f"without look-around and back-references: {message[:_LONGEST_WORD]}."
        )
    if path and path[-1] == "type" and "anyOf" in message:
        told = message.partition(" is not valid")[0][:_LONGEST_WORD]
        return f"This is not a JSON Schema{where}: {told} is no type; there are {_TYPES}, or a list of these."
    return f"This is not a JSON Schema{where}: {message[:_LONGEST_WORD]}."


def _problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What does not fit, as another process found out."""
    found = find_spec("jsonschema_rs")
    if found is None or found.origin is None:
        raise ToolError(f"{_MISSING}.")
    program = str(Path(__file__).with_name("shape_check.py"))
    command = [sys.executable, "-I", "-S", "-B", program, str(Path(found.origin).parents[1])]
    asked = json.dumps({"schema": schema, "value": value}).encode()
    try:
        ended = subprocess.run(
            command, input=asked, capture_output=True, timeout=SECONDS, cwd="/", env={}, check=False
        )
    except subprocess.TimeoutExpired as error:
        return [
            *_said(error.stdout),
            f"the check was ended after {SECONDS:g} seconds: give a smaller, flatter value",
        ]
    except OSError as error:
        raise ToolError(
            f"The result could not be checked now: {error.strerror}. Answer again later."
        ) from None
    said = list(_said(ended.stdout))
    if said[-1:] == [""]:
        return said[:-1]
    return [*said, "the check needed too much time or memory: give a smaller, flatter value"]


def _said(output: bytes | None) -> Iterator[str]:
    """The problems one by one, each a line; an empty one says that these are all that are told."""
    for line in (output or b"").splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield str(json.loads(line))


def _complaint(problems: list[str]) -> str:
    lines: list[str] = []
    room = LONGEST_COMPLAINT
    for problem in dict.fromkeys(problems):
        if len(lines) == MOST_PROBLEMS or room < len(problem):
            lines.append("- and more")
            break
        lines.append(f"- {problem}")
        room -= len(problem)
    told = "\n".join(lines)
    return f"{NOT_FITTING}\n{told}\n{REPAIR}, repaired, and nothing else."
