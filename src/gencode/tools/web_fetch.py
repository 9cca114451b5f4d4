"""WebFetch: a page of the public web as text, in parts."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gencode.agent.toolbox import Param, Tool, ToolContext, ToolOutput, tool
from gencode.permissions.urls import judge_url

if TYPE_CHECKING:
    from gencode.tools.web_page import WebPage
    from gencode.web.http_fetch import WebResolver

KEPT_SECONDS = 15 * 60.0
KEPT_CHARACTERS = 20 * 1024 * 1024


class PageCache:
    """A cache of fetched pages, so that their further parts are not fetched again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pages: dict[str, tuple[float, WebPage]] = {}
        self._size = 0

    def find(self, url: str) -> "tuple[WebPage, float] | None":
        """A cached page and its age in seconds."""
        self._drop(lambda at: self._clock() - at > KEPT_SECONDS)
        if url not in self._pages:
            return None
        at, page = self._pages[url]
        return page, self._clock() - at

    def keep(self, url: str, page: "WebPage") -> None:
        """Keep a page; the oldest ones make room for it."""
        if url in self._pages:
            self._size -= len(self._pages.pop(url)[1].text)
        self._pages[url] = (self._clock(), page)
        self._size += len(page.text)
        self._drop(lambda _: self._size > KEPT_CHARACTERS)

    def _drop(self, too_much: Callable[[float], bool]) -> None:
        while self._pages:
            oldest = next(iter(self._pages))
            at, page = self._pages[oldest]
            if not too_much(at):
                return
            del self._pages[oldest]
            self._size -= len(page.text)


def web_fetch(internet: "WebResolver | None" = None, clock: Callable[[], float] = time.monotonic) -> Tool:
    """The tool WebFetch with a cache of its own; `internet` replaces the real one in tests."""
    copies = PageCache(clock)

    @tool(effect="read", name="WebFetch", aliases=("web_fetch",))
    async def run(
        ctx: ToolContext,
        url: str,
        prompt: Annotated[str, Param("What you want to know from it", hidden=True)] = "",
        page: Annotated[int, Meta(ge=1), "Which part of a long page"] = 1,
    ) -> ToolOutput:
        """Fetch a public web page as Markdown, or other text as it is.

        A redirect to another host is reported, not followed.
        """
        from gencode.tools.web_page import fetch_page, render_page
        from gencode.web.http_fetch import INTERNET

        target = judge_url(url)
        known = copies.find(target.url)
        if known is None:
            found, lasting = await fetch_page(target, internet or INTERNET)
            if lasting:
                copies.keep(target.url, found)
            known = found, 0.0
        return render_page(*known, page)

    return run


WEB_FETCH = web_fetch()
