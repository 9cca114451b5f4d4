"""The schedule and the outbox of messages in memory."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gencode.channels.address import Address
from gencode.channels.outbox import MOST_TOGETHER, MOST_WAITING, OutboxMessage, OutgoingMessage
from gencode.core.errors import StoreTrouble
from gencode.core.events import unicode_text
from gencode.core.ids import stamp
from gencode.journal.change_notifier import ChangeNotifier
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.journal_rules import DRAWS, outbox_full, schedule_full


class MemoryOutbox:
    """A `OutboxStore` in a dictionary."""

    def __init__(self, changes: ChangeNotifier) -> None:
        self._changes = changes
        self._messages: dict[int, tuple[OutboxMessage, str]] = {}
        self._last = 0

    async def add_message(self, draft: OutgoingMessage) -> OutboxMessage:
        """Write a message down; UserMistake when too many wait already."""
        message = self.add(draft)
        if message is None:
            raise outbox_full()
        return message

    def add(self, draft: OutgoingMessage) -> OutboxMessage | None:
        """A message that waits from now on, if there is room for it."""
        if len(self._messages) >= MOST_WAITING:
            return None
        self._last += 1
        to = Address(draft.to.channel, unicode_text(draft.to.chat))
        message = OutboxMessage(self._last, to, unicode_text(draft.text), draft.sender, stamp())
        self._messages[self._last] = (message, "")
        self._changes.note()
        return message

    async def claim(
        self, channels: Sequence[str], now: str, until: str, number: int | None = None
    ) -> list[OutboxMessage]:
        """Take messages for these channels that nobody holds, and hold them until a moment."""
        free = [
            each
            for each, held in self._messages.values()
            if held <= now and each.to.channel in channels and number in (None, each.number)
        ]
        taken = [replace(each, tries=each.tries + 1) for each in free[:MOST_TOGETHER]]
        self._messages |= {each.number: (each, until) for each in taken}
        return taken

    async def remove(self, message: OutboxMessage) -> bool:
        """Forget a message that was delivered; False when somebody else has taken it since."""
        ours = self._is(message)
        if ours:
            del self._messages[message.number]
        return ours

    async def retry_later(self, message: OutboxMessage, until: str) -> None:
        """Leave a message for later, unless somebody else has taken it since."""
        if self._is(message):
            self._messages[message.number] = (message, until)
            self._changes.note()

    async def pending(self) -> list[OutboxMessage]:
        """Everything that is not delivered, oldest first."""
        return [message for message, _ in self._messages.values()]

    def _is(self, message: OutboxMessage) -> bool:
        known, _ = self._messages.get(message.number, (None, ""))
        return known is not None and known.tries == message.tries


class MemorySchedule:
    """An `JobStore` in a dictionary."""

    def __init__(self, outbox: MemoryOutbox, draw: Callable[[], str], changes: ChangeNotifier) -> None:
        self._outbox = outbox
        self._changes = changes
        self._draw = draw
        self._planned: dict[str, ScheduledJob] = {}

    async def add(self, appointment: ScheduledJob, most: int) -> ScheduledJob:
        """Write a new one under a free id; UserMistake when there are so many already."""
        if len(self._planned) >= most:
            raise schedule_full(most)
        for _ in range(DRAWS):
            name = self._draw()
            if name not in self._planned:
                self._planned[name] = _clean(replace(appointment, id=name, revision=0))
                self._changes.note()
                return self._planned[name]
        raise StoreTrouble(f"No free id was found in {DRAWS} attempts.")

    async def jobs(self) -> list[ScheduledJob]:
        """All of them, oldest first."""
        return sorted(self._planned.values(), key=lambda each: each.created_at)

    async def due_or_running(self, now: str) -> list[ScheduledJob]:
        """Those that are due, or that some process is at."""
        found = [each for each in self._planned.values() if each.owner or (each.due and each.due <= now)]
        return sorted(found, key=lambda each: each.due or "")

    async def replace(
        self, before: ScheduledJob, after: ScheduledJob | None, draft: OutgoingMessage | None = None
    ) -> bool:
        """Put `after` in the place of `before` and put a message out, all or nothing."""
        known = self._planned.get(before.id)
        if known is None or known.revision != before.revision:
            return False
        if after is None:
            del self._planned[before.id]
        else:
            self._planned[before.id] = _clean(replace(after, id=before.id, revision=before.revision + 1))
        if draft is not None:
            self._outbox.add(draft)
        self._changes.note()
        return True


def _clean(appointment: ScheduledJob) -> ScheduledJob:
    return replace(
        appointment, prompt=unicode_text(appointment.prompt), label=unicode_text(appointment.label)
    )
