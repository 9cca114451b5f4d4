"""The budget of model calls: what one may cost, the hold for it in the ledger, and what it did cost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from gencode.journal.change_notifier import ChangeNotifier

NO_PRICE = (
    "The price of the model is not known, so a budget in USD cannot be kept: give its price under [prices] "
    "in the settings, or limit tokens or turns instead."
)
WAITS = "waits for other calls that spend from the same budget"
SILENT_SECONDS = 3.0
"""For so long nobody is told that a call waits."""
CLOSE_SECONDS = 2.0
"""So often it is looked whether those that a call waits for are still alive."""

Tell = Callable[[WaitPart], None]
"""Tells whom it concerns what is waited for."""
Close = Callable[[str], Awaitable[None]]
"""Ends a task whose process has died, so that it holds nothing any more."""


class UnknownPrice(BudgetSpent):
    """A budget in dollars is to pay for a model whose price nobody knows."""

    def __init__(self) -> None:
        UserMistake.__init__(self, NO_PRICE)

    @property
    def kind(self) -> str:
        """Of what too little is left."""
        return "usd"


class ReservedCall(Struct, frozen=True):
    """A call that may be made; `reply` is how many tokens its reply has to keep to, if that is bounded."""

    hold: Hold | None = None
    reply: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether a budget pays for it, so that what it costs has to be known."""
        return self.hold is not None


class _AccountQueue:
    """Those who wait for one account; only the head of the line asks again."""

    __slots__ = ("head", "length")

    def __init__(self) -> None:
        self.head = asyncio.Lock()  # which is fair
        self.length = 0


class CallQueue:
    """The calls of one process that wait for a budget, for each account in the order they came."""

    def __init__(self, ledger: Ledger, changes: ChangeNotifier, close: Close) -> None:
        self._ledger = ledger
        self._changes = changes
        self._close = close
        self._lines: dict[str, _AccountQueue] = {}

    async def take(self, hold: Hold, tell: Tell) -> Granted:
        """Take a hold, once it fits or nothing else is held; BudgetSpent when nothing is left."""
        blocked = next((each for each in reversed(hold.path) if each in self._lines), "")
        while True:
            verdict = await self._tried(hold, blocked, tell)
            if isinstance(verdict, Granted):
                return verdict
            if isinstance(verdict, Shortage):
                raise BudgetSpent(verdict)
            blocked = verdict.account

    async def _tried(self, hold: Hold, account: str, tell: Tell) -> Verdict:
        """What the ledger says once it is the turn of this call; it waits while this account blocks it."""
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
    """Pays for the calls of one task from its own account and those above it."""

    def __init__(self, ledger: Ledger, calls: CallQueue, path: Sequence[str], owner: str) -> None:
        self._ledger = ledger
        self._calls = calls
        self._path = tuple(path)
        self._owner = owner

    async def left(self) -> Amounts | None:
        """What is left of each limited kind; None while nothing limits the task."""
        return await self._ledger.left(self._path)

    async def pay(
        self, request: Request, price: Price, left: Amounts, before: Usage, tell: Tell
    ) -> ReservedCall:
        """Hold what a call may cost, with so much left; it may have to wait. BudgetSpent when nothing is.

        `before` is what the calls of the task did cost.
        """
        said = reply_room(request, in_units(left), price)
        tokens, usd = at_most(request, price, said)
        if known(usd) is None and "usd" in left:
            raise UnknownPrice
        need = in_numbers(Spent(1, tokens, known(usd) or 0.0))
        if not need["usd"] and before.usd:  # the price is wrong, so nobody knows what a call costs
            need["usd"] = left.get("usd", 0) + 1
        hold = Hold(self._path[0], self._path, need, self._owner)
        granted = await self._calls.take(hold, tell)
        return ReservedCall(hold if granted.bounded else None, None if granted.alone else said)

    async def again(self, paid: ReservedCall, tell: Tell) -> None:
        """Hold the same for a call that broke off and is made again; BudgetSpent when nothing is left."""
        if paid.hold is not None:
            await self._calls.take(paid.hold, tell)

    async def release(self, paid: ReservedCall) -> None:
        """The call was not made: it cost nothing."""
        if paid.hold is not None:
            await self._ledger.release(paid.hold.task)


SHORTEST_TOKEN = 2
"""A token of instructions and descriptions of tools has at least so many bytes."""
HIDDEN = 1_000
"""So many tokens a vendor puts before a conversation at most."""
USUAL_TOKEN = 4
USUAL_TOOL = 200
"""So many tokens the description of a tool has."""
PICTURE = 1_500
"""So many tokens a picture takes."""
LARGEST_PICTURE = 5_000
WRAPPING = 8
"""So many tokens stand around a message."""
LONGEST_REPLY = 8_192
"""So many tokens a reply is taken to have at most where no limit is named, or none is known of the model."""
LONG_REPLY = 32_000
SHARE = 8
"""A reply may have this part of what is left: an eighth."""
FREE = 5
"""This part of what a model holds is free for its reply: a fifth, then a conversation is summed up."""


def at_most(request: Request, price: Price, said: int | None = None) -> tuple[int, float | None]:
    """The most tokens and dollars that a call can cost; None where the price is not known.

    That is so for a reply that keeps to what is `said` here, or else to the limit of the request.
    """
    heard = _heard_at_most(request)
    said = said or request.max_tokens or LONGEST_REPLY
    return heard + said, price.of(Usage(heard, said))


def reply_room(request: Request, left: Budget, price: Price) -> int | None:
    """How many tokens a reply gets that others are in flight beside; None where neither kind is bounded."""
    rooms = [] if left.tokens is None else [left.tokens]
    if left.usd is not None and price.output:
        rooms.append(int(left.usd / price.output * MILLION))
    if not rooms:
        return request.max_tokens
    longest = min(LONG_REPLY, price.reply or LONGEST_REPLY, request.max_tokens or LONG_REPLY)
    room = min(longest, max(LONGEST_REPLY, min(rooms) // SHARE))
    if price.context is None or room <= price.context // FREE:
        return room
    # Some servers refuse a limit that does not fit beside what the model hears.
    return min(room, max(price.context - _heard_at_most(request), price.context // FREE))


def kept_to(request: Request, paid: "ReservedCall | None") -> Request:
    """A request whose reply costs no more than was set aside for it, where it has to."""
    if paid is None or paid.reply is None:
        return request
    return replace(request, max_tokens=paid.reply)


def _heard_at_most(request: Request) -> int:
    """How many tokens a model hears at most: as its last reply says up to that, and every byte after it."""
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
    """Whether a reply is by the model that is asked, so that it counted as this one will."""
    answered = message.model if isinstance(message, AssistantMessage) else ""
    return bool(answered) and (answered in asked or asked.rpartition("/")[2] in answered)


def cost(usage: Usage | None, request: Request, text: Sequence[str], *, free: bool) -> Usage:
    """What a call did cost: as its provider says, else as far as it came by what was sent and heard.

    A model that is `free` and tells no usage counts no tokens.
    """
    if usage is not None:
        return usage
    if free:
        return Usage()
    return Usage(_bytes(request) // USUAL_TOKEN, sum(map(len, text)) // USUAL_TOKEN)


class TokenEstimator:
    """Weighs one transcript that grows, each message once; `pictures` says whether any was seen in it."""

    __slots__ = ("_counted", "_said", "_tokens", "pictures")

    def __init__(self) -> None:
        self.pictures = False
        self.forget()

    def forget(self) -> None:
        """Begin anew: the transcript has changed."""
        self._counted = 0
        self._tokens = 0
        self._said = False

    def taken(self, transcript: Sequence[Message], beside: int) -> int:
        """How many tokens it takes: as its last reply says, and by its size what came after that.

        `beside` are the tokens of what is told with it, where no reply says anything.
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
        return self._tokens if self._said else self._tokens + beside


def taken(transcript: Sequence[Message], beside: int) -> int:
    """How many tokens a transcript takes that nobody has weighed before."""
    return TokenEstimator().taken(transcript, beside)


def weight(message: Message) -> int:
    """About how many tokens a message has, by its size."""
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
    """How many bytes messages have but for their pictures, which are counted by the piece."""
    return len(msgspec.json.encode(messages)) - sum(len(image.base64) for image in pictures)
