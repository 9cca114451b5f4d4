"""The budget of model calls: estimates the cost of a call, holds it in the ledger, settles the real cost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

from gencode.agent.ports import Request
from gencode.budgets.ledger import BudgetSpent, Granted, Hold, Ledger, Shortage, Verdict, Wait
from gencode.budgets.limits import Amounts, Spent, in_numbers, in_units, known
from gencode.core.budget import MILLION, Budget, Price
from gencode.core.errors import UserMistake
from gencode.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolMessage,
    Usage,
    WaitPart,
    pictures_in,
    shows_pictures,
)
from gencode.core.status import WaitFor
from gencode.core.structs import replace
from gencode.journal.change_notifier import ChangeNotifier

NO_PRICE = (
    "The price of the model is not known, so a budget in USD cannot be kept: give its price under [prices] "
    "in the settings, or limit tokens or turns instead."
)
WAITS = "waits for other calls that spend from the same budget"
SILENT_SECONDS = 3.0
"""For so long no notice says that a call waits."""
CLOSE_SECONDS = 2.0
"""The interval at which it is checked whether the holders that a call waits for are still alive."""

Tell = Callable[[WaitPart], None]
"""Publishes what a call waits for."""
Close = Callable[[str], Awaitable[None]]
"""Ends a task whose process has died, so that its holds are released."""


class UnknownPrice(BudgetSpent):
    """A budget in dollars would have to pay for a model with an unknown price."""

    def __init__(self) -> None:
        UserMistake.__init__(self, NO_PRICE)

    @property
    def kind(self) -> str:
        """The kind of budget that is too small."""
        return "usd"


class ReservedCall(Struct, frozen=True):
    """A call that may be made; `reply` is the limit of tokens of its reply, if it has one."""

    hold: Hold | None = None
    reply: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether a budget pays for it, so that its cost has to be known."""
        return self.hold is not None


class _AccountQueue:
    """The calls that wait for one account; only the first in the queue asks again."""

    __slots__ = ("head", "length")

    def __init__(self) -> None:
        self.head = asyncio.Lock()  # which is fair
        self.length = 0


class CallQueue:
    """The calls of one process that wait for a budget; first come, first served for each account."""

    def __init__(self, ledger: Ledger, changes: ChangeNotifier, close: Close) -> None:
        self._ledger = ledger
        self._changes = changes
        self._close = close
        self._lines: dict[str, _AccountQueue] = {}

    async def take(self, hold: Hold, tell: Tell) -> Granted:
        """Take a hold as soon as it fits or nothing else is held; BudgetSpent when nothing is left."""
        blocked = next((each for each in reversed(hold.path) if each in self._lines), "")
        while True:
            verdict = await self._tried(hold, blocked, tell)
            if isinstance(verdict, Granted):
                return verdict
            if isinstance(verdict, Shortage):
                raise BudgetSpent(verdict)
            blocked = verdict.account

    async def _tried(self, hold: Hold, account: str, tell: Tell) -> Verdict:
        """The verdict of the ledger when this call is first in the queue of an account that blocks it."""
        if not account:
            return await self._ledger.hold(hold)
        line = self._lines.setdefault(account, _AccountQueue())
        line.length += 1
        try:
            async with line.head:
                return await self._waited(hold, account, tell)
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[account]

    async def _waited(self, hold: Hold, account: str, tell: Tell) -> Verdict:
        clock = asyncio.get_running_loop().time
        silent, look = clock() + SILENT_SECONDS, clock() + CLOSE_SECONDS
        seen, told = self._changes.count, False
        while True:
            verdict = await self._ledger.hold(hold)
            if not isinstance(verdict, Wait) or verdict.account != account:
                return verdict
            if not told and clock() >= silent:
                told = True
                tell(WaitPart(WAITS, waits_for=WaitFor.BUDGET))
            if clock() >= look:
                look = clock() + CLOSE_SECONDS
                for task in verdict.holders:
                    await self._close(task)
            seen = await self._changes.after(seen, CLOSE_SECONDS / 2)


class CallBudget:
    """Pays for the calls of one task from its own account and those of its ancestors."""

    def __init__(self, ledger: Ledger, calls: CallQueue, path: Sequence[str], owner: str) -> None:
        self._ledger = ledger
        self._calls = calls
        self._path = tuple(path)
        self._owner = owner

    async def left(self) -> Amounts | None:
        """What is left of each limited kind; None if nothing limits the task."""
        return await self._ledger.left(self._path)

    async def pay(
        self, request: Request, price: Price, left: Amounts, before: Usage, tell: Tell
    ) -> ReservedCall:
        """Hold what a call may cost, with this much left; it may have to wait. BudgetSpent when nothing is
        left.

        `before` is the cost of earlier calls of the task.
        """
        said = reply_room(request, in_units(left), price)
        tokens, usd = at_most(request, price, said)
        if known(usd) is None and "usd" in left:
            raise UnknownPrice
        need = in_numbers(Spent(1, tokens, known(usd) or 0.0))
        if not need["usd"] and before.usd:  # the price is wrong, so the cost of a call is unknown
            need["usd"] = left.get("usd", 0) + 1
        hold = Hold(self._path[0], self._path, need, self._owner)
        granted = await self._calls.take(hold, tell)
        return ReservedCall(hold if granted.bounded else None, None if granted.alone else said)

    async def again(self, paid: ReservedCall, tell: Tell) -> None:
        """Hold the same for a call that broke off and is repeated; BudgetSpent when nothing is left."""
        if paid.hold is not None:
            await self._calls.take(paid.hold, tell)

    async def release(self, paid: ReservedCall) -> None:
        """Release the hold of a call that was not made and cost nothing."""
        if paid.hold is not None:
            await self._ledger.release(paid.hold)


SHORTEST_TOKEN = 2
"""The fewest bytes of a token in instructions and descriptions of tools."""
HIDDEN = 1_000
"""The most tokens that a vendor adds before a conversation."""
USUAL_TOKEN = 4
USUAL_TOOL = 200
"""The usual tokens of a tool's description."""
PICTURE = 1_500
"""The tokens of an image."""
LARGEST_PICTURE = 5_000
WRAPPING = 8
"""The tokens around a message."""
LONGEST_REPLY = 8_192
"""The assumed limit of a reply in tokens, if none is set or known for the model."""
LONG_REPLY = 32_000
SHARE = 8
"""A reply may use this part of what is left: an eighth."""
FREE = 5
"""This part of a model's context is free for its reply: a fifth; then a conversation is compacted."""


def at_most(request: Request, price: Price, said: int | None = None) -> tuple[int, float | None]:
    """The most tokens and dollars that a call can cost; None if the price is not known.

    The reply has at most `said` tokens, or else the limit of the request.
    """
    heard = _heard_at_most(request)
    said = said or request.max_tokens or LONGEST_REPLY
    return heard + said, price.of(Usage(heard, said))


def reply_room(request: Request, left: Budget, price: Price) -> int | None:
    """The limit of tokens of a reply while other calls are in flight; None if neither kind is limited."""
    rooms = [] if left.tokens is None else [left.tokens]
    if left.usd is not None and price.output:
        rooms.append(int(left.usd / price.output * MILLION))
    if not rooms:
        return request.max_tokens
    longest = min(LONG_REPLY, price.reply or LONGEST_REPLY, request.max_tokens or LONG_REPLY)
    room = min(longest, max(LONGEST_REPLY, min(rooms) // SHARE))
    if price.context is None or room <= price.context // FREE:
        return room
    # Some servers refuse a limit that does not fit into the context beside the input.
    return min(room, max(price.context - _heard_at_most(request), price.context // FREE))


def kept_to(request: Request, paid: "ReservedCall | None") -> Request:
    """The request with a limit on the reply that keeps to its hold, if there is one."""
    if paid is None or paid.reply is None:
        return request
    return replace(request, max_tokens=paid.reply)


def _heard_at_most(request: Request) -> int:
    """The most input tokens of a request: what the last reply reports, and one for each byte after it."""
    known, since = 0, request.messages
    for place in range(len(since) - 1, -1, -1):
        message = since[place]
        usage = message.usage if isinstance(message, AssistantMessage) else None
        if usage is not None and usage.input_tokens and _same(request.model, message):
            known, since = usage.input_tokens + usage.output_tokens, since[place + 1 :]
            break
    pictures = pictures_in(since)
    after = _encoded_size(since, pictures) + WRAPPING * len(since) + LARGEST_PICTURE * len(pictures)
    if known:
        return known + after
    told = _size(request.system) + len(msgspec.json.encode(request.tools))
    return after + told // SHORTEST_TOKEN + HIDDEN


def _same(asked: str, message: Message) -> bool:
    """Whether a reply is by the requested model, so that its token counts are comparable."""
    answered = message.model if isinstance(message, AssistantMessage) else ""
    return bool(answered) and (answered in asked or asked.rpartition("/")[2] in answered)


def cost(usage: Usage | None, request: Request, text: Sequence[str], *, free: bool) -> Usage:
    """The cost of a call: as its provider reports it, or estimated from what was sent and received.

    A `free` model that reports no usage counts no tokens.
    """
    if usage is not None:
        return usage
    if free:
        return Usage()
    return Usage(_bytes(request) // USUAL_TOKEN, sum(map(len, text)) // USUAL_TOKEN)


class TokenEstimator:
    """Estimates the tokens of a growing transcript; `pictures` says whether a message had images."""

    __slots__ = ("_counted", "_said", "_tokens", "pictures")

    def __init__(self) -> None:
        self.pictures = False
        self.forget()

    def forget(self) -> None:
        """Start again: the transcript was changed."""
        self._counted = 0
        self._tokens = 0
        self._said = False

    def taken(self, transcript: Sequence[Message], overhead: int) -> int:
        """The tokens of a transcript: as its last reply reports, and by size for what came after it.

        `overhead` are the tokens of the instructions and tools, if no reply reports anything.
        """
        if len(transcript) < self._counted:
            self.forget()
        for message in transcript[self._counted :]:
            usage = message.usage if isinstance(message, AssistantMessage) else None
            if usage is not None and usage.input_tokens:
                self._tokens = usage.input_tokens + usage.output_tokens
                self._said = True
            else:
                self._tokens += weight(message)
                self.pictures = self.pictures or shows_pictures(message)
        self._counted = len(transcript)
        return self._tokens if self._said else self._tokens + overhead


def taken(transcript: Sequence[Message], overhead: int) -> int:
    """The tokens of a transcript that was not estimated before."""
    return TokenEstimator().taken(transcript, overhead)


def weight(message: Message) -> int:
    """The estimated tokens of a message, by its size."""
    match message:
        case ToolMessage():
            pictures = sum(len(result.images) for result in message.results) * PICTURE
            return sum(_size(result.text) for result in message.results) // USUAL_TOKEN + pictures + WRAPPING
        case AssistantMessage():
            calls = sum(_size(str(value)) for call in message.calls for value in call.input.values())
            thought = sum(_size(each.text) for each in message.thinking)
            return (_size(message.text) + calls + thought) // USUAL_TOKEN + WRAPPING
        case _:
            return _size(message.text) // USUAL_TOKEN + len(message.images) * PICTURE + WRAPPING


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _bytes(request: Request) -> int:
    messages = _encoded_size(request.messages, pictures_in(request.messages))
    return messages + len(request.system) + len(msgspec.json.encode(request.tools))


def _encoded_size(messages: Sequence[Message], pictures: Sequence[Image]) -> int:
    """The bytes of messages without their images, which are counted separately."""
    return len(msgspec.json.encode(messages)) - sum(len(image.base64) for image in pictures)
