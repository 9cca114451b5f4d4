"""The interface of a search engine: query, results, and requests to it.

An engine is one file: a class with a `name` and `search`, and `from_environment`, which makes one when the
environment holds what it needs. A key goes out in a header and never into a text.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.permissions.urls import Target, UrlRefused, judge_url
from gencode.web.html import tokens
from gencode.web.http_fetch import WebLimits, WebRequest, WebResolver, WebResponse, fetch

MOST_HITS = 60
_LONGEST_RAW = 4_000
_LONGEST_TITLE = 200
_LONGEST_SNIPPET = 500


class WebQuery(Struct, frozen=True):
    """A web search query. A domain includes its subdomains."""

    text: str
    most: int = 8
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @property
    def spelled(self) -> str:
        """The query with its domains in the words that most engines understand."""
        only = " OR ".join(f"site:{domain}" for domain in self.allowed)
        without = (f"-site:{domain}" for domain in self.blocked)
        return " ".join(filter(None, (self.text, f"({only})" if len(self.allowed) > 1 else only, *without)))

    def wants(self, host: str) -> bool:
        """Whether pages of a host are wanted, as far as domains were named."""
        inside = [any(_is_below(host, domain) for domain in each) for each in (self.allowed, self.blocked)]
        return (inside[0] or not self.allowed) and not inside[1]


class WebResult(Struct, frozen=True):
    """One result, in plain text; `web_result` makes it."""

    title: str
    url: str
    host: str
    snippet: str = ""


class SearchEngine(Protocol):
    """Interface of a search engine."""

    name: str

    async def search(self, query: WebQuery) -> list[WebResult]:
        """The best results first, more or fewer than were wanted; ToolError says why there are none."""
        ...


def web_results(found: Iterable[tuple[str | None, str | None, str | None]]) -> list[WebResult]:
    """The results among title, address and snippet of each, without those that could not be fetched."""
    several = (
        web_result(title or "", url or "", snippet or "") for title, url, snippet in islice(found, MOST_HITS)
    )
    return [each for each in several if each]


def web_result(title: str, url: str, snippet: str) -> WebResult | None:
    """A result without tags and line breaks, cut to a length; None when its address could not be fetched."""
    try:
        host = judge_url(url.strip()).host
    except UrlRefused:
        return None
    plain = _plain(title, _LONGEST_TITLE) or host
    return WebResult(plain, url.strip(), host, _plain(snippet, _LONGEST_SNIPPET))


def _plain(text: str, most: int) -> str:
    said = "".join(token for token in tokens(text[:_LONGEST_RAW]) if isinstance(token, str))
    words = " ".join(said.split())
    return words if len(words) <= most else f"{words[:most].rstrip()}…"


def _is_below(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


LIMITS = WebLimits(most_bytes=2 * 1024 * 1024, seconds=20.0)
GO_ON = "Go on without the web, or say what could not be looked up."

DecodedAnswer = TypeVar("DecodedAnswer")


async def request_engine(name: str, request: WebRequest, internet: WebResolver) -> WebResponse:
    """Send a request to an engine on the public web; redirects to another host are refused."""
    host = judge_url(request.url).host

    async def stay(to: Target) -> None:
        if to.host != host:
            raise ToolError(f"it redirects to {to.host}.")

    try:
        return await fetch(request, LIMITS, follow=stay, internet=internet)
    except UrlRefused as refused:
        # How the host is spelled is nothing the reader can change.
        raise ToolError(f"{name} cannot be reached: {refused.why}. {GO_ON}") from None
    except ToolError as error:
        raise ToolError(f"The search with {name} failed: {error} {GO_ON}") from None


def check_status(name: str, status: int, refused: str = "") -> None:
    """Raise ToolError for an error status. `refused` says what to do about a 401 or 403."""
    if status in (401, 403) and refused:
        raise ToolError(f"{name} refused the request (status {status}): {refused}. {GO_ON}")
    if status == 429:
        raise ToolError(f"{name} got too many requests (status 429); wait a minute before the next search.")
    if status != 200:
        raise ToolError(f"{name} answered with status {status} and no results. {GO_ON}")


def decode_answer(name: str, body: bytes, shape: type[DecodedAnswer]) -> DecodedAnswer:
    """Decode the JSON of a response into `shape`."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ToolError(f"{name} sent a response that cannot be read. {GO_ON}") from None
