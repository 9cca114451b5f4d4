"""Turns a tool's signature into a type for its arguments, a JSON schema and other names for parameters."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin, get_type_hints

import msgspec

from gencode.core.errors import UserMistake


class Param(msgspec.Struct, frozen=True):
    """What a model is told about a parameter, and its public name where that is no Python name.

    `also` are names that models know it by from other products; the schema does not show them. A parameter
    that is `hidden` is taken, and not shown to models.
    """

    description: str = ""
    name: str = ""
    also: tuple[str, ...] = ()
    hidden: bool = False


class Signature(NamedTuple):
    """Arguments as a type and as a JSON schema; `synonyms` lead from another name to the public one."""

    arguments: type[msgspec.Struct]
    schema: dict[str, Any]
    synonyms: dict[str, str]
    hidden: frozenset[str]


def signature_of(title: str, function: Callable[..., Awaitable[object]]) -> Signature:
    """What the signature of a tool's function says; its first parameter is the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    renamed: dict[str, str] = {}
    synonyms: dict[str, str] = {}
    hidden: set[str] = set()
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if position == 0:
            continue
        if parameter.name not in hints:
            raise UserMistake(f"The tool {title!r} needs a type for its parameter {parameter.name!r}.")
        hint, param = _described(hints[parameter.name])
        if param.name:
            renamed[parameter.name] = param.name
        synonyms |= dict.fromkeys(param.also, param.name or parameter.name)
        if param.hidden:
            hidden.add(param.name or parameter.name)
        default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        fields.append((parameter.name, hint, default))
    arguments = msgspec.defstruct(
        f"{title}Arguments",
        fields,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        rename=renamed or None,
    )
    (_,), defs = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    return Signature(arguments, _inline(defs[arguments.__name__], defs), synonyms, frozenset(hidden))


def _described(hint: Any) -> tuple[Any, Param]:
    """A parameter's type with its description as schema metadata, and what else is said of it."""
    if get_origin(hint) is not Annotated:
        return hint, Param()
    base, *notes = get_args(hint)
    params = (Param(note) if isinstance(note, str) else note for note in notes)
    param = next((each for each in params if isinstance(each, Param)), Param())
    kept = [note for note in notes if isinstance(note, msgspec.Meta)]
    if param.description:
        kept.append(msgspec.Meta(description=param.description))
    for note in kept:
        base = Annotated[base, note]
    return base, param


def _inline(schema: Any, defs: Mapping[str, Any]) -> Any:
    """A schema without what no model has to read: references, titles, empty defaults, null for nothing.

    Every enum gets a type, and no empty value: some providers refuse a request whose tools have others.
    """
    match schema:
        case {"$ref": str(target)}:
            found = cast("dict[str, Any]", defs[target.rsplit("/", 1)[1]])
            return _inline({key: value for key, value in found.items() if not _prose(key, value)}, defs)
        case {"anyOf": [only, {"type": "null"}], **rest}:
            return {**_inline(rest, defs), **_inline(only, defs)}
        case {"enum": list(), **rest}:
            return {**_inline(rest, defs), **_typed_enum(cast("list[Any]", schema["enum"]))}
        case dict():
            entries = cast("dict[str, Any]", schema).items()
            return {key: _inline(value, defs) for key, value in entries if not _needless(key, value)}
        case list():
            return [_inline(each, defs) for each in cast("list[Any]", schema)]
        case _:
            return schema


def _typed_enum(values: Sequence[Any]) -> dict[str, Any]:
    """An enum with the type of its values; one of several types as one enum for each of them.

    Null and the empty text are left out: they say what leaving out the argument says. They stay accepted.
    """
    kinds = {"string": str, "integer": int}
    enums = [
        {"type": name, "enum": [each for each in values if isinstance(each, kind) and each != ""]}
        for name, kind in kinds.items()
        if any(isinstance(each, kind) for each in values)
    ]
    enums = [each if each["enum"] else {"type": each["type"]} for each in enums]
    return enums[0] if len(enums) == 1 else {"anyOf": enums} if enums else {"type": "null"}


def _needless(key: str, value: Any) -> bool:
    """Whether an entry only repeats a Python name, or says that what is left out is empty.

    A parameter called `title` or `default` is not text or a value but a schema.
    """
    return (key == "title" and isinstance(value, str)) or (
        key == "default" and value in ("", None, False, [], 0)
    )


def _prose(key: str, value: Any) -> bool:
    """Whether an entry is the docstring of a record, which says nothing to a model."""
    return key == "description" and isinstance(value, str)
