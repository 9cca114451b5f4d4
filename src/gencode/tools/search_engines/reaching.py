"""search engines: how they are reached, and what is said when they are not."""

from typing import TypeVar

import msgspec

from gencode.core.errors import ToolError
from gencode.permissions.urls import Target, UrlRefused, judge_url
from gencode.runtime.web import Fetched, Internet, WebLimits, WebRequest, fetch

LIMITS = WebLimits(most_bytes=2 * 1024 * 1024, seconds=20.0)
GO_ON = "Go on without the web, or say what could not be looked up."

DecodedAnswer = TypeVar("DecodedAnswer")


async def request_engine(name: str, request: WebRequest, internet: Internet) -> Fetched:
    """The answer of an engine on the public web; it is not followed to another host."""
    host = judge_url(request.url).host

    async def stay(to: Target) -> None:
        if to.host != host:
            raise ToolError(f"it sends us to {to.host}.")

    try:
        return await fetch(request, LIMITS, follow=stay, internet=internet)
    except UrlRefused as refused:
        # How the host is spelled, which comes after a semicolon, is nothing the reader can change.
        why = refused.why.partition(";")[0]
        raise ToolError(f"There is no network that leads to {name}: {why}. {GO_ON}") from None
    except ToolError as error:
        raise ToolError(f"The web cannot be searched with {name} now: {error} {GO_ON}") from None


def check_status(name: str, status: int, refused: str = "") -> None:
    """Refuse an answer that is none. `refused` says what to do about a 401 or 403."""
    if status in (401, 403) and refused:
        raise ToolError(f"{name} refuses to be asked (status {status}): {refused}. {GO_ON}")
    if status == 429:
        raise ToolError(f"{name} was asked too often (status 429); wait a minute before the next search.")
    if status != 200:
        raise ToolError(f"{name} answered with status {status} and no results. {GO_ON}")


def decode_answer(name: str, body: bytes, shape: type[DecodedAnswer]) -> DecodedAnswer:
    """The JSON of an answer in the shape that is needed of it."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ToolError(f"{name} answered with something that cannot be read. {GO_ON}") from None
