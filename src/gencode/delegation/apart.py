"""Tasks in processes of their own: bound to whoever sent them, or detached so that they outlive it."""

from functools import reduce

from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskCreated
from gencode.core.task import Task, fold
from gencode.delegation.remote import Remote
from gencode.delegation.supervisor import Supervisor
from gencode.runtime.bus import Bus
from gencode.runtime.models import Model
from gencode.runtime.ports import Elsewhere, Engine, Handover, Store
from gencode.runtime.purse import Purse
from gencode.runtime.stop import Stop

NOT_HERE = (
    "A process of its own needs what it can open itself: a journal on disk, a model with a name and no tools "
    "but GenCode's. Run the task in this process instead."
)


class Apart:
    """Hands tasks over to other processes. Without an engine there are none."""

    def __init__(self, store: Store, bus: Bus, supervisor: Supervisor, engine: Engine | None = None) -> None:
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._engine = engine

    @property
    def possible(self) -> bool:
        """Whether there can be other processes at all."""
        return self._engine is not None

    async def bind(self, handover: Handover, stop: Stop, purse: Purse | None = None) -> Remote:
        """Run a task in a process that ends with this one; what happens there is heard here."""
        process = await self._start(handover)
        events = await self._store.events(process.task)
        remote = Remote(_told(events, process.task), stop, process, self._store, self._bus)
        remote.purse = purse
        self._bus.publish(events)
        self._supervisor.watch(remote, lambda: remote.follow(self._supervisor.owner))
        return remote

    async def detach(self, handover: Handover) -> str:
        """Run a task in a process that goes on without this one; its id, once it has begun."""
        return (await self._start(handover)).task

    async def _start(self, handover: Handover) -> Elsewhere:
        if self._engine is None:
            raise UserMistake(NOT_HERE)
        return await self._engine.start(handover)


def new_task(created: TaskCreated, model: Model, seconds: float | None, *, bound: bool) -> Handover:
    """A new task for a process of its own."""
    return Handover(
        model=model.lasting,
        created=created,
        seconds=seconds,
        effort=model.effort,
        warnings=model.warnings,
        background=created.background,
        bound=bound,
    )


def _told(events: list[Event], task: str) -> Task:
    state = reduce(fold, events, None)
    if state is None:
        raise UserMistake(f"Task {task} is not in the journal that its process was told to use.")
    return state
