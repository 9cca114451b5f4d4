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
from gencode.core.structs import replace
from gencode.files.file_versions import SeenFiles
from gencode.permissions.paths import Resolved

if TYPE_CHECKING:
    from gencode.files.checkpoints import CallCheckpoints
    from gencode.sandbox.shells import Shells

MOST_AGENTS_OFFERED = 50
"""With more agents than this, the parameter that names one takes any text, and the prompt lists them."""
MCP = "mcp__"
"""The prefix of the names of MCP tools."""


class ToolOutput(msgspec.Struct, frozen=True):
    """The result of a tool, if plain text is not enough."""

    text: str
    trace: Trace = Trace()
    error: bool = False
    images: tuple[Image, ...] = ()
    paged: bool = False
    """Whether the tool has shortened it itself, and says where the rest is."""
    foreign: bool = False
    """Whether another program or site wrote the text."""
    note: str = ""
    """What GenCode says about the text, in plain sentences."""


def no_shells() -> NoReturn:
    """For contexts in which commands cannot run."""
    raise ToolError("Commands cannot be run here.")


def _keep_to_oneself(_: Path) -> None:
    """For contexts in which reading is not checked."""


def _nothing_closed() -> tuple[str, ...]:
    return ()


def _tell_nobody(_: str) -> None:
    """For contexts in which nobody watches."""


class ToolContext(msgspec.Struct, frozen=True, eq=False):
    """What a running tool may use.

    `place` checks a path of this call at this moment (Denied if it may not be used) and returns what an
    opener takes; if a file or folder is exchanged after that, the opener fails. `seen` are the file versions
    that this agent knows: a tool that reads a file records its version, one that changes it checks it.
    `allow_reading` lets this agent read a file that GenCode wrote for it; `closed` are the paths that no
    command should see. Inside of `parked` it waits for somebody else, and other agents may run instead.
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
    """Whether a person gave this one command access to the network."""
    grants_network: bool = False
    """Whether a person can give it to a command that asks for it."""
    command_seconds: float = 0.0
    """How long the agent, once it has answered, waits for its background commands."""
    neutral: bool = False
    """Whether this command was allowed only to run where nothing that a repository names is started."""
    seen: SeenFiles = msgspec.field(default_factory=SeenFiles)
    checkpoints: "CallCheckpoints | None" = None
    """Saves what this call changes; None if nothing is saved."""
    shells: "Callable[[], Shells]" = no_shells
    allow_reading: Callable[[Path], None] = _keep_to_oneself
    closed: Callable[[], tuple[str, ...]] = _nothing_closed
    parked: Callable[[], AbstractContextManager[None]] = nullcontext
    notify: Callable[[str], None] = _tell_nobody
    """Shows the person one line at once, whatever else is on the screen."""
    output: Callable[[str], None] = _tell_nobody
    """Shows the person the last lines that a running command has written."""

    def starter(self) -> Delegate:
        """The delegate; ToolError for an agent that cannot start others."""
        if self.delegate is None:
            raise ToolError(
                "This agent cannot start agents and has no tasks. Do the work here, or report back."
            )
        return self.delegate

    def keep_before(self, *changes: tuple[str, str]) -> None:
        """Save files, by real path, that are about to get content of this hash. It blocks: use a thread."""
        if self.checkpoints is not None:
            self.checkpoints.before(*changes)


ToolFunction = Callable[..., Awaitable[str | ToolOutput]]
Preview = Callable[..., Awaitable[str]]
"""Takes the same arguments as its tool, and shows a person what the call would change."""


class Tool(msgspec.Struct, frozen=True, eq=False):
    """A function with its schema. `effect` is enforced by plan mode and read-only agents.

    A tool `on_request` is only for agents whose file names it.
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
    """Names of parameters that models know from other products, mapped to ours."""
    hidden: dict[str, tuple[str, ...]] = {}
    """Parameters with the values that are accepted and not shown to models; without values, not at all."""
    local: bool = False
    """Whether it is a program on this machine, so that a path means one on this machine."""
    server: str = ""
    """The MCP server it belongs to, if there is one."""
    instead: str = ""
    """The tool that is offered instead if an agent has both; a call by this name still works."""
    names_agent: str = ""
    """The parameter that names the agent to start, if there is one."""

    def offering(self, agents: Sequence[str]) -> "Tool":
        """The same tool, with the agents that can be started as the values of its parameter."""
        if not self.names_agent or not agents or len(agents) > MOST_AGENTS_OFFERED:
            return self
        properties = self.schema["properties"]
        named = properties[self.names_agent]
        usual = [each for each in [named.get("default")] if each and each not in agents]
        offered = {**properties, self.names_agent: {**named, "enum": [*usual, *agents]}}
        return replace(self, schema={**self.schema, "properties": offered})

    def spelled(self, call: ToolCall) -> ToolCall:
        """A call with our names of parameters: the one that is decided and that runs."""
        given = call.input
        if not self.synonyms or not any(name in self.synonyms for name in given):
            return call
        named: dict[str, Any] = {}
        for name, value in given.items():
            ours = self.synonyms.get(name, name)
            named[name if ours in given or ours in named else ours] = value
        return replace(call, input=named)

    def doubt(self) -> str:
        """Why a person must be asked about a call that the rules allow; mostly empty."""
        return ""

    @property
    def approval(self) -> str:
        """What lifts such a doubt, for `gen permissions explain`."""
        return "the user's approval"

    def parse(self, call: ToolCall) -> msgspec.Struct:
        """A call's arguments, validated; if they do not fit, a ToolError says how to repair them."""
        if call.broken:
            raise ToolError(
                f"{self.name}: the arguments are not a JSON object: {call.broken[:200]!r}. {self.usage()}"
            )
        try:
            return msgspec.convert(self.spelled(call).input, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            inside = _INSIDE.search(str(error))
            usage = self.usage(_STEP.findall(inside[1]) if inside else ())
            raise ToolError(f"{self.name}: {_plain(str(error))}. {usage}") from None

    async def run(self, ctx: ToolContext, arguments: msgspec.Struct) -> ToolOutput:
        """Call the function with parsed arguments."""
        output = await self.function(ctx, **self._values(arguments))
        return ToolOutput(output) if isinstance(output, str) else output

    async def shown(self, ctx: ToolContext, arguments: msgspec.Struct) -> str:
        """What the call would change, for the person who is asked; ToolError if it cannot succeed."""
        return await self.preview(ctx, **self._values(arguments)) if self.preview else ""

    def _values(self, arguments: msgspec.Struct) -> dict[str, Any]:
        return {name: getattr(arguments, name) for name in self.arguments.__struct_fields__}

    def usage(self, inside: Sequence[str] = ()) -> str:
        """One line: every parameter with its type, or those of the innermost object on the path `inside`."""
        whole, whose, here = self.schema, self.name, self.schema
        for step in inside:
            here = here.get("properties", {}).get(step, {})
            each = "items" in here
            here = here.get("items", here)
            if "properties" in here:
                whole, whose = here, f"Each of {step}" if each else step
        required: list[str] = whole.get("required", [])
        shown = [
            f"{name} ({_type_name(prop)}{', required' if name in required else ''})"
            for name, prop in whole.get("properties", {}).items()
        ]
        return f"{whose} takes {', '.join(shown)}." if shown else f"{whose} takes no arguments."

    def as_schema(self) -> ToolSchema:
        """What the model sees."""
        if not self.hidden:
            return ToolSchema(self.name, self.description, self.schema)
        known = self.schema.get("properties", {}).items()
        shown = {
            name: {**each, "enum": [value for value in each["enum"] if value not in self.hidden[name]]}
            if name in self.hidden
            else each
            for name, each in known
            if self.hidden.get(name, True)
        }
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
    instead: str = "",
    names_agent: str = "",
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
            instead=instead,
            names_agent=names_agent,
        )

    return make


class LazyTool(msgspec.Struct, frozen=True, eq=False):
    """A tool that only agents get whose file names it, and that is loaded then."""

    name: str
    load: Callable[[], Tool]
    aliases: tuple[str, ...] = ()


More = Callable[[Container[str]], Iterable[Tool]]
"""Gives further tools if these names are not enough; they have to be named, too."""


class MissingTool(NamedTuple):
    """Why a tool of a server is missing; `unapproved`: because nobody has approved its server."""

    why: str
    unapproved: bool = False


class Toolbox(Mapping[str, Tool]):
    """An immutable set of tools by name; look-ups know aliases and ignore case and separators.

    `more` is called once, when a name is not here or all are listed. The model sees the schemas of `shown`,
    if that is given: a fork is shown all that its parent has, so that the cached prefix stays valid.
    """

    __slots__ = ("_by_key", "_more", "_schemas", "_shown", "_tools")

    def __init__(
        self,
        tools: Iterable[Tool | LazyTool] = (),
        more: More | None = None,
        shown: "Toolbox | None" = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._more = more
        self._shown = shown
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
        return isinstance(name, str) and (name in self._tools or self._named(name) is not None)

    def __iter__(self) -> Iterator[str]:
        self._take_more()
        return iter(self._tools)

    def __len__(self) -> int:
        self._take_more()
        return len(self._tools)

    def find(self, name: str) -> Tool:
        """A tool by any of its names; UnknownName suggests the nearest."""
        if name not in self:
            raise UnknownName("tool", name, self)
        return self[name]

    def only(self, names: Iterable[str]) -> "Toolbox":
        """Only these tools, in this order; unknown names are ignored."""
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
        """Only the tools that change nothing."""
        return Toolbox(tool for tool in self.values() if tool.effect == "read")

    def chosen(self, choice: ToolChoice) -> "Toolbox":
        """The tools an agent's file requests."""
        box = self.usual() if choice.allow is None else self.only(choice.allow)
        if "*" in choice.also:
            box = Toolbox(self.values())
        elif choice.also:
            box = Toolbox((*box.values(), *self.only(choice.also).values()))
        return box.without(choice.deny)

    def offering(self, agents: Sequence[str]) -> "Toolbox":
        """The same tools; those that start agents list these."""
        if not any(tool.names_agent for tool in self.values()):
            return self
        return Toolbox(tool.offering(agents) for tool in self.values())

    def hiding(self, name: str, parameter: str) -> "Toolbox":
        """The same tools; models are not offered this parameter of that one."""
        if name not in self:
            return self
        found = self[name]
        less = replace(found, hidden={**found.hidden, parameter: ()})
        return Toolbox(less if tool is found else tool for tool in self.values())

    def matching(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """The names that patterns such as `memory_*` match; UnknownName if one matches nothing.

        Tools of servers become available later, so patterns for them are kept as they are.
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
        """The names in an agent's file that are not available."""
        return tuple(name for name in choice.allow or () if name not in self)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """The schemas that the model sees: the same objects on every turn, so that they are encoded once."""
        if self._schemas is None and self._shown is not None:
            self._schemas = self._shown.schemas()
        if self._schemas is None:
            self._schemas = tuple(
                tool.as_schema() for tool in self.values() if not (tool.instead and tool.instead in self)
            )
        return self._schemas

    def grow(self) -> tuple[str, ...]:
        """Add the tools that became available; none do here."""
        return ()

    def called(self, call: ToolCall) -> ToolCall:
        """The call that a model means; here it is unchanged."""
        return call

    def why_absent(self, name: str) -> MissingTool | None:
        """Why a tool that an agent may have is missing at this moment; here none comes later."""
        return None

    def _named(self, name: str) -> str | None:
        """The name of a tool, from any spelling of it."""
        known = name if name in self._tools else self._by_key.get(same_name(name))
        if known is None and self._more is not None and not name.startswith(MCP):
            self._take_more()
            known = self._by_key.get(same_name(name))
        return known

    def _take_more(self) -> None:
        """Add further tools; none of them replaces one that is here already."""
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


_INSIDE = re.compile(r" - at `\$\.([^`]+)`")
_STEP = re.compile(r"[^.\[\]]+(?=[.\[]|\Z)")
"""A name on the path to a value, such as `todos` and `status` in `todos[0].status`; no list index."""


def _plain(message: str) -> str:
    """msgspec's message about a mismatch, without its path."""
    return message.replace(" - at `$.", " (in `").replace("`$`", "the arguments") + (
        ")" if " - at `$." in message else ""
    )


def _type_name(prop: Mapping[str, Any]) -> str:
    if "enum" in prop:
        return " | ".join(repr(each) for each in prop["enum"])
    if "anyOf" in prop:
        return " or ".join(_type_name(each) for each in prop["anyOf"] if each.get("type") != "null")
    return str(prop.get("type", "any"))
