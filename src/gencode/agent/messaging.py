"""The outbox and the scheduled jobs of an open GenCode; both are loaded when first used."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from gencode.channels.address import Address, parse_address
from gencode.core.events import PassingFact, ProgressMade

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gencode.channels.outbox import Outbox
    from gencode.core.rules import Policy
    from gencode.journal.store import Store
    from gencode.schedule.scheduled_jobs import JobCalendar

HERE = "cli"
"""The channel of a conversation that came through no other."""


class PassingEvents(Protocol):
    """Publishes passing events: the bus."""

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        ...

    def tell(self, task: str, fact: PassingFact) -> None:
        """Publish a passing event."""
        ...


class MessagingContext(Struct, frozen=True):
    """What messages and scheduled jobs depend on: folders, the policy, known agents, open tasks."""

    home: Path
    cwd: Path
    policy: "Callable[[], Policy]"
    model: str
    find: "Callable[[str], object]"
    is_open: "Callable[[str], bool]"
    channels: "Mapping[str, Any]" = {}


class Messaging:
    """The outbox and the scheduled jobs of one open GenCode."""

    def __init__(self, store: "Store", screens: PassingEvents, around: MessagingContext) -> None:
        self._store = store
        self._screens = screens
        self._around = around
        self._origins: dict[str, Address] = {}
        if around.channels:  # a mistake in them is reported
            self.outbox.check(Address(HERE, ""))

    @cached_property
    def outbox(self) -> "Outbox":
        """The messages that leave conversations."""
        from gencode.channels.outbox import Outbox, own_channels

        around = self._around
        return Outbox(self._store, own_channels(around.home, self._show, around.channels))

    @cached_property
    def calendar(self) -> "JobCalendar":
        """The scheduled jobs of this folder."""
        from gencode.schedule.scheduled_jobs import JobCalendar, JobContext

        around = self._around
        site = JobContext(
            cwd=str(around.cwd),
            policy=around.policy,
            model=around.model,
            find=around.find,
            reach=lambda text: self.outbox.check(parse_address(text)),
        )
        return JobCalendar(self._store.schedule, site)

    def comes_from(self, task: str, origin: Address) -> None:
        """Record the channel of the person of a conversation."""
        self._origins[task] = origin

    def origin(self, task: str) -> Address:
        """The address of the person of a conversation."""
        return self._origins.get(task) or Address(HERE, task)

    def _show(self, task: str, line: str) -> bool:
        """Show a line in a conversation; False if nobody here would see it."""
        if not self._around.is_open(task) or not self._screens.heard:
            return False
        self._screens.tell(task, ProgressMade(line, note=True))
        return True
