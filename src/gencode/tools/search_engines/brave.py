"""Search engine: Brave's search API, with a key in BRAVE_API_KEY."""

from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct, field

from gencode.tools.search_engines.engine import (
    WebQuery,
    WebResult,
    check_status,
    decode_answer,
    request_engine,
    web_results,
)
from gencode.web.http_fetch import INTERNET, WebRequest, WebResolver

VARIABLE = "BRAVE_API_KEY"
URL = "https://api.search.brave.com/res/v1/web/search"
_MOST = 20


class _BraveResult(Struct):
    title: str | None = None
    url: str | None = None
    description: str | None = None


class _BraveWeb(Struct):
    results: list[_BraveResult] = []


class _BraveAnswer(Struct):
    web: _BraveWeb | None = field(default_factory=_BraveWeb)


class Brave:
    """Searches with Brave."""

    name = "Brave"

    def __init__(self, key: str, internet: WebResolver = INTERNET, url: str = URL) -> None:
        self._key = key
        self._internet = internet
        self._url = url

    async def search(self, query: WebQuery) -> list[WebResult]:
        """The results of Brave."""
        wanted = urlencode({"q": query.spelled, "count": min(query.most, _MOST), "text_decorations": "false"})
        headers = {"Accept": "application/json", "X-Subscription-Token": self._key}
        request = WebRequest(f"{self._url}?{wanted}", headers=headers)
        answer = await request_engine(self.name, request, self._internet)
        check_status(self.name, answer.status, f"look at the key in {VARIABLE}")
        web = decode_answer(self.name, answer.body, _BraveAnswer).web or _BraveWeb()
        return web_results((each.title, each.url, each.description) for each in web.results)


def from_environment(environ: Mapping[str, str]) -> Brave | None:
    """Brave, when there is a key for it."""
    key = environ.get(VARIABLE, "").strip()
    return Brave(key) if key else None
