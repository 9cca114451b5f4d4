"""Errors of model APIs as sentences that name provider and model, and never show a key."""

import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gencode.core.errors import ProviderError

SHOWN = 300
"""How many characters of a server's own words are repeated."""

DEEPEST = 5
"""How often an error may be wrapped."""

WINDOW = 64 * 1024
"""How much of a server's words is looked at."""

SHORTEST_SECRET = 6
"""Placeholders used where no key is needed are not secret, and may be part of any word."""

ASKED_TOO_MUCH = (429, 503, 529)
TOO_MUCH = ("rate_limit_error", "rate_limit_exceeded", "overloaded_error")
WAITING_HELPS = frozenset(
    {
        "overloaded_error",
        "api_error",
        "rate_limit_error",
        "timeout_error",
        "rate_limit_exceeded",
        "server_error",
        "internal_server_error",
        "internal_error",
        "overloaded",
        "engine_overloaded",
        "service_unavailable",
        "slow_down",
        "timeout",
    }
)
TOO_LONG = (400, 413, 422)
UNFIT = (400, 404, 413, 415, 422)
"""Status codes of requests with an unsupported part; 404 also stands for a model that takes no pictures."""
NOT_TAKEN = ("invalid_request_error", "invalid_image", "invalid_image_format", "image_parse_error")
LENGTH = (
    "context_length",
    "context length",
    "context window",
    "context size",
    "context_size",
    "context limit",
    "prompt is too long",
    "input is too long",
    "input token count",
    "too many tokens",
    "too many input",
    "request_too_large",
    "maximum number of tokens",
    "exceed_context",
    "reduce the length",
)
"""Words of vendors and local servers for a conversation that is too long."""
THINKING = (b"effort", b"thinking", b"reasoning", b"budget_tokens", b"output_config")
WAITING_NEVER_HELPS = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})


class ModelErrors:
    """Makes the errors of one model, with its name and address and without its keys."""

    __slots__ = ("_secrets", "address", "name")

    def __init__(self, name: str, address: str, *secrets: str) -> None:
        self.name = name
        self.address = address
        # A key that holds another one goes first, or its rest would stay.
        self._secrets = sorted((each for each in secrets if len(each) >= SHORTEST_SECRET), key=len)[::-1]

    def error(
        self,
        text: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        limited: bool = False,
        overloaded: bool = False,
        too_long: bool = False,
        unfit: bool = False,
    ) -> ProviderError:
        """An error whose sentence begins with the model's name."""
        sentence = self._without_keys(f"{self.name} {text}")
        return ProviderError(
            sentence,
            retryable=retryable,
            retry_after=retry_after,
            limited=limited,
            overloaded=overloaded,
            too_long=too_long,
            unfit=unfit,
        )

    def http_error(
        self, status: int, headers: Mapping[str, str], body: bytes, thinking: str | None = None
    ) -> ProviderError:
        """The error for an answer whose HTTP status is not 200; `thinking` is how it was asked to think."""
        code, told = complaint(body)
        words = self.shown(told)
        said = f"HTTP {status}: {words}" if words else f"HTTP {status}"
        if 300 <= status < 400:
            place = self.shown(headers.get("location", "").partition("?")[0]) or "nowhere"
            return self.error(f"is not at {self.address} but redirects to {place}; change its base URL.")
        if status in (401, 403):  # authentication failed: only a person can help, so it is not tried again
            return self.error(f"refused the API key ({said}). Check the key and its permissions.")
        if status == 404:
            return self.error(
                f"was not found at {self.address} ({said}). Check the model's name and the base URL.",
                unfit=True,
            )
        if status == 407:
            return self.error(f"cannot be reached: the proxy wants a name and password ({said}).")
        if not may_be_retried(status, code):
            advice = f" {_advice(thinking)}" if thinking and (not words or speaks_of_thinking(body)) else ""
            too_long = status in TOO_LONG and speaks_of_length(code, told)
            sentence = f"refused the request ({said}).{advice}"
            return self.error(sentence, too_long=too_long, unfit=status in UNFIT)
        pause = "refused the request: too many requests" if status == 429 else "is temporarily unavailable"
        wait = wait_asked_for(headers)
        limited = status in ASKED_TOO_MUCH or code in TOO_MUCH
        overloaded = limited and status != 429
        return self.error(
            f"{pause} ({said}).", retryable=True, retry_after=wait, limited=limited, overloaded=overloaded
        )

    def stream_error(self, error: object) -> ProviderError:
        """The error for one that came inside an answer that had begun well."""
        code, words = _code_and_words(error)
        told = self.shown(code, 60), self.shown(words)
        said = ": ".join(each for each in told if each) or "no reason given"
        status = int(code) if len(code) == 3 and code.isascii() and code.isdigit() else 0
        limited = status in ASKED_TOO_MUCH or code in TOO_MUCH
        retryable = may_be_retried(status, code)
        too_long = not retryable and speaks_of_length(code, words)
        unfit = not retryable and (status in UNFIT or code in NOT_TAKEN)
        sentence = f"broke off with an error ({said})."
        return self.error(sentence, retryable=retryable, limited=limited, too_long=too_long, unfit=unfit)

    def no_answer(self) -> ProviderError:
        """The error for a connection that was closed before the first byte of an answer."""
        return self.error("closed the connection without an answer.", retryable=True)

    def cut_off(self) -> ProviderError:
        """The error for an answer that ended before it was whole."""
        return self.error("stopped in the middle of its answer: the connection was closed.", retryable=True)

    def not_a_reply(self, raw: bytes) -> ProviderError:
        """The error for an answer that cannot be understood."""
        if looks_like_a_page(raw):
            return self.error(
                f"answered with a web page instead of a reply; check the base URL, now {self.address}."
            )
        words = self.shown(raw[:WINDOW].decode(errors="replace"), 100)
        shown = f"“{words}”" if raw.strip() else "nothing"
        return self.error(
            f"answered with something that is not a reply: {shown}. Check the base URL, now {self.address}."
        )

    def shown(self, text: str, most: int = SHOWN) -> str:
        """A server's words, shortened; keys are removed before they are cut, or half of one might stay."""
        clean = self._without_keys(text)
        for secret in self._secrets:
            halves = (secret[:end] for end in range(len(secret) - 1, SHORTEST_SECRET - 1, -1))
            clean = clean.removesuffix(next(filter(clean.endswith, halves), ""))
        return excerpt(clean.encode(errors="replace"), most)

    def _without_keys(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return text


def _advice(thinking: str) -> str:
    return (
        f"Thinking was requested with {thinking}; if the model does not support that, "
        "remove effort from the agent's file."
    )


def speaks_of_thinking(body: bytes) -> bool:
    """Whether the words of a refusal are about being asked to think; an older thought is another matter."""
    told = body.lower().replace(b"reasoning_content", b"")
    return any(word in told for word in THINKING)


def speaks_of_length(code: str, words: str) -> bool:
    """Whether a refusal is about a conversation that is longer than the model's context."""
    return any(each in f"{code} {words[:WINDOW]}".lower() for each in LENGTH)


def may_be_retried(status: int, code: str) -> bool:
    """Whether the same request may well be answered a little later."""
    if code in WAITING_NEVER_HELPS:
        return False
    return status in (408, 409, 425, 429) or 500 <= status < 600 or code in WAITING_HELPS


def complaint(body: bytes) -> tuple[str, str]:
    """The code and the words of an error, whatever form it was sent in; they are not fit to be shown yet."""
    if looks_like_a_page(body):
        return "", "a web page"
    try:
        return _code_and_words(msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "", body.decode(errors="replace")


def _code_and_words(value: object) -> tuple[str, str]:
    for _ in range(DEEPEST):
        value = _inside(value)
    if not isinstance(value, dict):
        return "", _word(value)
    error = cast("dict[str, Any]", value)
    code = error.get("code") or error.get("type") or error.get("status")
    words = error.get("message") or error.get("error") or error.get("detail") or error.get("msg")
    # The type is the more telling of the two unless the code is a word.
    if isinstance(code, int) and _word(error.get("type")) in WAITING_HELPS:
        code = error["type"]
    return _word(code), _word(words)


def _inside(value: Any) -> Any:
    """The error that is wrapped in a list or in another object; anything else is the error itself."""
    if isinstance(value, list):
        return next(iter(cast("list[Any]", value)), None)
    if isinstance(value, dict):
        wrapper = cast("dict[str, Any]", value)
        for name in ("error", "errors", "detail"):
            if isinstance(wrapper.get(name), dict | list):
                return wrapper[name]
        return wrapper
    return value


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


def excerpt(raw: bytes, most: int = SHOWN) -> str:
    """A server's words on one line: unprintable characters are left out, long texts are cut."""
    text = raw[: most * 4].decode(errors="replace")
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= most else f"{line[:most]}…"


def looks_like_a_page(raw: bytes) -> bool:
    """Whether this is HTML (or XML) rather than a reply of a model."""
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
