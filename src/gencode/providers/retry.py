"""Asking again: a wrapper around any provider for trouble that passes by itself.

A reply that broke off is void before it is asked for anew (`AgainPart`), and no call of it was acted on: the
loop acts only on whole replies. What is still failing at the end is raised with the provider's own words.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from gencode.core.errors import ProviderError
from gencode.providers.cooldown import Cooldown
from gencode.runtime.ports import AgainPart, Part, Provider, Request


class Patience(Struct, frozen=True):
    """How often and how long to try: pauses double from `first` up to `longest`, with jitter."""

    tries: int = 6
    first: float = 0.5
    longest: float = 30.0
    whole: float = 180.0

    def pause(self, failed: int, error: ProviderError) -> float:
        """Seconds to wait after this many failures; what the provider asked for counts."""
        grown = min(self.longest, self.first * 2 ** (failed - 1))
        return max(grown * random.uniform(0.5, 1.0), error.retry_after or 0.0)  # noqa: S311 (jitter, no secret)


class Retrying:
    """A provider that asks again where waiting helps, with one pause for all who use it."""

    def __init__(self, inner: Provider, cooldown: Cooldown, patience: Patience | None = None) -> None:
        self._inner = inner
        self._cooldown = cooldown
        self._patience = patience or Patience()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The inner provider's reply, asked for again after trouble that passes."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._patience.whole
        failed = 0
        while True:
            said = False
            try:
                async with self._cooldown.turn(), aclosing(self._inner.stream(request)) as parts:
                    async for part in parts:
                        if not said:
                            self._cooldown.answered()
                        said = True
                        yield part
                    return
            except ProviderError as error:
                failed += 1
                pause = self._patience.pause(failed, error)
                if not error.retryable or failed >= self._patience.tries or clock() + pause > deadline:
                    raise _told(error, failed) from None
                if error.limited:
                    self._cooldown.hold(pause)
                trouble = error
            if said:
                yield AgainPart(str(trouble))
            await asyncio.sleep(pause)


def _told(error: ProviderError, tries: int) -> ProviderError:
    """The error as it is shown at the end: with the number of tries, if there were several."""
    if tries < 2:
        return error
    return ProviderError(
        f"{error} (tried {tries} times)", retryable=error.retryable, retry_after=error.retry_after
    )
