"""search engines: which one is asked: the first that the environment has what it needs for."""

from collections.abc import Callable, Mapping

from gencode.tools.search_engines import brave, searxng, tavily
from gencode.tools.search_engines.duckduckgo import DuckDuckGo
from gencode.tools.search_engines.port import SearchEngine

FINDERS: tuple[Callable[[Mapping[str, str]], SearchEngine | None], ...] = (
    tavily.from_environment,
    brave.from_environment,
    searxng.from_environment,
)
"""In this order; DuckDuckGo, which needs nothing, is what remains."""


def choose_engine(environ: Mapping[str, str]) -> SearchEngine:
    """The engine that is asked."""
    return next((found for finder in FINDERS if (found := finder(environ))), None) or DuckDuckGo()
