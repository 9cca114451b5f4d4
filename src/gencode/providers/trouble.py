"""What goes wrong between us and a model, as sentences that name provider and model and never a key."""

import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gencode.core.errors import ProviderError

SHOWN = 300
"""How many characters of a server's own words are repeated."""

SHORTEST_SECRET = 6
"""What stands in place of a key where none is needed is no secret, and may be part of any word."""

ASKED_TOO_MUCH = (429, 503, 529)
TOO_MUCH = ("rate_limit_error", "rate_limit_exceeded", "overloaded_error")
WAITING_HELPS = frozenset(
    {
        *("overloaded_error", "api_error", "rate_limit_error", "timeout_error"),
        *("rate_limit_exceeded", "server_error", "internal_server_error", "internal_error"),
        *("overloaded", "engine_overloaded", "service_unavailable", "slow_down", "timeout"),
    }
)
WAITING_NEVER_HELPS = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})


class Speaker:
    """Who is spoken about: `provider/model`, the address without its secrets, and the key to leave out."""

    __slots__ = ("_secret", "address", "name")

    def __init__(self, name: str, address: str, secret: str) -> None:
        self.name = name
        self.address = address
        self._secret = secret

    def trouble(
        self, text: str, *, retryable: bool = False, retry_after: float | None = None, limited: bool = False
    ) -> ProviderError:
        """The error for a sentence that goes on after the model's name."""
        sentence = f"{self.name} {text}"
        if len(self._secret) >= SHORTEST_SECRET:
            sentence = sentence.replace(self._secret, "[key]")
        return ProviderError(sentence, retryable=retryable, retry_after=retry_after, limited=limited)

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error for an answer whose HTTP status is not 200."""
        code, words = complaint(body)
        said = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        if 300 <= status < 400:
            place = excerpt(headers.get("Location", "").partition("?")[0].encode())
            return self.trouble(f"is not at {self.address} but redirects to {place}; change its base URL.")
        if status in (401, 403):  # authentication failed: only a person can help, so it is not tried again
            return self.trouble(f"refused the API key ({said}). Check the key and what it may be used for.")
        if status == 404:
            return self.trouble(
                f"was not found at {self.address} ({said}). Check the model's name and the base URL."
            )
        if status == 407:
            return self.trouble(f"cannot be reached: the proxy wants a name and password ({said}).")
        if not may_be_retried(status, code):
            return self.trouble(f"refused the request ({said}).")
        pause = "has had too many requests" if status == 429 else "cannot answer just now"
        wait = wait_asked_for(headers)
        limited = status in ASKED_TOO_MUCH or code in TOO_MUCH
        return self.trouble(f"{pause} ({said}).", retryable=True, retry_after=wait, limited=limited)

    def outburst(self, error: object) -> ProviderError:
        """The error for one that came inside an answer that had begun well."""
        code, words = _code_and_words(error)
        said = ": ".join(each for each in (code, words) if each) or "no reason given"
        status = int(code) if code.isascii() and code.isdigit() else 0
        limited = status in ASKED_TOO_MUCH or code in TOO_MUCH
        retryable = may_be_retried(status, code)
        return self.trouble(f"broke off with an error ({said}).", retryable=retryable, limited=limited)

    def nothing(self) -> ProviderError:
        """The error for a connection that was closed before the first byte of an answer."""
        return self.trouble("closed the connection without an answer.", retryable=True)

    def half(self) -> ProviderError:
        """The error for an answer that ended before it was whole."""
        return self.trouble("stopped in the middle of its answer: the connection was closed.", retryable=True)

    def babble(self, raw: bytes) -> ProviderError:
        """The error for an answer that cannot be understood."""
        if looks_like_a_page(raw):
            return self.trouble(
                f"answered with a web page instead of a reply; check the base URL, now {self.address}."
            )
        shown = f"“{excerpt(raw, 100)}”" if raw.strip() else "nothing"
        return self.trouble(
            f"answered with something that is not a reply: {shown}. Check the base URL, now {self.address}."
        )


def may_be_retried(status: int, code: str) -> bool:
    """Whether the same request may well be answered a little later."""
    if code in WAITING_NEVER_HELPS:
        return False
    return status in (408, 409, 425, 429) or 500 <= status < 600 or code in WAITING_HELPS


def complaint(body: bytes) -> tuple[str, str]:
    """The code and the words of an error, whatever form it was sent in."""
    if looks_like_a_page(body):
        return "", "a web page"
    try:
        return _code_and_words(msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "", excerpt(body)


def _code_and_words(value: object) -> tuple[str, str]:
    if isinstance(value, list):
        return _code_and_words(next(iter(cast("list[object]", value)), None))
    if not isinstance(value, dict):
        return "", excerpt(str(value or "").encode(errors="replace"))
    error = cast("dict[str, Any]", value)
    for inner in ("error", "errors", "detail"):
        if isinstance(error.get(inner), dict | list):
            return _code_and_words(error[inner])
    code = error.get("code") or error.get("type") or error.get("status") or ""
    words = error.get("message") or error.get("error") or error.get("detail") or error.get("msg") or ""
    # The type is the more telling of the two unless the code is a word.
    if isinstance(code, int) and error.get("type") in WAITING_HELPS:
        code = error["type"]
    return excerpt(str(code).encode(errors="replace"), 60), excerpt(str(words).encode(errors="replace"))


def excerpt(raw: bytes, most: int = SHOWN) -> str:
    """Some words of a server on one line: what cannot be printed is left out, what is long is cut."""
    text = raw[: most * 4].decode(errors="replace")
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= most else f"{line[:most]}…"


def looks_like_a_page(raw: bytes) -> bool:
    """Whether this is HTML (or XML) rather than anything a model says."""
    return raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"


def wait_asked_for(headers: Mapping[str, str]) -> float | None:
    """The seconds a server asked us to wait, from either of the two headers and either of the two forms."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "").strip()
        try:
            seconds = float(said) * unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
