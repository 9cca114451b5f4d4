"""Search engine: DuckDuckGo's page without scripts. It needs no key, and its page may change any day."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from gencode.core.errors import ToolError
from gencode.tools.search_engines.engine import (
    GO_ON,
    MOST_HITS,
    WebQuery,
    WebResult,
    check_status,
    request_engine,
    web_result,
)
from gencode.web.html import EndTag, StartTag, tokens
from gencode.web.http_fetch import INTERNET, WebRequest, WebResolver

URL = "https://html.duckduckgo.com/html/"
OTHERS = "set TAVILY_API_KEY, BRAVE_API_KEY or SEARXNG_URL to search with another engine"
_TITLES = frozenset({"result__a", "result-link"})
_SNIPPETS = frozenset({"result__snippet", "result-snippet"})
_OWN_HOST = "duckduckgo.com"
_MOST_FIELDS = 20
_LONGEST = 2_000


class DuckDuckGo:
    """Searches with DuckDuckGo."""

    name = "DuckDuckGo"

    def __init__(self, internet: WebResolver = INTERNET, url: str = URL) -> None:
        self._internet = internet
        self._url = url

    async def search(self, query: WebQuery) -> list[WebResult]:
        """The results of DuckDuckGo, without advertisements."""
        headers = {"Accept": "text/html", "User-Agent": "Mozilla/5.0 (compatible; gencode)"}
        request = WebRequest(f"{self._url}?{urlencode({'q': query.spelled})}", headers=headers)
        answer = await request_engine(self.name, request, self._internet)
        page = answer.body.decode("utf-8", "replace")
        found = await asyncio.to_thread(lambda: list(islice(results_of(page), MOST_HITS)))
        if found:
            return found
        if answer.status in (202, 403) or "anomaly" in page:
            raise ToolError(f"{self.name} asks for a CAPTCHA before it searches again; wait, or {OTHERS}.")
        check_status(self.name, answer.status)
        if "no-results" not in page and "No results" not in page:
            raise ToolError(f"The page of {self.name} could not be read; {OTHERS}. {GO_ON}")
        return []


def results_of(page: str) -> Iterator[WebResult]:
    """The results in a page: links of a known class, each with the snippet that follows it."""
    title = url = snippet = ""
    inside, field = "", ""
    for token in tokens(page):
        if isinstance(token, str):
            if field == "title" and len(title) < _LONGEST:
                title += token
            elif field == "snippet" and len(snippet) < _LONGEST:
                snippet += token
        elif isinstance(token, EndTag):
            if token.name == inside:
                inside = field = ""
        elif classes := set(token.get("class").split()):
            if classes & _TITLES:
                yield from _hit(title, url, snippet)
                title, snippet, url = "", "", _target(token)
                inside, field = token.name, "title"
            elif classes & _SNIPPETS:
                inside, field = token.name, "snippet"
    yield from _hit(title, url, snippet)


def _hit(title: str, url: str, snippet: str) -> Iterator[WebResult]:
    # The texts were taken out of tags already, and `<` in them is just a character.
    found = web_result(_escaped(title), url, _escaped(snippet)) if url else None
    if found and found.host != _OWN_HOST and not found.host.endswith(f".{_OWN_HOST}"):
        yield found


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _target(link: StartTag) -> str:
    """Where a result leads: links go through DuckDuckGo, with the address as a parameter."""
    try:
        url = urljoin(URL, link.get("href").strip())
        parts = urlsplit(url)
        if parts.path.startswith("/l/") and (parts.hostname or "").endswith(_OWN_HOST):
            return parse_qs(parts.query, max_num_fields=_MOST_FIELDS).get("uddg", [""])[0]
    except ValueError:
        return ""
    return url
