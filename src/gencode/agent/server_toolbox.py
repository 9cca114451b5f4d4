"""The toolbox of an agent with tools of MCP servers; large ones are deferred.

The tools in a request are fixed at the first request of a run, so that the cached prefix of the conversation
stays valid. Server tools that are available by then and take up to `MOST_TOKENS` are sent like any other.
Otherwise, and for those that come later, the model finds whole schemas with ToolSearch and calls them through
ToolUse. A call through ToolUse is converted to a call of the tool itself before anything is decided: rules,
questions and the journal name that tool.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, cast

import msgspec

from gencode.agent.ports import ToolSchema
from gencode.agent.prompt import listing
from gencode.agent.toolbox import MissingTool, Tool, Toolbox, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall
from gencode.core.structs import replace

MOST_TOKENS = 2_000
"""The most tokens of the schemas of server tools before they are deferred."""
BYTES_OF_TOKEN = 4
MOST_FOUND = 5
LONGEST_FOUND = 20_000
LONGEST_LISTING = 6_000
LONGEST_SENTENCE = 100
USE = "ToolUse"
SEARCH = "ToolSearch"
_SENTENCE = re.compile(r"(?<=[.!?])\s")
_WORD = re.compile(r"[a-z0-9]+")


class ServerToolbox(Toolbox):
    """The tools of one agent, to which tools of servers are added that become available while it runs.

    None is removed or replaced: what the agent was sent stays valid.
    """

    __slots__ = ("_absent", "_come", "_told")

    def __init__(
        self,
        tools: Iterable[Tool],
        come: Callable[[], Iterable[Tool]],
        absent: Callable[[str], MissingTool | None],
        shown: Toolbox | None = None,
    ) -> None:
        super().__init__((*tools, *come()), shown=shown)
        self._come = come
        self._absent = absent
        self._told: frozenset[str] | None = None
        """The tools whose schemas the model was sent; None before the first request."""

    def grow(self) -> tuple[str, ...]:
        """Add the tools that became available; the names of new tools that the model has to be told."""
        fresh = {tool.name: tool for tool in self._come() if tool.name not in self}
        if not fresh:
            return ()
        self._tools |= fresh
        self._index(fresh.values())
        if self._schemas is None:
            return ()
        self._schemas = self._with_search(self._schemas)
        return tuple(fresh)

    def why_absent(self, name: str) -> MissingTool | None:
        """Why a tool of a server is missing: it has just become available, or its server is not ready."""
        if any(tool.name == name for tool in self._come()):
            return MissingTool(f"{name} became available while you wrote this; call it again.")
        return self._absent(name)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """The schemas that the model sees: fixed at the first request."""
        if self._schemas is None:
            servers = [each for each in self.values() if each.server]
            schemas = [each.as_schema() for each in servers]
            defers = sum(map(_size, schemas)) > MOST_TOKENS * BYTES_OF_TOKEN
            deferred = {each.name for each in servers} if defers else set[str]()
            own = self if self._shown is None else Toolbox((*self._shown.values(), *servers))
            found = Toolbox(tool for tool in own.values() if tool.name not in deferred).schemas()
            self._told = frozenset(each.name for each in found)
            self._schemas = self._with_search(found) if deferred else found
        return self._schemas

    def called(self, call: ToolCall) -> ToolCall:
        """A call through ToolUse as the call of the tool it names."""
        if call.name != USE or call.broken:
            return call
        name, given = call.input.get("name"), call.input.get("arguments", {})
        if isinstance(given, str):
            try:
                given = msgspec.json.decode(given)
            except msgspec.DecodeError:
                return call
        if not isinstance(name, str) or name not in self or not isinstance(given, dict):
            return call
        return replace(call, name=self[name].name, input=cast("dict[str, Any]", given))

    def _with_search(self, schemas: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
        """These schemas, and the tools that find and call others."""
        if SEARCH in self._tools:
            return tuple(schemas)
        told = self._told or frozenset()
        deferred = [each for each in self._tools.values() if isinstance(each, Tool) and each.name not in told]
        lines = listing([(each.name, _first_sentence(each)) for each in deferred], LONGEST_LISTING)
        fresh = [_search_tool(self, lines), _USE]
        self._tools |= {each.name: each for each in fresh}
        self._index(fresh)
        return (*schemas, *(each.as_schema() for each in fresh))


def _size(schema: ToolSchema) -> int:
    return len(schema.name) + len(schema.description.encode()) + len(msgspec.json.encode(schema.parameters))


def _first_sentence(found: Tool) -> str:
    """What a tool is for, without the name of its server, which is in its own name."""
    said = found.description.partition("] ")[2] if found.description.startswith("[") else found.description
    line = _SENTENCE.split(said.split("\n", 1)[0], maxsplit=1)[0]
    return line if len(line) <= LONGEST_SENTENCE else f"{line[:LONGEST_SENTENCE].rstrip()}…"


def _search_tool(box: ServerToolbox, lines: str) -> Tool:
    @tool(
        effect="read",
        name=SEARCH,
        description=(
            f"Find tools of MCP servers and get their schemas. Call one with {USE}. Available now:\n{lines}"
        ),
    )
    async def search(
        ctx: ToolContext, query: Annotated[str, "Names of tools, or words for what you need"]
    ) -> str:
        del ctx
        found = _matching(query, [each for each in box.values() if each.server])
        if not found:
            raise ToolError(
                f"No MCP tool matches {query[:200]!r}. Search with a name from the list, or other words."
            )
        texts: list[str] = []
        room = LONGEST_FOUND
        for each in found[:MOST_FOUND]:
            text = f"{each.name}: {each.description}\nArguments: {msgspec.json.encode(each.schema).decode()}"
            room -= len(text)
            if room < 0 and texts:
                texts.append("[More tools match; search for them one by one.]")
                break
            texts.append(text)
        return "\n\n".join(texts)

    return search


@tool(
    effect="read",
    name=USE,
    description=f"Call a tool of an MCP server that {SEARCH} found, with the arguments its schema asks for.",
)
async def _USE(
    ctx: ToolContext, name: Annotated[str, "The name of the tool"], arguments: dict[str, Any]
) -> str:
    del ctx, arguments
    raise ToolError(f"There is no MCP tool {name[:200]!r} with such arguments. Find it with {SEARCH} first.")


def _matching(query: str, known: Sequence[Tool]) -> list[Tool]:
    """The tools that a query names, or those that contain most of its words, the best first."""
    asked = set(re.split(r"[\s,;]+", query.strip()))
    if named := [each for each in known if asked & {each.name, each.name.rpartition("__")[2]}]:
        return named
    words = set(_WORD.findall(query.casefold()))
    scores = {each.name: _score(each, words) for each in known}
    found = [each for each in known if scores[each.name]]
    return sorted(found, key=lambda each: -scores[each.name])


def _score(found: Tool, words: set[str]) -> int:
    name, said = found.name.casefold(), found.description.casefold()
    whole, told = words & set(_WORD.findall(name)), words & set(_WORD.findall(said))
    return 4 * len(whole) + 2 * len(told) + sum(word in name or word in said for word in words)
