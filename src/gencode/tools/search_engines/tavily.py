"""Search engine: Tavily's API, with a key in TAVILY_API_KEY."""

from collections.abc import Mapping

import msgspec

from gencode.tools.search_engines.engine import (
    WebQuery,
    WebResult,
    check_status,
    decode_answer,
    request_engine,
    web_results,
)
from gencode.web.http_fetch import INTERNET, WebRequest, WebResolver

VARIABLE = "TAVILY_API_KEY"
URL = "https://api.tavily.com/search"
_MOST = 20


class _TavilyResult(msgspec.Struct):
    title: str | None = None
    url: str | None = None
    content: str | None = None


class _TavilyAnswer(msgspec.Struct):
    results: list[_TavilyResult] = []


class Tavily:
    """Searches with Tavily."""

    name = "Tavily"

    def __init__(self, key: str, internet: WebResolver = INTERNET, url: str = URL) -> None:
        self._key = key
        self._internet = internet
        self._url = url

    async def search(self, query: WebQuery) -> list[WebResult]:
        """The results of Tavily, which filters domains itself."""
        wanted = {
            "query": query.text,
            "max_results": min(query.most, _MOST),
            "include_domains": query.allowed,
            "exclude_domains": query.blocked,
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = WebRequest(self._url, "POST", headers, msgspec.json.encode(wanted))
        answer = await request_engine(self.name, request, self._internet)
        check_status(self.name, answer.status, f"look at the key in {VARIABLE}")
        results = decode_answer(self.name, answer.body, _TavilyAnswer).results
        return web_results((each.title, each.url, each.content) for each in results)


def from_environment(environ: Mapping[str, str]) -> Tavily | None:
    """Tavily, when there is a key for it."""
    key = environ.get(VARIABLE, "").strip()
    return Tavily(key) if key else None
