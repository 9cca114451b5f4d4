"""Search engine: your own SearXNG at the address in SEARXNG_URL, which may be on this machine."""

from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.tools.search_engines.engine import (
    LIMITS,
    WebQuery,
    WebResult,
    check_status,
    decode_answer,
    web_results,
)
from gencode.web.user_endpoint import ask_endpoint

VARIABLE = "SEARXNG_URL"


class _SearxngResult(Struct):
    title: str | None = None
    url: str | None = None
    content: str | None = None


class _SearxngAnswer(Struct):
    results: list[_SearxngResult] = []


class Searxng:
    """Searches with the SearXNG that the user's environment names. Only the query is added to its address."""

    name = "SearXNG"

    def __init__(self, url: str) -> None:
        self._url = url

    async def search(self, query: WebQuery) -> list[WebResult]:
        """The results of SearXNG."""
        if not self._url.startswith(("http://", "https://")):
            raise ToolError(f"{VARIABLE} is not an http:// or https:// address; correct it.")
        wanted = urlencode({"q": query.spelled, "format": "json"})
        address = f"{self._url.rstrip('/').removesuffix('/search')}/search?{wanted}"
        answer = await ask_endpoint(f"{self.name} (the address in {VARIABLE})", address, LIMITS)
        check_status(self.name, answer.status, "its settings have to allow the format json")
        results = decode_answer(self.name, answer.body, _SearxngAnswer).results
        return web_results((each.title, each.url, each.content) for each in results)


def from_environment(environ: Mapping[str, str]) -> Searxng | None:
    """SearXNG, when its address is known."""
    url = environ.get(VARIABLE, "").strip()
    return Searxng(url) if url else None
