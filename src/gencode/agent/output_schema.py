"""Checks JSON Schemas when they are given, and the JSON that an agent answers with when it ends.

Both come from models and repositories. The schema is small, shallow and refers to nothing outside itself; its
patterns are matched in linear time. Whether it can be compiled, and whether a value fits, is found out by a
process of its own with limits of time and memory: a schema of ten lines can ask for more steps than there
are, also before it has met a value, so nothing of it is compiled in this process. These calls block for as
long as that takes; where others are not to wait, call them with `aside`.
"""

import asyncio
import json
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
SECONDS = 5.0
LONGEST_COMPLAINT = 4000
AT_ONCE = 4
"""So many checks go on at once, since each may take much memory."""
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
"""Keywords that ask for something. A schema without any is an example somebody took for a schema."""
_MISSING = "Results cannot be checked because the package jsonschema-rs is missing; pip install gencode-ai"


_threads = ThreadPoolExecutor(AT_ONCE, "schemas")
T = TypeVar("T")


class SchemaMismatch(ToolError):
    """The text of an agent is not what its schema asks for; the model reads what to repair.

    `problem` is what is wrong alone, for who reads how a task ended.
    """

    def __init__(self, message: str, problem: str) -> None:
        super().__init__(message)
        self.problem = problem


class _CheckFailed(Exception):
    """Nothing can be checked now, and why."""


async def aside(check: Callable[[], T]) -> T:
    """What a check gives that blocks, while everything else goes on."""
    return await asyncio.get_running_loop().run_in_executor(_threads, check)


def check_schema(schema: object) -> dict[str, Any]:
    """A copy of the schema; UserMistake if it is none, is too large, or refers to something outside.

    One that takes too much time or memory to find that out is refused as well, and one that plainly nothing
    can fit: an agent would repair its result in vain.
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
    """The JSON value that an agent's final text holds, if it fits a checked schema; else SchemaMismatch."""
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


def _nothing_fits(schema: Any, *steps: str | int) -> str:
    """Why no value at all fits a schema, where that is plain to see; else nothing."""
    if schema is False:
        return f"false stands at {place(list(steps))}"
    if not isinstance(schema, dict) or "$ref" in schema:  # beside a reference older drafts read nothing
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
    """UserMistake for what cannot be compiled. What can is remembered, since many agents have the same."""
    try:
        said, given_up = _found_out(f'{{"schema": {text}}}')
    except _CheckFailed as why:
        raise UserMistake(str(why)) from None
    if given_up:
        raise UserMistake(TOO_EXPENSIVE.format(why=given_up))
    if said:
        raise UserMistake(said[0])


def _problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What does not fit."""
    try:
        said, given_up = _found_out(json.dumps({"schema": schema, "value": value}))
    except _CheckFailed as why:
        raise ToolError(str(why)) from None
    return [*said, f"{given_up}: give a smaller, flatter value"] if given_up else said


def _found_out(asked: str) -> tuple[list[str], str]:
    """What another process found wrong, and why it was given up, if it was."""
    found = find_spec("jsonschema_rs")
    if found is None or found.origin is None:
        raise _CheckFailed(f"{_MISSING}.")
    program = str(Path(__file__).with_name("schema_checker.py"))
    command = [sys.executable, "-I", "-S", "-B", program, str(Path(found.origin).parents[1])]
    try:
        ended = subprocess.run(
            command, input=asked.encode(), capture_output=True, timeout=SECONDS, cwd="/", env={}, check=False
        )
    except subprocess.TimeoutExpired as error:
        return [*_said(error.stdout)], f"the check was ended after {SECONDS:g} seconds"
    except OSError as error:
        raise _CheckFailed(
            f"JSON Schemas cannot be checked now: {error.strerror}. Try again later."
        ) from None
    said = list(_said(ended.stdout))
    if said[-1:] == [""]:
        return said[:-1], ""
    return said, "the check needed too much time or memory"


def _said(output: bytes | None) -> Iterator[str]:
    """The problems one by one, each a line; an empty one says that these are all that are told."""
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
