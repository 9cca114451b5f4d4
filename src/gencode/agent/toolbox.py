"""Tools as typed functions, and immutable toolboxes.

    @tool(effect="read")
    async def count_lines(ctx: ToolContext, path: Annotated[str, "A text file"]) -> str:
        \"\"\"Count the lines of a text file.\"\"\"

The signature is the schema, the docstring is what the model reads. A parameter whose public name is no
Python name says so: `after: Annotated[int | None, Param("Lines after a match", name="-A")] = None`.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec

from gencode.agent.ports import Delegate, ToolSchema
from gencode.agent.tool_signature import Param as Param
from gencode.agent.tool_signature import signature_of
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.messages import Image, ToolCall, Trace
from gencode.core.rules import Effect
from gencode.core.spec import ToolChoice, Workspace, same_name
from gencode.files.file_versions import SeenFiles
from gencode.permissions.paths import Resolved

if TYPE_CHECKING:
    from gencode.sandbox.shells import Shells

MCP = "mcp__"
"""What the names of tools of MCP servers begin with."""


class ToolOutput(msgspec.Struct, frozen=True):
    """What a tool gives back when a plain text does not say everything."""

    text: str
    trace: Trace = Trace()
    error: bool = False
    images: tuple[Image, ...] = ()
    paged: bool = False
    """Whether the tool has cut it itself, and says where the rest is."""


def no_shells() -> NoReturn:
    """Where commands cannot be run at all."""
    raise ToolError("Commands cannot be run here.")


def _keep_to_oneself(_: Path) -> None:
    """Where nobody decides about reading."""


def _nothing_closed() -> tuple[str, ...]:
    return ()


def _tell_nobody(_: str) -> None:
    """Where nobody watches."""


class ToolContext(msgspec.Struct, frozen=True, eq=False):
    """What a running tool may use of its surroundings.

    `place` judges a path of this call at this moment (Denied if it may not) and gives what an opener takes;
    whoever swaps a file or folder after that only makes the opener fail. `seen` is what this agent knows of
    files: who reads one notes its state, who changes one asks for it. `allow_reading` lets this agent
    read a file that GenCode wrote for it; `closed` is what no command should see. Inside of `parked` it waits
    for somebody else, and others may work instead.
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
    neutral: bool = False
    """Whether this command was only let through to run where nothing that a repository names is started."""
    seen: SeenFiles = msgspec.field(default_factory=SeenFiles)
    shells: "Callable[[], Shells]" = no_shells
    allow_reading: Callable[[Path], None] = _keep_to_oneself
    closed: Callable[[], tuple[str, ...]] = _nothing_closed
    parked: Callable[[], AbstractContextManager[None]] = nullcontext
    notify: Callable[[str], None] = _tell_nobody
    """Shows the person one line at once, whatever else is on the screen."""


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
    synonyms: dict[str, str] = {}
    """Names of parameters that models know from other products, and what they are called here."""
    hidden: frozenset[str] = frozenset()
    """Parameters that are taken, and that models are not told of."""
    local: bool = False
    """Whether it is a program on this machine, to which a path is one of this machine."""
    server: str = ""
    """The MCP server it belongs to, if one."""

    def spelled(self, call: ToolCall) -> ToolCall:
        """A call in our own names of parameters: what is judged and what runs are both this one."""
        given = call.input
        if not self.synonyms or not any(name in self.synonyms for name in given):
            return call
        named: dict[str, Any] = {}
        for name, value in given.items():
            ours = self.synonyms.get(name, name)
            named[name if ours in given or ours in named else ours] = value
        return msgspec.structs.replace(call, input=named)

    def doubt(self) -> str:
        """Why a person must be asked about a call although it would be allowed; mostly nothing."""
        return ""

    @property
    def approval(self) -> str:
        """What lifts such a doubt, for `gen permissions explain`."""
        return "a person's yes"

    def parse(self, call: ToolCall) -> msgspec.Struct:
        """A call's arguments, validated: they fit the signature, or a ToolError says how to repair them."""
        if call.broken:
            raise ToolError(
                f"{self.name}: the arguments are not a JSON object: {call.broken[:200]!r}. {self.usage()}"
            )
        try:
            return msgspec.convert(self.spelled(call).input, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            inside = _INSIDE.search(str(error))
            usage = self.usage(inside[1] if inside else "")
            raise ToolError(f"{self.name}: {_plain(str(error))}. {usage}") from None

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

    def usage(self, inside: str = "") -> str:
        """One line: every parameter with its type, or every field of one that is an object of its own."""
        whole = self.schema["properties"].get(inside, {})
        whole, whose = (whole, inside) if "properties" in whole else (self.schema, self.name)
        required: list[str] = whole.get("required", [])
        shown = [
            f"{name} ({_type_name(prop)}{', required' if name in required else ''})"
            for name, prop in whole["properties"].items()
        ]
        return f"{whose} takes {', '.join(shown)}." if shown else f"{whose} takes no arguments."

    def as_schema(self) -> ToolSchema:
        """What the model sees."""
        if not self.hidden:
            return ToolSchema(self.name, self.description, self.schema)
        known = self.schema["properties"].items()
        shown = {name: each for name, each in known if name not in self.hidden}
        return ToolSchema(self.name, self.description, {**self.schema, "properties": shown})


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
        arguments, schema, synonyms, hidden = signature_of(title, function)
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
            synonyms=synonyms,
            hidden=hidden,
        )

    return make


class LazyTool(msgspec.Struct, frozen=True, eq=False):
    """A tool that is only there for an agent whose file names it, and is not loaded before one does."""

    name: str
    load: Callable[[], Tool]
    aliases: tuple[str, ...] = ()


More = Callable[[Container[str]], Iterable[Tool]]
"""Gives further tools, which have to be named too, for whom these names are not enough."""


class MissingTool(NamedTuple):
    """Why a tool of a server is not there; `unapproved`: because nobody has approved its server."""

    why: str
    unapproved: bool = False


class Toolbox(Mapping[str, Tool]):
    """An immutable set of tools by name; look-ups know aliases and do not care for case or separators.

    `more` is asked once, when a name is not here or all are listed.
    """

    __slots__ = ("_by_key", "_more", "_schemas", "_tools")

    def __init__(self, tools: Iterable[Tool | LazyTool] = (), more: More | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._more = more
        self._schemas: tuple[ToolSchema, ...] | None = None
        self._by_key: dict[str, str] = {}
        self._index(self._tools.values())

    def __getitem__(self, name: str) -> Tool:
        found = self._tools.get(name)
        if found is None:
            known = self._named(name)
            if known is None:
                raise KeyError(name)
            found = self._tools[known]
        if isinstance(found, LazyTool):
            found = self._tools[found.name] = found.load()
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._named(name) is not None

    def __iter__(self) -> Iterator[str]:
        self._take_more()
        return iter(self._tools)

    def __len__(self) -> int:
        self._take_more()
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
        gone = {self._named(name) for name in names}
        return Toolbox(tool for tool in self._tools.values() if tool.name not in gone)

    def usual(self) -> "Toolbox":
        """All but those that have to be named."""
        loaded = (tool for tool in self._tools.values() if isinstance(tool, Tool))
        return Toolbox(tool for tool in loaded if not tool.on_request)

    def read_only(self) -> "Toolbox":
        """Just the tools that look and change nothing."""
        return Toolbox(tool for tool in self.values() if tool.effect == "read")

    def chosen(self, choice: ToolChoice) -> "Toolbox":
        """The tools an agent's file asks for."""
        box = self.usual() if choice.allow is None else self.only(choice.allow)
        if choice.also:
            box = Toolbox((*box.values(), *self.only(choice.also).values()))
        return box.without(choice.deny)

    def matching(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """The names that patterns such as `memory_*` mean here; UnknownName when one means nothing.

        Tools of servers come later, so what is said of them is left as it is.
        """
        found: list[str] = []
        for pattern in patterns:
            key = same_name(pattern)
            names = [name for name in self if fnmatchcase(same_name(name), key)] if "*" in key else [pattern]
            if not pattern.startswith(MCP) and not any(name in self for name in names):
                raise UnknownName("tool", pattern, self)
            found += names
        return tuple(dict.fromkeys(found))

    def missing(self, choice: ToolChoice) -> tuple[str, ...]:
        """The names an agent's file asks for that are not here."""
        return tuple(name for name in choice.allow or () if name not in self)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the model sees: the same objects on every turn, so that they are encoded once."""
        if self._schemas is None:
            self._schemas = tuple(tool.as_schema() for tool in self.values())
        return self._schemas

    def grow(self) -> None:
        """Take in what has come since it was made: here nothing does."""

    def why_absent(self, name: str) -> MissingTool | None:
        """Why a tool that an agent may have is not here at this moment; here nothing comes later."""
        return None

    def _named(self, name: str) -> str | None:
        """The own name of a tool that is called so here."""
        known = name if name in self._tools else self._by_key.get(same_name(name))
        if known is None and self._more is not None and not name.startswith(MCP):
            self._take_more()
            known = self._by_key.get(same_name(name))
        return known

    def _take_more(self) -> None:
        """Take in further tools; none of them takes a name that is here already."""
        more, self._more = self._more, None
        if more is None:
            return
        found = [tool for tool in more(self) if not any(each in self for each in (tool.name, *tool.aliases))]
        fresh = {tool.name: tool for tool in found}
        self._tools |= fresh
        self._index(fresh.values())

    def _index(self, tools: Iterable[Tool | LazyTool]) -> None:
        for tool in tools:
            self._by_key |= {same_name(name): tool.name for name in (*tool.aliases, tool.name)}


class GrowingToolbox(Toolbox):
    """The tools of one agent, to which those of servers are added that come while it is at work.

    None is taken away or replaced: what an agent was told of stays as it was told.
    """

    __slots__ = ("_absent", "_come")

    def __init__(
        self,
        tools: Iterable[Tool],
        come: Callable[[], Iterable[Tool]],
        absent: Callable[[str], MissingTool | None],
    ) -> None:
        super().__init__((*tools, *come()))
        self._come = come
        self._absent = absent

    def grow(self) -> None:
        """Take in what has come since."""
        if fresh := {tool.name: tool for tool in self._come() if tool.name not in self}:
            self._tools |= fresh
            self._index(fresh.values())
            self._schemas = None

    def why_absent(self, name: str) -> MissingTool | None:
        """Why a tool of a server is not here: it came just now, or its server is not ready."""
        if any(tool.name == name for tool in self._come()):
            return MissingTool(f"{name} came while you wrote this; call it again.")
        return self._absent(name)


_INSIDE = re.compile(r" - at `\$\.(\w+)")


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
