"""Checks JSON Schemas, and the JSON that an agent answers with at its end.

Both come from models and repositories. A schema is small, shallow and refers to nothing outside itself; its
patterns are matched in linear time. A separate process with limits of time and memory compiles it and checks
values: a schema of ten lines can need an endless number of steps, even without a value, so nothing of it is
compiled in this process. These calls block for as long as that takes; use `aside` to run them in a thread.
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

from gencode.agent.json_reply import MOST_DEPTH, InvalidJson, the_json_in, unfit
from gencode.agent.schema_checker import MOST_PROBLEMS, place
from gencode.core.errors import ToolError, UserMistake

MOST_SCHEMA_BYTES = 64 * 1024
MOST_SCHEMA_VALUES = 10_000
MOST_PATTERNS = 100
SECONDS = 5
"""Most processor time of one check, so that a busy machine refuses no schema."""
PATIENCE = 60.0
"""Seconds for which one check is waited for."""
LONGEST_COMPLAINT = 4000
AT_ONCE = 4
"""How many checks run at once, since each may need much memory."""
_REMEMBERED = 64

_ASKING = {
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$defs",
    "definitions",
    "type",
    "enum",
    "const",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "unevaluatedItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
}
"""Keywords that restrict a value. A schema without any is probably an example value."""
_MISSING = "Results cannot be checked because the package jsonschema-rs is missing; pip install gencode-ai"


_threads = ThreadPoolExecutor(AT_ONCE, "schemas")
T = TypeVar("T")


class SchemaMismatch(ToolError):
    """The answer of an agent does not match its schema; the model reads what to repair.

    `problem` is the error alone, for readers of the task's end.
    """

    def __init__(self, message: str, problem: str) -> None:
        super().__init__(message)
        self.problem = problem


class _CheckFailed(Exception):
    """The check could not be made, and why."""


async def aside(check: Callable[[], T]) -> T:
    """The result of a blocking check, run in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_threads, check)


def check_schema(schema: object) -> dict[str, Any]:
    """A copy of the schema; UserMistake if it is invalid, too large, or refers to something outside.

    It is also refused if the check needs too much time or memory, or if plainly no value can match: an agent
    would repair its result in vain.
    """
    if not isinstance(schema, dict):
        raise UserMistake(f"An output schema is a JSON object such as {_EXAMPLE}; this is {_kind(schema)}.")
    _measure(cast("dict[object, object]", schema))
    text = json.dumps(schema, ensure_ascii=False)
    if len(text.encode()) > MOST_SCHEMA_BYTES:
        raise UserMistake(f"An output schema may have {MOST_SCHEMA_BYTES // 1024} KiB; this one is larger.")
    copy: dict[str, Any] = json.loads(text)
    if copy and _ASKING.isdisjoint(copy):
        raise UserMistake(f"An output schema is a JSON Schema such as {_EXAMPLE}; this one asks for nothing.")
    _try(text)
    if why := _nothing_fits(copy):
        raise UserMistake(f"No result can fit this output schema: {why}.")
    return copy


def read_output(text: str, schema: dict[str, Any]) -> Any:
    """The JSON value in an agent's final text if it matches a checked schema; else SchemaMismatch."""
    try:
        value = the_json_in(text)
    except InvalidJson as refused:
        raise SchemaMismatch(f"{refused} {_REPAIR} and nothing else.", str(refused)) from None
    problems = _problems(schema, value)
    if problems:
        told = _listed(problems)
        raise SchemaMismatch(f"{_NOT_FITTING}\n{told}\n{_REPAIR}, repaired, and nothing else.", told)
    return value


TOO_EXPENSIVE = (
    "This output schema is too expensive to check: {why}. Let fewer of its parts refer to each "
    "other, and leave unevaluatedProperties and unevaluatedItems out."
)
_NOT_FITTING = "The result does not fit its schema:"
_REPAIR = "Answer again with the whole JSON value"
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
    """Check the size of every value before anything is made of it; shared values count each time."""
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
    """The number of patterns in one object; names that are not strings are refused."""
    for name in members:
        if not isinstance(name, str):
            raise UserMistake(f"This is not an output schema: its name {str(name)[:40]!r} is not a text.")
        if reason := unfit(name):
            raise UserMistake(f"This is not an output schema: {reason}.")
    named = members.get("patternProperties")
    return isinstance(members.get("pattern"), str) + (
        len(cast("Any", named)) if isinstance(named, dict) else 0
    )


def _nothing_fits(schema: Any, *steps: str | int) -> str:
    """Why no value at all can match a schema, where that is plain; else nothing."""
    if schema is False:
        return f"false stands at {place(list(steps))}"
    if not isinstance(schema, dict) or "$ref" in schema:  # older drafts ignore everything beside a reference
        return ""
    said = cast("dict[str, Any]", schema)
    if said.get("enum") == []:
        return f"the enum at {place(list(steps))} has no values"
    if "not" in said and said["not"] in (True, {}):
        return f"the not at {place(list(steps))} excludes everything"
    needed = said.get("required", ()) if said.get("type") == "object" else ()
    members = ((("properties", name), said.get("properties", {}).get(name, True)) for name in needed)
    parts = ((("allOf", number), each) for number, each in enumerate(said.get("allOf", ())))
    for way, each in (*members, *parts):
        if why := _nothing_fits(each, *steps, *way):
            return why
    for choice in ("anyOf", "oneOf"):
        reasons = [_nothing_fits(each, *steps, choice, n) for n, each in enumerate(said.get(choice, ()))]
        if reasons and all(reasons):
            return reasons[0]
    return ""


@lru_cache(_REMEMBERED)
def _try(text: str) -> None:
    """UserMistake for a schema that cannot be compiled. Success is cached: many agents share a schema."""
    try:
        said, given_up = _found_out(f'{{"schema": {text}}}')
    except _CheckFailed as why:
        raise UserMistake(str(why)) from None
    if given_up:
        raise UserMistake(TOO_EXPENSIVE.format(why=given_up))
    if said:
        raise UserMistake(said[0])


def _problems(schema: dict[str, Any], value: Any) -> list[str]:
    """The differences between a value and its schema."""
    try:
        said, given_up = _found_out(json.dumps({"schema": schema, "value": value}))
    except _CheckFailed as why:
        raise ToolError(str(why)) from None
    return [*said, f"{given_up}: give a smaller, flatter value"] if given_up else said


def _found_out(asked: str) -> tuple[list[str], str]:
    """The problems that the checking process found, and why it was stopped, if it was."""
    found = find_spec("jsonschema_rs")
    if found is None or found.origin is None:
        raise _CheckFailed(f"{_MISSING}.")
    program = str(Path(__file__).with_name("schema_checker.py"))
    packages = str(Path(found.origin).parents[1])
    command = [sys.executable, "-I", "-S", "-B", program, packages, str(SECONDS)]
    try:
        ended = subprocess.run(
            command, input=asked.encode(), capture_output=True, timeout=PATIENCE, cwd="/", env={}, check=False
        )
    except subprocess.TimeoutExpired as error:
        return [*_said(error.stdout)], f"the check was ended after {PATIENCE:g} seconds"
    except OSError as error:
        raise _CheckFailed(
            f"JSON Schemas cannot be checked now: {error.strerror}. Try again later."
        ) from None
    said = list(_said(ended.stdout))
    if said[-1:] == [""]:
        return said[:-1], ""
    if ended.returncode == -signal.SIGXCPU:
        return said, f"the check was ended after {SECONDS} seconds"
    return said, "the check needed too much time or memory"


def _said(output: bytes | None) -> Iterator[str]:
    """The problems, one in each line; an empty line says that these are all."""
    for line in (output or b"").splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield str(json.loads(line))


def _listed(problems: list[str]) -> str:
    lines: list[str] = []
    room = LONGEST_COMPLAINT
    for problem in dict.fromkeys(problems):
        if len(lines) == MOST_PROBLEMS or room < len(problem):
            lines.append("- and more")
            break
        lines.append(f"- {problem}")
        room -= len(problem)
    return "\n".join(lines)
