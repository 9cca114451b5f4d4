"""What is known of models: prices, context windows and longest replies; the user's settings override it.

What is not in the table is unknown, never zero. Prices are US dollars for a million tokens.
"""

import re
from collections.abc import AsyncGenerator, Mapping
from functools import lru_cache

from gencode.agent.ports import Provider, Request
from gencode.core.budget import Price
from gencode.core.messages import EndPart, Part, Usage
from gencode.core.structs import replace

PRICES: Mapping[str, Price] = {
    "anthropic/claude-opus-5": Price(5.0, 25.0, 0.5),
    "anthropic/claude-sonnet-5": Price(2.0, 10.0, 0.2),
    "anthropic/claude-haiku-4-5": Price(1.0, 5.0, 0.1, 200_000),
    "openai/gpt-5.4": Price(2.5, 15.0, 0.25),
    "openai/gpt-5.4-mini": Price(0.75, 4.5, 0.075),
    "openai/gpt-5-mini": Price(0.25, 2.0, 0.025, 400_000),
    "openai/gpt-5-nano": Price(0.05, 0.4, 0.005, 400_000),
}


def price_of(model: str, own: Mapping[str, Price]) -> Price:
    """The price of `PROVIDER/MODEL`: the user's, else the table's, also for a dated name of a model."""
    for table in (own, PRICES):
        if model in table:
            return table[model]
        dated = [name for name in table if model.startswith(f"{name}-20")] if "-20" in model else ()
        if dated:
            return table[max(dated, key=len)]
    return Price()


class PricedProvider:
    """A provider whose usage includes its cost; `address` is where it is reached."""

    def __init__(self, inner: Provider, price: Price, address: str = "") -> None:
        self.address = address
        self._inner = inner
        self._price = price
        self._known = price.of(Usage()) is not None

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The inner provider's reply with its cost in dollars; as it is where no price is known."""
        parts = self._inner.stream(request)
        return self._priced(parts) if self._known else parts

    async def _priced(self, parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Part, None]:
        try:
            async for part in parts:
                if isinstance(part, EndPart) and part.usage is not None and part.usage.usd is None:
                    part = replace(part, usage=replace(part.usage, usd=self._price.of(part.usage)))
                yield part
        finally:
            await parts.aclose()


LONGEST: Mapping[str, int] = {
    "claude-3-5": 8192,
    "claude-3-7": 64000,
    "claude-3": 4096,
    "claude-2": 4096,
    "claude-instant": 4096,
    "claude": 32000,
    "gpt-3.5": 4096,
    "gpt-4o-2024-05-13": 4096,
    "gpt-4o": 16384,
    "chatgpt-4o": 16384,
    "gpt-4.1": 32768,
    "gpt-4.5": 16384,
    "gpt-4": 4096,
    "gpt-5": 128000,
    "o1-preview": 32768,
    "o1-mini": 65536,
    "o1": 100000,
    "o3": 100000,
    "o4-mini": 100000,
}
"""The longest reply in tokens, by the beginning of the model's name; the first match applies."""

_NAMED = re.compile(rf"(?:^|[/:.])({'|'.join(map(re.escape, LONGEST))})(?![a-z0-9])")


@lru_cache
def longest_reply(model: str) -> int | None:
    """The most tokens a reply can have, by the name of the model, however it is reached.

    Vendors refuse a request that asks for more.
    """
    named = _NAMED.search(model)
    return LONGEST[named[1]] if named else None


def within_longest_reply(asked: int, model: str) -> int:
    """So many tokens as are asked for, or as the model can say at most."""
    return min(asked, longest_reply(model) or asked)
