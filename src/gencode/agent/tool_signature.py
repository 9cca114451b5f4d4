"""Turns a tool's signature into a type for its arguments, a JSON schema and other names for parameters."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin, get_type_hints

import msgspec

from gencode.core.errors import UserMistake


class Param(msgspec.Struct, frozen=True):
    """The description of a parameter, and its public name if that is not a Python name.

    `also` are names that models know from other products; they are accepted and not in the schema. A `hidden`
    parameter, or those values of one, are accepted and not shown to models.
    """

    description: str = ""
    name: str = ""
    also: tuple[str, ...] = ()
    hidden: bool | tuple[str, ...] = False


class Signature(NamedTuple):
    """Arguments as a type and as a JSON schema; `synonyms` map other names to the public one.

    `hidden` are parameters with the values that are not shown to models; without values, not at all.
    """

    arguments: type[msgspec.Struct]
    schema: dict[str, Any]
    synonyms: dict[str, str]
    hidden: dict[str, tuple[str, ...]]


def signature_of(title: str, function: Callable[..., Awaitable[object]]) -> Signature:
    """The signature of a tool's function; its first parameter is the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    renamed: dict[str, str] = {}
    synonyms: dict[str, str] = {}
    hidden: dict[str, tuple[str, ...]] = {}
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
            hidden[param.name or parameter.name] = () if param.hidden is True else param.hidden
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
    return Signature(arguments, _inline(defs[arguments.__name__], defs), synonyms, hidden)


def _described(hint: Any) -> tuple[Any, Param]:
    """A parameter's type with its description as schema metadata, and its Param."""
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
    """A schema without what models do not need: references, titles, empty defaults, null types.

    Every enum gets a type, and no empty value: some providers refuse a request with other tools.
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

    Null and the empty text are left out, since they mean that the argument is missing. They stay accepted.
    """
    kinds = {"string": str, "integer": int}
    enums = [
        {"type": name, "enum": [each for each in values if isinstance(each, kind) and each != ""]}
        for name, kind in kinds.items()
        if any(isinstance(each, kind) for each in values)
    ]
    enums = [each if each["enum"] else {"type": each["type"]} for each in enums]
    return enums[0] if len(enums) == 1 else {"anyOf": enums} if enums else {"type": "null"}


_CHECKED = frozenset({"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"})
"""Bounds that are checked here, with an error that names them; models do not need to know them in advance."""


def _needless(key: str, value: Any) -> bool:
    """Whether models do not need an entry: a Python name, a bound, an empty default.

    A parameter called `title`, `default` or `minimum` is a schema, not text or a value.
    """
    if key == "default":
        return value in ("", None, False, [], (), 0)
    if key in ("required", "additionalProperties"):
        return value in ([], False, {})
    return (key == "title" and isinstance(value, str)) or (key in _CHECKED and isinstance(value, int | float))


def _prose(key: str, value: Any) -> bool:
    """Whether an entry is the docstring of a record, which models do not need."""
    return key == "description" and isinstance(value, str)
