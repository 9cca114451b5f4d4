"""Retries requests: a wrapper around any provider for errors that are temporary.

A reply that broke off is discarded before it is requested again (`AgainPart`), and none of its calls was run:
the loop runs only whole replies. An error that persists is raised with the provider's own words.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import ceil

from msgspec import Struct

from gencode.agent.ports import Provider, Request
from gencode.core.errors import ProviderError
from gencode.core.messages import AgainPart, Part, WaitPart
from gencode.providers.request_queue import SLACK, RequestQueue, RequestSlot

SHORT = 3.0
"""A wait of up to this many seconds is not reported."""
OFTEN = 30.0
"""How often a longer wait is reported again."""
LONG = 10.0
"""A wait requested by the provider is named in the error if it is longer than this."""
MOST_DAYS = 365


class RetryPolicy(Struct, frozen=True):
    """How often and how long to retry: pauses double from `first` up to `longest`, with jitter.

    After `whole` seconds without an answer to any request the error is raised. All tries together take more
    than a minute, which is what most limits count by.
    """

    tries: int = 9
    first: float = 0.5
    longest: float = 30.0
    whole: float = 180.0

    def pause(self, failed: int, error: ProviderError) -> float:
        """Seconds to wait after this many failures, and at least as long as the provider asked."""
        grown = min(self.longest, self.first * 2 ** min(failed - 1, 60))
        return max(grown * random.uniform(0.75, 1.0), error.retry_after or 0.0)  # noqa: S311 (jitter, no secret)


class RetryingProvider:
    """A provider that retries where waiting helps; everyone who uses it shares one pause."""

    def __init__(self, inner: Provider, queue: RequestQueue, policy: RetryPolicy | None = None) -> None:
        self._inner = inner
        self._queue = queue
        self._policy = policy or RetryPolicy()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The reply of the inner provider, requested again after temporary errors."""
        began = asyncio.get_running_loop().time()
        failed = refused = 0
        waited = False
        while True:
            said = False
            async with self._queue.turn(self._policy.whole, refused) as turn:
                if turn.held:
                    waited = True
                    yield WaitPart()
                    async with aclosing(self._in_line(turn)) as waits:
                        async for part in waits:
                            yield part
                    if not turn.in_line:
                        began = asyncio.get_running_loop().time()
                if waited:
                    yield WaitPart(over=True)
                try:
                    async with aclosing(self._inner.stream(request)) as parts:
                        async for part in parts:
                            if not said:
                                turn.answered()
                            said = True
                            yield part
                        return
                except ProviderError as error:
                    trouble = error
                refused += trouble.limited and turn.in_line
                failed += not (trouble.limited and turn.shared)
                pause = self._pause(turn, trouble, failed, began)
            waited = True
            yield _wait(pause, trouble)
            await asyncio.sleep(pause)
            if said:  # not before: from here on a new request is counted
                yield AgainPart(str(trouble))

    async def _in_line(self, turn: RequestSlot) -> AsyncGenerator[WaitPart, None]:
        """Wait for the slot, and report the wait now and then, which is a sign of life as well."""
        waiting = asyncio.get_running_loop().create_task(turn.wait())
        try:
            pause = SHORT
            while not (await asyncio.wait((waiting,), timeout=pause))[0]:
                yield WaitPart(self._queue.words, self._queue.state.active and self._queue.news.due())
                pause = OFTEN
            await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    def _pause(self, turn: RequestSlot, error: ProviderError, failed: int, began: float) -> float:
        """The seconds to wait besides the shared pause; raises errors that waiting cannot mend."""
        limited = error.limited and error.retryable
        together = self._queue.state.refusals + 1 if limited else 0
        alone = 0 if limited and self._queue.crowded else failed
        pause = self._policy.pause(max(together, alone), error)
        state = self._queue.state
        end = max(began, state.answered_at) + self._policy.whole + SLACK * state.gap
        late = asyncio.get_running_loop().time() + pause > end
        if limited and (error.retry_after or 0.0) <= self._policy.whole:
            turn.refused(pause, error)
        if not error.retryable or failed >= self._policy.tries or late:
            raise _told(error, failed, late=late)
        return 0.0 if limited else pause


def _wait(seconds: float, error: ProviderError) -> WaitPart:
    """The report of a wait; an empty one if it is short."""
    if seconds <= SHORT:
        return WaitPart()
    return WaitPart(f"retries in {ceil(seconds)} s ({str(error).removesuffix('.')})", note=True)


def _told(error: ProviderError, tries: int, *, late: bool) -> ProviderError:
    """The final error: how often it was tried, and how long to wait where that is long."""
    text = str(error)
    if tries > 1:
        text = f"{text.removesuffix('.')} (tried {tries} times){'.' if text.endswith('.') else ''}"
    if late and error.retryable and error.retry_after and error.retry_after > LONG:
        text = (
            f"{text.removesuffix('.')}. The provider asks to wait {_long(error.retry_after)}; try again then."
        )
    return ProviderError(
        text,
        retryable=error.retryable,
        retry_after=error.retry_after,
        too_long=error.too_long,
        unfit=error.unfit,
    )


def _long(seconds: float) -> str:
    """A time in words, in the largest unit that fits at least twice."""
    units = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
    size, name = next(((size, name) for size, name in units if seconds >= 2 * size), units[-1])
    count = ceil(seconds / size)
    return f"{count} {name}" if count <= MOST_DAYS or name != "days" else "more than a year"
