"""What one call of a model may cost before it is made, and what it did cost afterwards."""

from collections.abc import Sequence

import msgspec

from gencode.core.messages import Usage
from gencode.core.prices import Price
from gencode.runtime.ports import Request

SHORTEST_TOKEN = 2
"""A token has at least so many bytes, in all but contrived texts."""
USUAL_TOKEN = 4
LONGEST_REPLY = 8_192
"""So many tokens a reply is taken to have at most where no limit is named."""


def at_most(request: Request, price: Price) -> tuple[int, float | None]:
    """The most tokens and dollars that a call can cost; None where the price is not known."""
    heard = _bytes(request) // SHORTEST_TOKEN
    said = request.max_tokens or LONGEST_REPLY
    return heard + said, price.of(Usage(heard, said))


def cost(usage: Usage | None, request: Request, text: Sequence[str], *, whole: bool) -> Usage:
    """What a call did cost: as its provider says, else as far as it came by what was sent and heard.

    A whole reply without any usage comes from a model that counts no tokens.
    """
    if usage is not None:
        return usage
    if whole:
        return Usage()
    return Usage(_bytes(request) // USUAL_TOKEN, sum(map(len, text)) // USUAL_TOKEN)


def _bytes(request: Request) -> int:
    messages = len(msgspec.json.encode(request.messages))
    return messages + len(request.system) + len(msgspec.json.encode(request.tools))
