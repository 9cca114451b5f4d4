"""http_get, http_post and http_request: plain HTTP requests to public addresses.

They go the same guarded way as WebFetch (`gencode.web`): no private address, no credentials in a URL, few
redirects and none to another host, bounded bytes and seconds.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gencode.agent.toolbox import Param, Tool, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.text import CLIP, one_line
from gencode.permissions.urls import Target, judge_url

if TYPE_CHECKING:
    from gencode.web.http_fetch import WebResolver, WebResponse

MOST_BYTES = 5 * 1024 * 1024
SECONDS = 30.0
LARGEST_BODY = 1_000_000
MOST_HEADERS = 30
LONGEST_HEADER = 4_096
SHOWN_BODY = CLIP - 6_000
"""Characters of an answer that are shown; the rest of the room is for our own lines and its headers."""
_SHOWN_HEADERS = (
    "content-type",
    "location",
    "retry-after",
    "etag",
    "last-modified",
    "link",
    "allow",
    "www-authenticate",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
)
_OTHER_METHOD = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})

Url = Annotated[str, "An http:// or https:// address without credentials in it"]
Headers = Annotated[dict[str, str] | None, "Additional headers"]
Body = Annotated[Any, Param("Text is sent as it is, any other value as JSON", also=("data", "json"))]
Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]


def http_get(internet: "WebResolver | None" = None) -> Tool:
    """The tool http_get; `internet` replaces the real one in tests."""

    @tool(effect="read", name="http_get", on_request=True)
    async def run(ctx: ToolContext, url: Url, headers: Headers = None) -> ToolOutput:
        """GET a public address: status, main headers and body as they are. To read a page use WebFetch."""
        if other := [name for name in headers or () if name.lower() in _OTHER_METHOD]:
            raise ToolError(f"The header {other[0]!r} changes the method of the request; use http_request.")
        return await _asked("GET", url, headers, None, internet)

    return run


def http_post(internet: "WebResolver | None" = None) -> Tool:
    """The tool http_post."""

    @tool(effect="write", name="http_post", on_request=True)
    async def run(ctx: ToolContext, url: Url, body: Body = None, headers: Headers = None) -> ToolOutput:
        """POST to a public address: status, main headers and the body of the answer as it is."""
        return await _asked("POST", url, headers, body, internet)

    return run


def http_request(internet: "WebResolver | None" = None) -> Tool:
    """The tool http_request."""

    @tool(effect="write", name="http_request", on_request=True)
    async def run(
        ctx: ToolContext, url: Url, method: Method = "GET", body: Body = None, headers: Headers = None
    ) -> ToolOutput:
        """Send any request to a public address: status, main headers and the body of the answer as it is."""
        return await _asked(method, url, headers, body, internet)

    return run


async def _asked(
    method: str, url: str, headers: Mapping[str, str] | None, body: Any, internet: "WebResolver | None"
) -> ToolOutput:
    from gencode.web.http_fetch import INTERNET, WebLimits, WebRequest, fetch

    target = judge_url(url)
    _check(headers or {})
    packed, kind = _packed(body)
    usual = {"Accept": "*/*", **({"Content-Type": kind} if packed is not None else {})}
    given = {name.lower() for name in headers or {}}
    sent = {name: value for name, value in usual.items() if name.lower() not in given} | dict(headers or {})

    async def follow(to: Target) -> None:
        if to.host != target.host:
            raise ToolError(
                f"{target.url} redirects to another host and was not followed; "
                f"request {to.url} if you want that page."
            )

    request = WebRequest(target.url, method, sent, packed)
    limits = WebLimits(most_bytes=MOST_BYTES, seconds=SECONDS)
    return _told(method, await fetch(request, limits, follow=follow, internet=internet or INTERNET))


def _check(headers: Mapping[str, str]) -> None:
    if len(headers) > MOST_HEADERS:
        raise ToolError(f"A request may have at most {MOST_HEADERS} headers.")
    if long := next((name for name, value in headers.items() if len(name + value) > LONGEST_HEADER), ""):
        raise ToolError(f"The header {long[:80]!r} is longer than {LONGEST_HEADER:,} characters.")


def _packed(body: Any) -> tuple[bytes | None, str]:
    """A body as bytes, and its type where none is given."""
    if body is None:
        return None, ""
    try:
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, allow_nan=False)
        packed = text.encode()
    except (ValueError, RecursionError) as error:
        raise ToolError(f"The body cannot be sent: {error}.") from None
    if len(packed) > LARGEST_BODY:
        raise ToolError(f"The body is longer than {LARGEST_BODY:,} bytes; send less.")
    return packed, "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"


def _told(method: str, fetched: "WebResponse") -> ToolOutput:
    from gencode.tools.files import size_text
    from gencode.web.response_text import decoded, shape_of

    notes = [f"{method} {fetched.url}: status {fetched.status}, {size_text(len(fetched.body))}"]
    known = ((name, fetched.headers.get(name, "")) for name in _SHOWN_HEADERS)
    lines = [f"{name}: {one_line(value, 300)}" for name, value in known if value]
    content_type = fetched.headers.get("content-type", "")
    shape = shape_of(fetched.body, content_type)
    if fetched.body and shape == "other":
        notes.append("the body is not text and is not shown")
    elif fetched.body:
        text = decoded(fetched.body, content_type, shape)
        lines += ["", text[:SHOWN_BODY]]
        if len(text) > SHOWN_BODY:
            notes.append(f"only the first {SHOWN_BODY:,} of {len(text):,} characters of the body are shown")
    if fetched.cut:
        notes.append("the body was cut, because it is too long or took too much time")
    text = "\n".join(lines).strip("\n")
    return ToolOutput(text, error=fetched.status >= 400, foreign=True, note="; ".join(notes))
