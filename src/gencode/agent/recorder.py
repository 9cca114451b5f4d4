"""Writes the events of one task: durable ones are committed before they are published."""

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
    """Writes the events of one leased task and publishes them on the bus.

    A background task also has an output file, in the folder `outputs`.
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
        """Calls that are written and have no result yet."""
        self.answers: dict[str, ToolResult] = {}
        """The results of those that have finished; they are written together when all have."""
        self.remarks: dict[str, str] = {}
        """Additions to the results of calls that are cut off, for the model."""
        self.heard = time.monotonic()
        """When the task last gave a sign of life."""
        self._parks = 0

    @property
    def task(self) -> Task:
        """The task as it is written so far."""
        return self.lease.state

    @property
    def folder(self) -> Path | None:
        """The folder of the task's outputs, if there is one."""
        return self._outputs / self.lease.task if self._outputs else None

    @property
    def trouble(self) -> str:
        """Why the output file is incomplete, if it is."""
        return self._file.trouble if self._file else ""

    @property
    def silent(self) -> float:
        """For how many seconds the task gave no sign of life; 0 during a wait that is expected."""
        return 0.0 if self._parks else time.monotonic() - self.heard

    def parked(self, slot: "Slot | None" = None) -> "Parked":
        """Wait for a subagent, an answer or a slot: the task holds no slot, and does not count as silent."""
        return Parked(self, slot)

    def park(self, more: int) -> None:
        """Begin one more wait, or end one."""
        self._parks += more
        self.heard = time.monotonic()

    def defer(self, fact: DurableFact) -> None:
        """Write this event together with the next ones; only if nothing may happen in between."""
        self._waiting.append(fact)

    async def flush(self) -> None:
        """Write the deferred events, if there are any."""
        if self._waiting:
            await self.commit()

    async def commit(self, *facts: DurableFact, last: bool = False, quiet: bool = False) -> None:
        """Write these events in one transaction, then publish them; `last` also releases the lease.

        `quiet` events are no sign of life.
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
        """Publish events that are in the journal; a background task's file is written first."""
        if self._outputs is not None and events and self.task.terms.background:
            if self._file is None:
                self._file = TaskOutputFile(output_file(self._outputs, self.lease.task))
            self._file.add(self.task, events)
        self._bus.publish(events)

    def give_sign(self) -> None:
        """Record a sign of life."""
        self.heard = time.monotonic()

    def tell(self, fact: PassingFact) -> None:
        """Publish a passing event, which is not written."""
        self.give_sign()
        self._bus.tell(self.lease.task, fact)

    async def release(self) -> None:
        """Release the lease."""
        await self._journal.release(self.lease)


class Parked:
    """An expected wait: the slot is released, and the task does not count as silent."""

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
