"""What a model costs and how much it can hold."""

from typing import Annotated

from msgspec import Meta, Struct

from gencode.core.messages import Usage

MILLION = 1_000_000
Tokens = Annotated[int, Meta(ge=1)]


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens; `cached` is for input read from a cache.

    In tokens: how much it holds (`context`), and how long its `reply` can be.
    """

    input: float | None = None
    output: float | None = None
    cached: float | None = None
    context: Tokens | None = None
    reply: Tokens | None = None

    def of(self, usage: Usage) -> float | None:
        """What this usage costs; None when a price that is needed is not known."""
        if self.input is None or self.output is None:
            return None
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        ) / MILLION
