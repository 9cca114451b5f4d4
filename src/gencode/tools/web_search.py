"""WebSearch: search the web with the first engine that is configured."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gencode.agent.toolbox import Param, Tool, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError

if TYPE_CHECKING:
    from gencode.tools.search_engines.engine import SearchEngine, WebQuery

_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")

Domains = Annotated[list[str], Meta(max_length=20)]


def web_search(engine: "SearchEngine | None" = None) -> Tool:
    """The tool WebSearch over an engine; without one, over the configured one."""

    @tool(effect="read", name="WebSearch", aliases=("web_search",))
    async def run(
        ctx: ToolContext,
        query: Annotated[str, Meta(min_length=1, max_length=400)],
        max_results: Annotated[int, Meta(ge=1, le=20), Param(also=("count",), hidden=True)] = 8,
        allowed_domains: Domains | None = None,
        blocked_domains: Domains | None = None,
    ) -> ToolOutput:
        """Search the web: titles, addresses and snippets."""
        from gencode.tools.search_engines.engine import WebQuery

        text = " ".join(query.split())
        if not text:
            raise ToolError("The query is empty; say what to look for.")
        wanted = WebQuery(text, max_results, _domains(allowed_domains), _domains(blocked_domains))
        return await _found(wanted, engine or choose_engine(os.environ))

    return run


def choose_engine(environ: Mapping[str, str]) -> "SearchEngine":
    """The first search engine that the environment configures; DuckDuckGo needs nothing."""
    from gencode.tools.search_engines import brave, searxng, tavily
    from gencode.tools.search_engines.duckduckgo import DuckDuckGo

    for engine in (tavily, brave, searxng):
        if found := engine.from_environment(environ):
            return found
    return DuckDuckGo()


async def _found(query: "WebQuery", engine: "SearchEngine") -> ToolOutput:
    every = {each.url: each for each in await engine.search(query)}
    wanted = [each for each in every.values() if query.wants(each.host)][: query.most]
    if not wanted:
        domains = " in these domains" if query.allowed or query.blocked else ""
        return ToolOutput(f"{engine.name} found nothing for {query.text!r}{domains}; try other words.")
    entries = (
        "\n   ".join(filter(None, (f"{number}. {each.title}", each.url, each.snippet)))
        for number, each in enumerate(wanted, 1)
    )
    return ToolOutput("\n".join(entries), foreign=True, note=f"Found by {engine.name}:")


def _domains(given: Sequence[str] | None) -> tuple[str, ...]:
    """Domains in one spelling; ToolError for what is none."""
    found: list[str] = []
    for text in given or ():
        domain = re.sub(r"\A[a-z]+://|\A\*\.|[/:].*\Z", "", text.strip().lower()).strip(".")
        if not _DOMAIN.fullmatch(domain):
            raise ToolError(f"{text!r} is not a domain; write it as `example.com`.")
        found.append(domain)
    return tuple(dict.fromkeys(found))


WEB_SEARCH = web_search()
