"""Validation messages: what is wrong with a request, with the field, what is allowed, and what was sent.

The decoder tells where it stopped; what is allowed there is read from the types.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, inspect

LONGEST = 80
_PLACE = re.compile(r" - at `\$(?P<way>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<number>\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
_MALFORMED = "JSON is malformed: "
Step = str | int


def query_mistake(error: msgspec.ValidationError, kind: type[Struct], said: object) -> str:
    """What is wrong with query parameters, where nothing can be null."""
    return _sentence(error, kind, said, null=False)


def body_mistake(error: Exception, kind: type[Struct], body: bytes) -> str:
    """What is wrong with a JSON body."""
    try:
        said = msgspec.json.decode(body)
    except UnicodeError:
        return "The request is not JSON: it is not UTF-8."
    except RecursionError:
        return "The request is not JSON: it is nested too deeply."
    except msgspec.DecodeError as broken:
        why = str(broken).removeprefix(_MALFORMED)
        return f"The request is not JSON: {'it is incomplete' if 'truncated' in why else why}."
    return _sentence(error, kind, said, null=True)


def _sentence(error: Exception, kind: type[Struct], said: object, *, null: bool) -> str:
    told = str(error)
    found = _PLACE.search(told)
    steps = _steps(found["way"]) if found else []
    what = told[: found.start()] if found else told
    # That a field behind the question mark may be said more than once makes no number of it.
    place = _named(steps if null else [step for step in steps if isinstance(step, str)])
    there = _at(inspect.type_info(kind), steps)
    if unknown := _UNKNOWN.fullmatch(what):
        where = f" in {place}" if place else ""
        known = ", ".join(field.encode_name for field in _fields(there))
        return _whole(f"Unknown field {unknown['name'][:LONGEST]}{where}. Known fields: {known or 'none'}.")
    if missing := _MISSING.fullmatch(what):
        name = missing["name"]
        needed = next((field.type for field in _fields(there) if field.encode_name == name), None)
        must = f"; it must be {_described(needed, null=null)}" if needed else ""
        return _whole(f"The field {_named([*steps, name])} is missing{must}.")
    may = _described(there, null=null)
    if not may:
        return _whole(f"{place or 'The request'} cannot be read: {what.replace('`', '')[:LONGEST]}.")
    return _whole(f"{place or 'The request'} must be {may}, not {_shown(_value(said, steps))}.")


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _steps(way: str) -> list[Step]:
    return [found["name"] or int(found["number"]) for found in _STEP.finditer(way)]


def _named(steps: Sequence[Step]) -> str:
    """A place as one writes it."""
    named = ""
    for step in steps:
        named += f"[{step}]" if isinstance(step, int) else f".{step}" if named else step
    return named


def _at(kind: inspect.Type, steps: Sequence[Step]) -> inspect.Type | None:
    """The type of what stands at a place."""
    here: inspect.Type | None = kind
    for step in steps:
        inner = [found for each in _choices(here) if (found := _below(each, step)) is not None]
        here = inner[0] if inner else None
    return here


def _choices(kind: inspect.Type | None) -> Sequence[inspect.Type]:
    if kind is None:
        return ()
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _below(kind: inspect.Type, step: Step) -> inspect.Type | None:
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return kind.item_type
    if isinstance(kind, inspect.StructType):
        return next((field.type for field in kind.fields if field.encode_name == step), None)
    return None


def _fields(kind: inspect.Type | None) -> Sequence[inspect.Field]:
    return next((each.fields for each in _choices(kind) if isinstance(each, inspect.StructType)), ())


def _described(kind: inspect.Type | None, *, null: bool) -> str:
    """The values that a type allows, in words; empty for types that no request has."""
    words: list[str] = []
    for each in _choices(kind):
        if isinstance(each, inspect.NoneType):
            words += ["null"] if null else []
        elif said := _one(each):
            words.append(said)
        else:
            return ""
    return ", or ".join(words)


def _one(kind: inspect.Type) -> str:
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_range(kind)}"
        case inspect.FloatType():
            return f"a number{_range(kind)}"
        case inspect.StrType(max_length=most):
            return "a text" if most is None else f"a text of at most {most:,} characters"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(_shown(each) for each in values)}"
        case inspect.EnumType(cls=cls):
            return f"one of {', '.join(str(each.value) for each in cls)}"
        case inspect.StructType() | inspect.DictType():
            return "an object"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"an array, each item {inner}" if (inner := _one(item)) else "an array"
        case _:
            return ""


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    least, above, most = kind.ge, kind.gt, kind.le
    if least is not None and most is not None:
        return f" from {least:,} to {most:,.0f}"
    if above is not None and most is not None:
        return f" greater than {above:,} and at most {most:,.0f}"
    return ""


def _value(said: Any, steps: Sequence[Step]) -> Any:
    """What stands at a place, where the decoder found it."""
    for step in steps:
        said = said[step]
    return said


def _shown(value: object) -> str:
    """A value as JSON, as far as it fits into a sentence."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
