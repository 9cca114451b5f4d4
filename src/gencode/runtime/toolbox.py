"""Tools as typed functions, and immutable boxes of them.

    @tool(effect="read")
    async def count_lines(ctx: ToolContext, path: Annotated[str, "A text file"]) -> str:
        \"\"\"Count the lines of a text file.\"\"\"

The signature is the schema, the docstring is what the model reads. A parameter whose public name is no
Python name says so: `after: Annotated[int | None, Param("Lines after a match", name="-A")] = None`.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast, get_args, get_origin, get_type_hints

import msgspec

from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.messages import Image, ToolCall, Trace
from gencode.core.rules import Effect
from gencode.core.spec import ToolChoice, Workspace, same_name
from gencode.permissions.paths import Resolved
from gencode.runtime.ports import Delegate, ToolSchema
from gencode.runtime.seen import Seen

if TYPE_CHECKING:
    from gencode.runtime.shells import Shells

CLIP = 30_000


class Param(msgspec.Struct, frozen=True):
    """What a model is told about a parameter, and its public name where that is no Python name."""

    description: str
    name: str = ""


class ToolOutput(msgspec.Struct, frozen=True):
    """What a tool gives back when a plain text does not say everything."""

    text: str
    trace: Trace = Trace()
    error: bool = False
    images: tuple[Image, ...] = ()


def no_shells() -> NoReturn:
    """Where commands cannot be run at all."""
    raise ToolError("Commands cannot be run here.")


def _keep_to_oneself(_: Path) -> None:
    """Where nobody decides about reading."""


class ToolContext(msgspec.Struct, frozen=True, eq=False):
    """What a running tool may use of its surroundings.

    `place` judges a path of this call at this moment (Denied if it may not) and gives what an opener takes;
    whoever swaps a file or folder after that only makes the opener fail. `seen` is what this agent knows of
    files: who reads one notes its state, who changes one asks for it. `hand_out` lets this agent read a file
    that the harness wrote for it.
    """

    task: str
    agent: str
    call: ToolCall
    workspace: Workspace
    may_read: Callable[[str], bool]
    progress: Callable[[str], None]
    place: Callable[[str], Resolved]
    delegate: Delegate | None = None
    network: bool = False
    """Whether a person let this one command reach the network."""
    seen: Seen = msgspec.field(default_factory=Seen)
    shells: "Callable[[], Shells]" = no_shells
    hand_out: Callable[[Path], None] = _keep_to_oneself


ToolFunction = Callable[..., Awaitable[str | ToolOutput]]
Preview = Callable[..., Awaitable[str]]
"""Takes the same as its tool, and shows a person what the call would change."""


class Tool(msgspec.Struct, frozen=True, eq=False):
    """A function with its schema. `effect` is enforced by plan mode and read-only agents.

    One `on_request` is only there for an agent whose file names it.
    """

    name: str
    description: str
    effect: Effect
    function: ToolFunction
    arguments: type[msgspec.Struct]
    schema: dict[str, Any]
    aliases: tuple[str, ...] = ()
    source: str = "builtin"
    timeout: float | None = 120.0
    preview: Preview | None = None
    on_request: bool = False

    def parse(self, call: ToolCall) -> msgspec.Struct:
        """Arguments that fit the signature, or a ToolError that says how to repair them."""
        if call.broken:
            raise ToolError(
                f"{self.name}: the arguments are not a JSON object: {call.broken[:200]!r}. {self.usage()}"
            )
        try:
            return msgspec.convert(call.input, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolError(f"{self.name}: {_plain(str(error))}. {self.usage()}") from None

    async def run(self, ctx: ToolContext, arguments: msgspec.Struct) -> ToolOutput:
        """Call the function with parsed arguments."""
        output = await self.function(ctx, **self._values(arguments))
        return ToolOutput(output) if isinstance(output, str) else output

    async def shown(self, ctx: ToolContext, arguments: msgspec.Struct) -> str:
        """What the call would change, for the person who is asked; empty when it cannot be told."""
        try:
            return await self.preview(ctx, **self._values(arguments)) if self.preview else ""
        except ToolError as error:
            return f"(it could not be shown beforehand: {error})"

    def _values(self, arguments: msgspec.Struct) -> dict[str, Any]:
        return {name: getattr(arguments, name) for name in self.arguments.__struct_fields__}

    def usage(self) -> str:
        """One line: every parameter with its type."""
        required: list[str] = self.schema.get("required", [])
        shown = [
            f"{name} ({_type_name(prop)}{', required' if name in required else ''})"
            for name, prop in self.schema["properties"].items()
        ]
        return f"{self.name} takes {', '.join(shown)}." if shown else f"{self.name} takes no arguments."

    def as_schema(self) -> ToolSchema:
        """What the model sees."""
        return ToolSchema(self.name, self.description, self.schema)


def tool(
    *,
    effect: Effect,
    name: str = "",
    aliases: Iterable[str] = (),
    description: str = "",
    timeout: float | None = 120.0,
    preview: Preview | None = None,
    on_request: bool = False,
) -> Callable[[ToolFunction], Tool]:
    """Make a tool of a typed async function `(ctx, …) -> str | ToolOutput`."""

    def make(function: ToolFunction) -> Tool:
        title = name or function.__name__
        said = description or inspect.cleandoc(function.__doc__ or "")
        if not said:
            raise UserMistake(f"The tool {title!r} needs a docstring: it is what the model reads.")
        if not inspect.iscoroutinefunction(function):
            raise UserMistake(f"The tool {title!r} must be an async function.")
        arguments, schema = _signature(title, function)
        source = "builtin" if function.__module__.startswith("gencode.") else "plugin"
        return Tool(
            name=title,
            description=said,
            effect=effect,
            function=function,
            arguments=arguments,
            schema=schema,
            aliases=tuple(aliases),
            source=source,
            timeout=timeout,
            preview=preview,
            on_request=on_request,
        )

    return make


class Toolbox(Mapping[str, Tool]):
    """An immutable set of tools by name; look-ups know aliases and do not care for case or separators."""

    __slots__ = ("_by_key", "_schemas", "_tools")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._schemas: tuple[ToolSchema, ...] | None = None
        self._by_key = {
            same_name(name): tool for tool in self._tools.values() for name in (*tool.aliases, tool.name)
        }

    def __getitem__(self, name: str) -> Tool:
        known = self._tools.get(name)
        return self._by_key[same_name(name)] if known is None else known

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._tools or same_name(name) in self._by_key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def find(self, name: str) -> Tool:
        """A tool by any of its names; UnknownName offers the nearest."""
        if name not in self:
            raise UnknownName("tool", name, self)
        return self[name]

    def only(self, names: Iterable[str]) -> "Toolbox":
        """Just these tools, in this order; names that are not here are left out."""
        return Toolbox(self[name] for name in names if name in self)

    def without(self, names: Iterable[str]) -> "Toolbox":
        """All but these tools."""
        gone = {self[name].name for name in names if name in self}
        return Toolbox(tool for tool in self._tools.values() if tool.name not in gone)

    def usual(self) -> "Toolbox":
        """All but those that have to be named."""
        return Toolbox(tool for tool in self._tools.values() if not tool.on_request)

    def read_only(self) -> "Toolbox":
        """Just the tools that look and change nothing."""
        return Toolbox(tool for tool in self._tools.values() if tool.effect == "read")

    def chosen(self, choice: ToolChoice) -> "Toolbox":
        """The tools an agent's file asks for."""
        box = self.usual() if choice.allow is None else self.only(choice.allow)
        return box.without(choice.deny)

    def missing(self, choice: ToolChoice) -> tuple[str, ...]:
        """The names an agent's file asks for that are not here."""
        return tuple(name for name in choice.allow or () if name not in self)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the model sees: the same objects on every turn, so that they are encoded once."""
        if self._schemas is None:
            self._schemas = tuple(tool.as_schema() for tool in self._tools.values())
        return self._schemas


def clip(text: str, most: int = CLIP) -> str:
    """The only road into a transcript: at most `most` characters, cut at a line, with a note."""
    if len(text) <= most:
        return text
    cut = text.rfind("\n", most // 2, most)
    cut = most if cut < 0 else cut
    return f"{text[:cut]}\n[… {len(text) - cut:,} of {len(text):,} characters were left out]"


def _signature(title: str, function: ToolFunction) -> tuple[type[msgspec.Struct], dict[str, Any]]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    renamed: dict[str, str] = {}
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if position == 0:
            continue
        if parameter.name not in hints:
            raise UserMistake(f"The tool {title!r} needs a type for its parameter {parameter.name!r}.")
        hint, public = _described(hints[parameter.name])
        if public:
            renamed[parameter.name] = public
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
    return arguments, _inline(defs[arguments.__name__], defs)


def _described(hint: Any) -> tuple[Any, str]:
    """A parameter's type with its description as schema metadata, and its public name if it has one."""
    if get_origin(hint) is not Annotated:
        return hint, ""
    base, *notes = get_args(hint)
    param = next((Param(n) if isinstance(n, str) else n for n in notes if isinstance(n, str | Param)), None)
    kept = [note for note in notes if isinstance(note, msgspec.Meta)]
    if param is not None:
        kept.append(msgspec.Meta(description=param.description))
    for note in kept:
        base = Annotated[base, note]
    return base, param.name if param else ""


def _inline(schema: Any, defs: Mapping[str, Any]) -> Any:
    """A schema without references and titles: smaller, and read by every provider."""
    match schema:
        case {"$ref": str(target)}:
            return _inline(defs[target.rsplit("/", 1)[1]], defs)
        case dict():
            entries = cast("dict[str, Any]", schema).items()
            return {key: _inline(value, defs) for key, value in entries if not _title(key, value)}
        case list():
            return [_inline(each, defs) for each in cast("list[Any]", schema)]
        case _:
            return schema


def _title(key: str, value: Any) -> bool:
    """Whether an entry only repeats a Python name; a parameter called `title` is not text but a schema."""
    return key == "title" and isinstance(value, str)


def _plain(message: str) -> str:
    """msgspec's words for a mismatch, without its path notation."""
    return message.replace(" - at `$.", " (in `").replace("`$`", "the arguments") + (
        ")" if " - at `$." in message else ""
    )


def _type_name(prop: Mapping[str, Any]) -> str:
    if "enum" in prop:
        return " | ".join(repr(each) for each in prop["enum"])
    if "anyOf" in prop:
        return " or ".join(_type_name(each) for each in prop["anyOf"] if each.get("type") != "null")
    return str(prop.get("type", "any"))
