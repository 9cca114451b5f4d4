"""A database that is away for longer than any step waits for it: no result of an agent is lost by that."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from gencode import GenCode
from gencode.agent.stop import Stop
from gencode.app import components
from gencode.core.errors import StoreTrouble, StoreUnavailable
from gencode.core.events import Event, ProgressMade, TaskCreated
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.spec import TaskRequest
from gencode.core.status import Status, WaitFor, stop_cause
from gencode.core.task import transcript_of
from gencode.fleet.fleet_engine import FleetEngine
from gencode.journal.dispatch import Enqueue
from gencode.journal.event_bus import EventBus, EventListener
from gencode.journal.store import TaskQuery
from gencode.settings import gen_home
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.pg_pool import Connection
from gencode.tasks import watch
from gencode.tasks.remote_task import CUT_SHORT, RemoteTask
from gencode.tasks.running_task import RunningTask
from gencode.testing import reported
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet, ended, submit
from tests.waiting import PATIENCE, Gate, until

pytestmark = pytest.mark.needs("postgres")

HASTE = 0.1
"""For so many seconds a step of the sender is tried again, so that the database need not be away for long."""
SENT = {"subagent_type": "general-purpose", "prompt": "go", "isolation": "process"}


class Uncertain(FleetStore):
    """A database that says nothing of one task."""

    silent = ""

    async def events(self, task: str, after: int = 0) -> list[Event]:
        if task == self.silent:
            raise StoreUnavailable("it did not answer")
        return await super().events(task, after)


class Deaf(FleetStore):
    """A database whose first answers that a task is queued are lost."""

    lost = 2

    async def submit(
        self, fact: TaskCreated, order: bytes, enqueue: Enqueue, named: str = "", session: str = ""
    ) -> str:
        task = await super().submit(fact, order, enqueue, named, session)
        self.lost -= 1
        if self.lost >= 0:
            raise StoreUnavailable("it did not answer")
        return task


class Muted(FleetStore):
    """A database that queues everything and of which no answer to that is heard."""

    async def submit(
        self, fact: TaskCreated, order: bytes, enqueue: Enqueue, named: str = "", session: str = ""
    ) -> str:
        await super().submit(fact, order, enqueue, named, session)
        raise StoreUnavailable("it did not answer")

    async def submit_held(self, task: str, keeper: str, order: bytes, enqueue: Enqueue) -> None:
        await super().submit_held(task, keeper, order, enqueue)
        raise StoreUnavailable("it did not answer")


class Late(FleetStore):
    """A database that is away when tasks are woken, or of which then no answer is heard."""

    late = 0
    muted = False

    async def submit_again(self, task: str, order: bytes, enqueue: Enqueue) -> None:
        if self.late:
            self.late -= 1
            raise StoreUnavailable("it did not answer")
        await super().submit_again(task, order, enqueue)

    async def in_transaction(self, write: Callable[[Connection, bool], Awaitable[bool]]) -> bool:
        written = await super().in_transaction(write)
        if self.muted:
            raise StoreUnavailable("it did not answer")
        return written


@asynccontextmanager
async def sending(fleet: Fleet, store: FleetStore) -> AsyncGenerator[tuple[GenCode, RunningTask, Gate]]:
    """A conversation that waits for an agent of a worker, which waits at a gate."""
    gate = Gate(fleet.folder)
    main = [{"calls": [{"name": "Task", "input": SENT}]}, {"text": "main done"}, {"text": "heard"}]
    fleet.write({"main": main, "general-purpose": [{"calls": [gate.call]}, {"text": "sub done"}]})
    fleet.start(1, *PATIENT)
    model, settings = f"scripted:{fleet.folder}/script.json", {"allow": ["Task"]}
    try:
        async with GenCode.open(fleet.folder, model=model, settings=settings, store=store) as gen:
            components(gen).tasks.processes.employ(FleetEngine(store, fleet.folder, {}, gen_home()))
            job = await gen.start_turn("go")
            await until(lambda: len(fleet.owners("running")) == 2, "the agent is at work")
            yield gen, job, gate
    finally:
        await store.close()


async def told(listener: EventListener, words: str = watch.WAITS) -> None:
    async for event in listener:
        if event.fact == ProgressMade(words, note=True, waits_for=WaitFor.DATABASE):
            return
    raise AssertionError("nobody said that the database is away")


def answers(events: list[Event]) -> list[tuple[str, bool, tuple[str, ...]]]:
    """The results of calls, whether they are errors, and which agents they left behind."""
    said = [each for each in transcript_of(events) if isinstance(each, ToolMessage)]
    return [
        (reported(each.text), each.error, each.trace.left) for message in said for each in message.results
    ]


async def test_who_waits_for_an_agent_goes_on_to_wait_when_the_database_was_away(fleet: Fleet) -> None:
    store = await FleetStore.open(fleet.url, patience=HASTE)
    async with sending(fleet, store) as (gen, job, gate):
        listener = gen.listen()
        fleet.postgres.stop()
        try:
            await asyncio.wait_for(told(listener), PATIENCE)
        finally:
            fleet.postgres.start()
        gate.open()
        outcome = await gen.outcome(job)
        assert (outcome.status, outcome.result) == (Status.COMPLETED, "main done")
        assert answers(await store.events(job.id)) == [("sub done", False, ())]


async def test_an_agent_is_queued_once_however_often_the_answer_is_lost(fleet: Fleet) -> None:
    async with sending(fleet, await Deaf.open(fleet.url)) as (gen, job, gate):
        gate.open()
        outcome = await gen.outcome(job)
        assert (outcome.status, outcome.result, len(await gen.tasks(job.id))) == (
            *(Status.COMPLETED, "main done"),
            1,
        )


@pytest.mark.parametrize("away", [300.0, 0.1])
async def test_an_agent_that_may_be_queued_is_called_off_when_nobody_tries_any_more(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, away: float
) -> None:
    monkeypatch.setattr(watch, "AWAY_SECONDS", away)
    store = await Muted.open(fleet.url)
    fleet.write({"main": [{"calls": [{"name": "Task", "input": SENT}]}, {"text": "main done"}]})
    model, settings = f"scripted:{fleet.folder}/script.json", {"allow": ["Task"]}
    async with GenCode.open(fleet.folder, model=model, settings=settings, store=store) as gen:
        components(gen).tasks.processes.employ(FleetEngine(store, fleet.folder, {}, gen_home()))
        job = await gen.start_turn("go")
        await until(lambda: len(fleet.rows("SELECT id FROM gen_task")) == 2, "the agent is queued")
        if away > 1:
            job.stop.stop(stop_cause("enough"))
        await gen.outcome(job)
        [sub] = await gen.history.tasks(TaskQuery(parent=job.id))
        assert (sub.status, sub.end.reason) == (Status.CANCELLED, CUT_SHORT.reason)
    await store.close()


async def test_an_agent_that_waited_for_its_turn_and_may_be_queued_is_called_off_by_a_stop(
    fleet: Fleet,
) -> None:
    store = await Muted.open(fleet.url)
    lease = await store.create(TaskCreated(agent="Explore"), "keeper")

    async def nowhere(_connection: object, _task: str) -> None:
        """No queue is needed."""

    async def begin() -> NoReturn:
        await store.submit_held(lease.task, "keeper", b"{}", nowhere)
        raise AssertionError("no answer comes")

    async def queued() -> bool:
        found = await store.dispatched(lease.task)
        return found is not None and found.order is not None

    remote = RemoteTask(lease.state, stop := Stop(), store, EventBus(store.events), begin=begin, lease=lease)
    following = asyncio.ensure_future(remote.follow("keeper"))
    await until(queued, "it is queued")
    stop.stop(stop_cause("enough"))
    await following
    assert (remote.task.status, remote.task.end.error) == (Status.CANCELLED, "enough")
    await store.close()


async def test_the_result_of_an_agent_that_could_not_be_followed_any_more_comes_by_itself(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "AWAY_SECONDS", 0.5)
    store = await Uncertain.open(fleet.url)
    async with sending(fleet, store) as (gen, job, gate):
        [sub] = [each.agent_id for each in await gen.tasks(job.id)]
        store.silent = sub
        outcome = await gen.outcome(job)
        [(text, error, left)] = answers(await store.events(job.id))
        assert (outcome.result, text.partition(".")[0], error, left) == (
            *("main done", f"general-purpose is running in the background as task {sub}", False),
            (sub,),
        )
        store.silent = ""
        gate.open()
        await gen.history.ended(sub, PATIENCE)
        again = await gen.outcome(await gen.start_turn("next", job.id))
        said = [
            reported(each.text)
            for each in transcript_of(await store.events(job.id))
            if isinstance(each, UserMessage)
        ]
        news = f"[The background task {sub} of general-purpose has finished]\nsub done"
        assert (again.result, said) == ("heard", ["go", "next", news])


@asynccontextmanager
async def opened(fleet: Fleet, store: FleetStore) -> AsyncGenerator[GenCode]:
    """Somebody who gives to the workers of a fleet what nobody waits for."""
    fleet.write({"*": [{"text": "done"}, {"text": "done again"}]})
    try:
        async with GenCode.open(
            fleet.folder, model=f"scripted:{fleet.folder}/script.json", store=store
        ) as gen:
            components(gen).tasks.processes.employ(FleetEngine(store, fleet.folder, {}, gen_home()))
            yield gen
    finally:
        await store.close()


async def test_what_nobody_waits_for_is_queued_too_when_the_database_is_there_again(fleet: Fleet) -> None:
    async with opened(fleet, await FleetStore.open(fleet.url, patience=HASTE)) as gen:
        await submit(gen, 1, "Explore")
        listener = gen.listen()
        fleet.postgres.stop()
        try:
            giving = asyncio.ensure_future(
                components(gen).tasks.service.detach(TaskRequest("Explore", "look"))
            )
            await asyncio.wait_for(told(listener, watch.QUEUES), PATIENCE)
        finally:
            fleet.postgres.start()
        found = await gen.find(await giving)
        assert (found.created.prompt, len(await gen.tasks())) == ("look", 2)


async def test_a_task_is_woken_once_when_the_database_is_there_again(fleet: Fleet) -> None:
    async with opened(fleet, store := await Late.open(fleet.url)) as gen:
        fleet.start(1, *PATIENT)
        [task] = await submit(gen, 1, "Explore")
        await ended(gen, [task])
        store.late = 2
        await components(gen).tasks.service.detach(TaskRequest("", "again", resume=task, background=True))
        found = await gen.history.ended(task, PATIENCE)
        assert (found.result, found.totals.turns, store.late) == ("done again", 2, 0)


async def test_a_task_of_which_nobody_knows_whether_it_was_woken_is_not_woken_again(fleet: Fleet) -> None:
    async with opened(fleet, store := await Late.open(fleet.url)) as gen:
        fleet.start(1, *PATIENT)
        [task] = await submit(gen, 1, "Explore")
        await ended(gen, [task])
        store.muted = True
        with pytest.raises(StoreTrouble, match=f"Whether task {task} was queued before that is not known"):
            await components(gen).tasks.service.detach(TaskRequest("", "again", resume=task, background=True))
        store.muted = False
        found = await gen.history.ended(task, PATIENCE)
        assert (found.result, found.totals.turns) == ("done again", 2)


async def test_an_agent_whose_sender_is_stopped_while_the_database_is_away_is_called_off_later(
    fleet: Fleet,
) -> None:
    store = await FleetStore.open(fleet.url, patience=HASTE)
    async with sending(fleet, store) as (gen, job, _):
        [sub] = [each.agent_id for each in await gen.tasks(job.id)]
        remote = gen.running.find(sub)
        assert isinstance(remote, RemoteTask)
        fleet.postgres.stop()
        try:
            await remote.halt(stop_cause("enough"))
            await remote.wait(PATIENCE)
            assert gen.running.find(sub) is None
        finally:
            fleet.postgres.start()
        found = await gen.history.ended(sub, PATIENCE)
        assert (found.status, found.result) == (Status.CANCELLED, "")
