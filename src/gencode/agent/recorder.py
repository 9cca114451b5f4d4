"""Writes the facts of one task: durable ones are committed before anyone hears of them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gencode.agent.output_files import TaskOutputFile
from gencode.core.events import DurableFact, Event, MessageAdded, PassingFact
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult
from gencode.core.outcome import output_file
from gencode.core.task import Task
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Journal, Lease

if TYPE_CHECKING:
    from gencode.agent.work_queue import Slot


class Recorder:
    """Writes the facts of one leased task and tells them to the bus.

    A background task also has a file, in the folder `outputs`.
    """

    __slots__ = (
        "_bus",
        "_file",
        "_journal",
        "_outputs",
        "_parks",
        "_waiting",
        "answers",
        "heard",
        "lease",
        "open_calls",
        "remarks",
    )

    def __init__(self, journal: Journal, bus: EventBus, lease: Lease, outputs: Path | None = None) -> None:
        self._journal = journal
        self._bus = bus
        self._outputs = outputs
        self._file: TaskOutputFile | None = None
        self._waiting: list[DurableFact] = []
        self.lease = lease
        self.open_calls: tuple[ToolCall, ...] = ()
        """Calls that are written down and have no result yet."""
        self.answers: dict[str, ToolResult] = {}
        """What those of them gave that have come to their end; it is written when all have."""
        self.remarks: dict[str, str] = {}
        """What the model is told beside that of those that are cut."""
        self.heard = time.monotonic()
        """When the task last gave a sign of life."""
        self._parks = 0

    @property
    def task(self) -> Task:
        """The task as it is written so far."""
        return self.lease.state

    @property
    def folder(self) -> Path | None:
        """Where the outputs of the task are kept, if anywhere."""
        return self._outputs / self.lease.task if self._outputs else None

    @property
    def trouble(self) -> str:
        """Why the output file is not whole, if it is not."""
        return self._file.trouble if self._file else ""

    @property
    def silent(self) -> float:
        """For how many seconds nothing was heard of the task; none while it waits for something in order."""
        return 0.0 if self._parks else time.monotonic() - self.heard

    def parked(self, slot: "Slot | None" = None) -> "Parked":
        """While the task waits for an agent, an answer or its turn: that is no silence, and needs no slot."""
        return Parked(self, slot)

    def park(self, more: int) -> None:
        """One wait more, or one less."""
        self._parks += more
        self.heard = time.monotonic()

    def defer(self, fact: DurableFact) -> None:
        """Write this fact with the next ones; only for what nothing happens between."""
        self._waiting.append(fact)

    async def flush(self) -> None:
        """Write what was deferred, if anything was."""
        if self._waiting:
            await self.commit()

    async def commit(self, *facts: DurableFact, last: bool = False, quiet: bool = False) -> None:
        """Write these facts in one transaction, then let them be heard; `last` also gives the lease back.

        Facts that are `quiet` are no sign of life.
        """
        waiting, self._waiting = self._waiting, []
        facts = (*waiting, *facts)
        if not quiet:
            self.heard = time.monotonic()
        events = await self._journal.append(self.lease, facts, last=last)
        for fact in facts:
            if isinstance(fact, MessageAdded):
                if isinstance(fact.message, AssistantMessage):
                    self.open_calls, self.answers, self.remarks = fact.message.calls, {}, {}
                elif isinstance(fact.message, ToolMessage):
                    self.open_calls, self.answers, self.remarks = (), {}, {}
        self.publish(events)

    def publish(self, events: Sequence[Event]) -> None:
        """Let facts be heard that are in the journal; a background task's file has them by then."""
        if self._outputs is not None and events and self.task.terms.background:
            if self._file is None:
                self._file = TaskOutputFile(output_file(self._outputs, self.lease.task))
            self._file.add(self.task, events)
        self._bus.publish(events)

    def tell(self, fact: PassingFact) -> None:
        """Let a passing fact be heard; nothing is written."""
        self.heard = time.monotonic()
        self._bus.tell(self.lease.task, fact)

    async def release(self) -> None:
        """Give the lease back."""
        await self._journal.release(self.lease)


class Parked:
    """A wait that is in order: the slot is given back, and silence does not count."""

    __slots__ = ("_record", "_slot")

    def __init__(self, record: Recorder, slot: "Slot | None") -> None:
        self._record = record
        self._slot = slot

    def __enter__(self) -> None:
        self._record.park(1)
        if self._slot is not None:
            self._slot.release()

    def __exit__(self, *_: object) -> None:
        self._record.park(-1)
