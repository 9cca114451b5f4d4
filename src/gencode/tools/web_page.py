"""Fetches a web page, converts it to text and splits it into parts. Loaded with the first fetch."""

import asyncio
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError
from gencode.core.text import CLIP, counted
from gencode.permissions.urls import Target
from gencode.tools.files import size_text
from gencode.web.html_to_markdown import Markdown, to_markdown
from gencode.web.http_fetch import WebLimits, WebRequest, WebResolver, WebResponse, fetch
from gencode.web.response_text import decoded, media_type, shape_of

LIMITS = WebLimits(most_bytes=5 * 1024 * 1024, seconds=30.0)
READING_SECONDS = 1.2
"""Of processor time; pages that are made to be slow are read up to there."""
PART = CLIP - 4_000
"""Characters of a page that come at once; the rest of the room is for our own lines."""
_ACCEPT = "text/html, text/markdown, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5"


class WebPage(Struct, frozen=True):
    """A fetched page as text."""

    url: str
    status: int
    about: str
    text: str
    notes: tuple[str, ...] = ()


async def fetch_page(target: Target, internet: WebResolver) -> tuple[WebPage, bool]:
    """Fetch a page; also whether it may be cached."""

    async def follow(to: Target) -> None:
        if to.host != target.host:
            raise ToolError(
                f"{target.url} redirects to another host and was not followed; "
                f"call WebFetch with {to.url} if you want that page."
            )

    request = WebRequest(target.url, headers={"Accept": _ACCEPT})
    fetched = await fetch(request, LIMITS, follow=follow, internet=internet)
    stop = threading.Event()
    try:
        page, whole = await asyncio.to_thread(_read, fetched, stop.is_set)
    finally:
        stop.set()
    no_store = "no-store" in fetched.headers.get("cache-control", "").lower()
    return page, whole and 200 <= fetched.status < 300 and fetched.cut != "seconds" and not no_store


def markdown_of(text: str, url: str, stopped: Callable[[], bool]) -> Markdown:
    """A page of HTML as Markdown, as far as it could be read in `READING_SECONDS`."""
    ends = time.thread_time() + READING_SECONDS
    return to_markdown(text, url, lambda: stopped() or time.thread_time() > ends)


def _read(fetched: WebResponse, stopped: Callable[[], bool]) -> tuple[WebPage, bool]:
    """The page of an answer, and whether all that arrived was read."""
    content_type = fetched.headers.get("content-type", "")
    kind = media_type(content_type) or "no stated type"
    size = size_text(len(fetched.body))
    about = f"{kind}, {f'over {size}' if fetched.cut else size}"
    shape = shape_of(fetched.body, content_type)
    if shape == "other":
        note = "it is not text and is not shown" if fetched.body else "it is empty"
        return WebPage(fetched.url, fetched.status, about, "", (note,)), True
    text, notes, whole = decoded(fetched.body, content_type, shape), _cut_notes(fetched), True
    if shape == "html":
        found = markdown_of(text, fetched.url, stopped)
        text = f"# {found.title}\n\n{found.text}" if found.title and found.text else found.text or found.title
        whole = found.whole
        if not whole:
            notes = (*notes, "the page is too large to be read to its end")
    if not text.strip():
        notes = (
            *notes,
            "it has no text; content that needs JavaScript is missing" if shape == "html" else "it is empty",
        )
    return WebPage(fetched.url, fetched.status, about, text.strip("\n"), notes), whole


def _cut_notes(fetched: WebResponse) -> tuple[str, ...]:
    match fetched.cut:
        case "bytes":
            return (f"the page is longer than {size_text(LIMITS.most_bytes)}; this is its beginning",)
        case "seconds":
            return (f"the page had not arrived after {LIMITS.seconds:.0f} s; this is what had arrived",)
        case _:
            return ()


def render_page(page: WebPage, age: float, number: int) -> ToolOutput:
    """The tool output for one part of a page."""
    parts = _parts(page.text)
    if number > len(parts):
        raise ToolError(f"{page.url} has only {counted(len(parts), 'part')}; page={number} is past the end.")
    failed = page.status >= 400
    status = f", status {page.status}" if page.status != 200 else ""
    notes = [f"{page.url} ({page.about}{status})", *page.notes]
    if age >= 60:
        notes.append(f"this is a copy from {age / 60:.0f} min ago")
    if number < len(parts):
        notes.append(f"part {number} of {len(parts)}; continue with page={number + 1}")
    elif len(parts) > 1:
        notes.append(f"part {number} of {len(parts)}, the last one")
    return ToolOutput(parts[number - 1], error=failed, foreign=True, note="; ".join(notes))


def _parts(text: str) -> list[str]:
    """A text in parts that end at a paragraph or a line where there is one."""
    parts: list[str] = []
    at = 0
    while len(text) - at > PART:
        cut = text.rfind("\n\n", at + PART // 2, at + PART)
        if cut < 0:
            cut = text.rfind("\n", at + PART // 2, at + PART)
        cut = at + PART if cut < 0 else cut
        parts.append(text[at:cut])
        at = cut
        while text[at] == "\n":
            at += 1
    return [*parts, text[at:]]
