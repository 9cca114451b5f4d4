"""search engines: what one is, what it is asked and what it finds.

An engine is one file: a class with a `name` and `search`, and a function `from_environment` that makes one when the
environment holds what it needs. A key goes out in a header and never into a text.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from msgspec import Struct

from gencode.permissions.urls import UrlRefused, judge_url
from gencode.tools.html_tokens import tokens

MOST_HITS = 60
_LONGEST_RAW = 4_000
_LONGEST_TITLE = 200
_LONGEST_SNIPPET = 500


class WebQuery(Struct, frozen=True):
    """What is looked for. A domain also stands for everything below it."""

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
    """Finds pages."""

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
