"""Why nothing happens is said when it has been so for a while, once, and again when it changes."""

from gencode.core.errors import StoreTrouble
from gencode.core.events import PassingFact, ProgressMade
from gencode.core.status import WaitFor
from gencode.journal.dispatch import MissingWorker, NoWorkerReason
from gencode.tasks.deadline import UnclaimedTimer
from gencode.tasks.watch import OUTLOOK_SECONDS, QUIET_SECONDS, WorkerWait

HOPELESS = MissingWorker(NoWorkerReason.NONE_THERE, most=10.0)
NONE = MissingWorker(NoWorkerReason.NONE_THERE)
UNCLEAR = MissingWorker(NoWorkerReason.NONE_THERE, most=10.0, unclear=True)
BUSY = MissingWorker(NoWorkerReason.BUSY)


class Sent:
    """A task of which this is so, and how often that was looked up."""

    def __init__(self) -> None:
        self.now: MissingWorker | None = NONE
        self.trouble = False
        self.looked = 0

    async def missing_worker(self) -> MissingWorker | None:
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
        self.waits = WorkerWait(self.said.append, lambda: self.clock)
        self.ends: list[float] = []
        """When it was to be ended."""

    async def pass_by(self, seconds: float, *, quiet: bool = True) -> list[PassingFact]:
        """What is said in this time."""
        before, until = len(self.said), self.clock + seconds
        while self.clock < until:
            self.clock += 0.1
            if why := await self.waits.look(self.sent.missing_worker, quiet=quiet):
                assert why == HOPELESS.end
                self.ends.append(self.clock)
        return self.said[before:]


def told(missing_worker: MissingWorker) -> list[PassingFact]:
    return [ProgressMade(f"waits for {missing_worker.words}", note=True, waits_for=WaitFor.WORKER)]


async def test_it_is_said_once_and_again_when_it_changes() -> None:
    sender = Watched()
    assert await sender.pass_by(QUIET_SECONDS - 0.2) == []
    assert sender.sent.looked == 0
    assert await sender.pass_by(60) == told(NONE)
    sender.sent.now = BUSY
    assert await sender.pass_by(60) == told(BUSY)
    sender.sent.now = MissingWorker()
    assert await sender.pass_by(60) == []
    sender.sent.now = BUSY
    assert await sender.pass_by(60) == []


async def test_nothing_is_said_while_something_happens_or_of_what_is_so_for_a_moment() -> None:
    sender = Watched()
    assert await sender.pass_by(60, quiet=False) == []
    sender.sent.now = None
    assert await sender.pass_by(60) == []
    sender.sent.now = NONE
    assert await sender.pass_by(OUTLOOK_SECONDS) == []
    sender.sent.now = None
    assert await sender.pass_by(60) == []


async def test_a_database_that_is_away_is_looked_at_again() -> None:
    sender = Watched()
    sender.sent.trouble = True
    assert await sender.pass_by(60) == []
    sender.sent.trouble = False
    assert await sender.pass_by(60) == told(NONE)


def test_a_worker_that_may_come_at_any_time_is_waited_for_without_a_reason() -> None:
    assert (MissingWorker().words, NONE.words) == (
        "a worker",
        "a worker: no worker is running (to fix this: gen worker)",
    )


async def test_a_task_that_no_worker_can_take_is_to_end_when_that_has_lasted_as_long_as_it_may_take() -> None:
    sender = Watched()
    sender.sent.now = HOPELESS
    text = f"waits for {HOPELESS.words}; if none comes within 10 s, it ends"
    assert await sender.pass_by(QUIET_SECONDS + 9.9) == [
        ProgressMade(text, note=True, waits_for=WaitFor.WORKER)
    ]
    assert sender.ends == []
    await sender.pass_by(3 * OUTLOOK_SECONDS)
    assert len(sender.ends) > 1  # who was refused tries again
    sender.sent.now = BUSY
    sender.ends.clear()
    await sender.pass_by(100)
    assert sender.ends == []


async def test_the_wait_begins_anew_when_a_worker_could_take_it_or_something_is_heard_of_it() -> None:
    sender = Watched()
    for now in (BUSY, MissingWorker(), None):
        sender.sent.now = HOPELESS
        await sender.pass_by(QUIET_SECONDS + 8)
        sender.sent.now = now
        await sender.pass_by(2 * OUTLOOK_SECONDS)
    sender.sent.now = HOPELESS
    await sender.pass_by(QUIET_SECONDS + 8)
    await sender.pass_by(0.1, quiet=False)
    await sender.pass_by(QUIET_SECONDS + 8)
    assert sender.ends == []


async def test_the_wait_stands_still_while_the_database_is_away() -> None:
    sender = Watched()
    sender.sent.now = HOPELESS
    await sender.pass_by(QUIET_SECONDS + 6)
    sender.sent.trouble = True
    await sender.pass_by(600)
    sender.sent.trouble = False
    await sender.pass_by(3)
    assert sender.ends == []
    await sender.pass_by(6)
    assert sender.ends


async def test_the_wait_stands_still_and_nothing_is_said_again_while_a_worker_is_too_busy_to_look() -> None:
    sender = Watched()
    for _ in range(3):
        sender.sent.now = HOPELESS
        await sender.pass_by(QUIET_SECONDS + 2)
        sender.sent.now = UNCLEAR
        await sender.pass_by(600)
    assert (sender.ends, len(sender.said)) == ([], 1)
    sender.sent.now = HOPELESS
    await sender.pass_by(6)
    assert sender.ends


def test_a_time_in_which_nobody_looked_does_not_count() -> None:
    now = [0.0]
    timer = UnclaimedTimer(lambda: now[0])
    told: list[bool] = []
    for passed in (0.0, 6.0, UnclaimedTimer.LONGEST_GAP + 1, 3.0, 1.0):
        now[0] += passed
        told.append(timer.is_over(HOPELESS))
    assert told == [False, False, False, False, True]
