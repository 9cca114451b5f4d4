"""Why nothing happens is said when it has been so for a while, once, and again when it changes."""

from gencode.core.errors import StoreTrouble
from gencode.core.events import PassingFact, ProgressMade
from gencode.delegation.waits import FIRST_SECONDS, LOOK_SECONDS, Waits
from gencode.runtime.fleet import Outlook

NONE = Outlook("no worker is there", "gen worker")
BUSY = Outlook("all workers have enough to do", "gen worker")


class Sent:
    """A task of which this is so, and how often that was looked up."""

    def __init__(self) -> None:
        self.now: Outlook | None = NONE
        self.trouble = False
        self.looked = 0

    async def outlook(self) -> Outlook | None:
        self.looked += 1
        if self.trouble:
            raise StoreTrouble("The database is away.")
        return self.now


class Watched:
    """A sender with a clock of its own."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.sent = Sent()
        self.said: list[PassingFact] = []
        self.waits = Waits(self.said.append, lambda: self.clock)

    async def pass_by(self, seconds: float, *, quiet: bool = True) -> list[PassingFact]:
        """What is said in this time."""
        before, until = len(self.said), self.clock + seconds
        while self.clock < until:
            self.clock += 0.1
            await self.waits.look(self.sent.outlook, quiet=quiet)
        return self.said[before:]


def told(outlook: Outlook) -> list[PassingFact]:
    return [ProgressMade(f"waits for {outlook.words}", note=True)]


async def test_it_is_said_once_and_again_when_it_changes() -> None:
    sender = Watched()
    assert await sender.pass_by(FIRST_SECONDS - 0.2) == []
    assert sender.sent.looked == 0
    assert await sender.pass_by(60) == told(NONE)
    sender.sent.now = BUSY
    assert await sender.pass_by(60) == told(BUSY)
    sender.sent.now = Outlook()
    assert await sender.pass_by(60) == []
    sender.sent.now = BUSY
    assert await sender.pass_by(60) == []


async def test_nothing_is_said_while_something_happens_or_of_what_is_so_for_a_moment() -> None:
    sender = Watched()
    assert await sender.pass_by(60, quiet=False) == []
    sender.sent.now = None
    assert await sender.pass_by(60) == []
    sender.sent.now = NONE
    assert await sender.pass_by(LOOK_SECONDS) == []
    sender.sent.now = None
    assert await sender.pass_by(60) == []


async def test_a_database_that_is_away_is_looked_at_again() -> None:
    sender = Watched()
    sender.sent.trouble = True
    assert await sender.pass_by(60) == []
    sender.sent.trouble = False
    assert await sender.pass_by(60) == told(NONE)


def test_a_worker_that_may_come_at_any_time_is_waited_for_without_a_reason() -> None:
    assert (Outlook().words, NONE.words) == (
        "a worker",
        "a worker: no worker is there (what helps: gen worker)",
    )
