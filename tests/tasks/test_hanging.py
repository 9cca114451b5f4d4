"""A process that hangs, or is suspended, ends nobody's wait but its own: whoever sent its task ends it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from gencode import GenCode, UserMistake
from gencode.app import components
from gencode.core.events import Event, PassingFact, TaskCreated, TaskStalled
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.status import Status, StopCause
from gencode.core.task import transcript_of
from gencode.journal.event_bus import EventListener
from gencode.journal.owner import new_owner
from gencode.journal.store import Ownership
from gencode.stores.memory import MemoryStore
from gencode.tasks import process_engine, remote_task
from gencode.tasks.liveness import LivenessTimeouts, ProcessLiveness, not_ended_in_time, silent_process
from gencode.testing import call, says
from tests.sandbox.processes.living import alive, new_word
from tests.suspending import suspend
from tests.tasks.isolated_agent import LOOK, SLOW, child_of, owner_of, played
from tests.tasks.leases import leases_run_out
from tests.waiting import until

TIMING = LivenessTimeouts(20.0, 60.0)
WAITS = {"stall_seconds": 1.0, "silence_seconds": 2.0}
WHY = "its process gave no sign of life for"


def gone(process: int) -> Callable[[], bool]:
    """Whether a process of ours is there no more."""
    return lambda: not Path(f"/proc/{process}").exists()


async def heard(listener: EventListener) -> list[Event]:
    """What was heard until the listener was closed."""
    listener.close()
    return [event async for event in listener]


@pytest.mark.parametrize("background", [False, True], ids=["waited for", "in the background"])
async def test_a_task_whose_process_hangs_is_timed_out_and_its_sender_told(
    tmp_path: Path, home: Path, background: bool
) -> None:
    words = {"subagent_type": "Explore", "prompt": "look", "isolation": "process"}
    send = call("Task", **words, run_in_background=background)
    main = [says("", send), *([says("meanwhile")] if background else []), says("I go on without it.")]
    model = played(tmp_path, main=main, Explore=[LOOK, SLOW])
    async with asyncio.timeout(60), GenCode.open(tmp_path, model=model, settings=WAITS) as gen:
        listener = gen.listen()
        job = await gen.start_turn("go")
        child = await child_of(gen, job.id)
        hanging = await owner_of(gen, child)
        suspend(hanging)
        leases_run_out(home)
        outcome = await gen.outcome(job)
        lost = await gen.get(child)
        told = transcript_of(await gen.history.events(job.id))
        stalled = [each for each in await heard(listener) if isinstance(each.fact, TaskStalled)]
        left = await components(gen).store.owned()
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "I go on without it.")
    assert (lost.status, lost.result) == (Status.TIMED_OUT, "I look around.")
    assert (lost.error or "").startswith(WHY) and (lost.error or "").endswith("it was killed")
    assert [each.task for each in stalled] == [child]
    answers = [each.text for said in told if isinstance(said, ToolMessage) for each in said.results]
    letters = [said.text for said in told if isinstance(said, UserMessage) and said.delivers]
    assert " timed out" in "\n".join(letters if background else answers)
    assert (gone(hanging)(), left) == (True, [])


async def test_what_the_process_had_started_ends_with_it(tmp_path: Path, home: Path) -> None:
    word = new_word()
    wait = call("Bash", command=f"touch begun; sleep 600; : {word}")
    model = played(tmp_path, **{"general-purpose": [says("", wait)]})
    settings = {**WAITS, "permission_mode": "dontAsk"}
    async with asyncio.timeout(60), GenCode.open(tmp_path, model=model, settings=settings) as gen:
        handle = await gen.task("general-purpose", "go", background=True, isolation="process")
        await until((tmp_path / "begun").exists, "its command runs")
        running = alive(word)
        suspend(await owner_of(gen, handle.id))
        leases_run_out(home)
        outcome = await handle.result()
        await until(lambda: not alive(word), "its command has ended")
    assert (bool(running), outcome.status) == (True, Status.TIMED_OUT)


async def test_a_process_that_hangs_before_it_begins_is_not_waited_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sleeper.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(process_engine, "WORKER", "sleeper")
    monkeypatch.setattr(remote_task, "BEGIN_SECONDS", 0.5)
    model = played(tmp_path, Explore=[LOOK])
    settings = {"stall_seconds": 0.2, "silence_seconds": 0.5}
    async with asyncio.timeout(20), GenCode.open(tmp_path, model=model, settings=settings) as gen:
        with pytest.raises(UserMistake, match="The process for the task did not start within 1 s"):
            await gen.task("Explore", "look", isolation="process")
        assert await components(gen).store.owned() == []


class Leases(MemoryStore):
    """A journal of which a test says whether leases are renewed."""

    renewed = True

    async def owned(self) -> list[Ownership]:
        """The leases, as the test wants them."""
        return [Ownership(each.task, each.owner, not self.renewed) for each in await super().owned()]


class Looks:
    """A process that is looked at by a clock of the test, and what was told of it."""

    def __init__(self, store: Leases, task: str, seconds: float | None) -> None:
        self._now = 0.0
        self.told: list[PassingFact] = []
        told, clock = self.told.append, lambda: self._now
        self._process = ProcessLiveness(store, task, TIMING, seconds=seconds, tell=told, clock=clock)

    async def after(self, *pauses: float) -> StopCause | None:
        """What the last of several looks came to, each after a pause."""
        why = None
        for pause in pauses:
            self._now += pause
            why = await self._process.look()
        return why


@pytest.fixture
async def leases() -> AsyncGenerator[tuple[Leases, str], None]:
    store = Leases()
    yield store, (await store.create(TaskCreated(agent="Explore", prompt="x"), new_owner())).task
    await store.close()


async def test_one_that_lives_may_take_as_long_as_it_may_and_a_little_longer(
    leases: tuple[Leases, str],
) -> None:
    looks = Looks(*leases, seconds=30.0)
    assert await looks.after(*[1.0] * int(30 + TIMING.late - 1)) is None
    assert (await looks.after(1.0), looks.told) == (not_ended_in_time(30.0), [])


async def test_silence_is_told_once_and_ends_with_the_next_sign_of_life(leases: tuple[Leases, str]) -> None:
    store, task = leases
    looks = Looks(store, task, None)
    for _ in range(2):
        store.renewed = False
        assert await looks.after(*[1.0] * 60) is None  # the first of them only begins the silence
        store.renewed = True
        assert await looks.after(1.0) is None
    store.renewed = False
    assert await looks.after(*[1.0] * 61) == silent_process(60.0)
    assert looks.told == [TaskStalled(20.0)] * 3


async def test_who_was_suspended_itself_gives_others_time_to_show_that_they_live(
    leases: tuple[Leases, str],
) -> None:
    store, task = leases
    looks = Looks(store, task, 3_600.0)
    store.renewed = False
    assert (await looks.after(100_000.0), looks.told) == (None, [])
    store.renewed = True
    assert await looks.after(*[TIMING.longest_gap] * 100) is None
