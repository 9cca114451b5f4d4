"""Checks a JSON Schema and a value against it; run as a separate, limited process.

Reads `{"schema"}` or `{"schema", "value"}` from stdin and writes one JSON text per problem and line, and at
the end an empty line. A schema alone is only compiled, which may take as long as checking a value. Its
arguments are the folder of jsonschema_rs (everything else is the standard library) and how many seconds of
processor time it may take.
"""

import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, cast

MOST_PROBLEMS = 10
LARGEST_PATTERN = 256 * 1024
MEMORY = 1 << 30
_BOUNDS = (
    (resource.RLIMIT_AS, MEMORY, MEMORY),
    (resource.RLIMIT_CORE, 0, 0),  # a process that needs too much memory aborts, and needs no core file
)
_LONGEST = 160
_LONGEST_WORD = 200
_QUOTED = re.compile(r"'[^']{0,200}'")
_TYPES = "string, number, integer, boolean, object, array and null"
_MASK = "the value"
_NEAREST = 3
_ALIKE = 3
_MOST_LOOKED_AT = 1000
_ABOUT_MEMBERS = frozenset({"required", "additionalProperties", "unevaluatedProperties", "dependentRequired"})
_CHOICES = frozenset({"anyOf", "oneOf"})


def main() -> None:
    packages, seconds = sys.argv[1:]
    limits = ((resource.RLIMIT_CPU, int(seconds), int(seconds) + 1), *_BOUNDS)
    for limit, most, hard in limits:
        with suppress(ValueError, OSError):  # a system that does not know this limit, or has a lower one
            resource.setrlimit(limit, (most, hard))
    sys.path.append(packages)
    asked = json.load(sys.stdin.buffer)
    try:
        validator = compiled(asked["schema"], mask=_MASK if "value" in asked else None)
    except ValueError as error:
        found: Iterable[str] = [what_is_wrong(error)]
    else:
        found = problems(validator, asked["value"]) if "value" in asked else ()
    for problem in found:
        say(problem)
    say("")


def say(text: str) -> None:
    print(json.dumps(text), flush=True)


def compiled(schema: Any, mask: str | None = None) -> Any:
    """The compiled validator; ValueError for a schema that is invalid or refers to something outside."""
    import jsonschema_rs as rs

    patterns = rs.RegexOptions(size_limit=LARGEST_PATTERN, dfa_size_limit=LARGEST_PATTERN)
    return rs.validator_for(schema, pattern_options=patterns, validate_formats=True, offline=True, mask=mask)


def what_is_wrong(error: ValueError) -> str:
    """Why a schema is invalid, for a person."""
    import jsonschema_rs as rs

    if not isinstance(error, rs.ValidationError):
        return f"This is not a JSON Schema: {str(error)[:_LONGEST_WORD]}."
    message, path = error.message, error.instance_path
    where = f" at {place(path)}" if path else ""
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


def problems(validator: Any, value: Any) -> Iterator[str]:
    """The first problem at once, because all of them may take long; then the others, few of the same kind."""
    import jsonschema_rs as rs

    try:
        validator.validate(value)
    except rs.ValidationError as error:
        yield sentence(error)
    else:
        return
    told: Counter[tuple[Any, ...]] = Counter()
    for error in islice(validator.iter_errors(value), _MOST_LOOKED_AT):
        told[tuple(error.schema_path)] += 1
        if told[tuple(error.schema_path)] <= _ALIKE:
            yield sentence(error)


def sentence(error: Any) -> str:
    """The path, what is expected there, and what there is instead."""
    keyword = error.kind.name
    said = f"at {place(error.instance_path)}: {clipped(expected(error, keyword))}"
    if keyword not in _ABOUT_MEMBERS:
        said += f"; it is {shown(error.instance)}"
    if keyword in _CHOICES and (nearest := nearest_form(error)):
        said += f" ({nearest})"
    return said


def expected(error: Any, keyword: str) -> str:
    if keyword == "additionalProperties" and hasattr(error.kind, "unexpected"):
        names = ", ".join(json.dumps(each, ensure_ascii=False) for each in error.kind.unexpected[:10])
        return f"these members are not allowed: {names}"
    if keyword == "required":
        return f"the member {json.dumps(error.kind.property, ensure_ascii=False)} is missing"
    if keyword == "falseSchema" or (keyword == "enum" and not error.kind.options) or _excludes_all(error):
        return "no value is allowed here"
    return str(error.message)


def _excludes_all(error: Any) -> bool:
    return error.kind.name == "not" and error.kind.schema in (True, {})


def nearest_form(error: Any) -> str:
    """The problems with the best matching alternative: of the right type, with the fewest problems."""
    forms = [(number, form) for number, form in enumerate(error.kind.context, 1) if form]
    if not forms:
        return ""

    here = len(error.instance_path)

    def distance(form: list[Any]) -> tuple[int, int]:
        other_kind = sum(
            (each.kind.name == "type" and len(each.instance_path) == here)
            or (each.kind.name in {"const", "enum"} and len(each.instance_path) <= here + 1)
            for each in form
        )
        return other_kind, len(form)

    number, form = min(forms, key=lambda each: distance(each[1]))
    wrong = "; ".join(
        f"at {place(each.instance_path)}: {clipped(expected(each, each.kind.name))}"
        for each in form[:_NEAREST]
    )
    return f"nearest is form {number}: {wrong}"


def place(steps: list[Any]) -> str:
    """The path of a value: `$.items[3]["odd name"]`."""
    said = "$"
    for step in steps:
        if isinstance(step, int):
            said += f"[{step}]"
        elif step.isidentifier() and step.isascii():
            said += f".{step}"
        else:
            said += f"[{json.dumps(step[:80], ensure_ascii=False)}]"
    return clipped(said)


def shown(value: Any) -> str:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            names = ", ".join(json.dumps(each, ensure_ascii=False) for each in list(members)[:10])
            return clipped(f"an object with {names}" if names else "an empty object")
        case list():
            return f"an array of {len(cast('list[Any]', value))}"
        case str():
            return clipped(json.dumps(value[:_LONGEST], ensure_ascii=False))
        case _:
            return clipped(json.dumps(value))


def clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


if __name__ == "__main__":
    main()
