"""Agents whose sender was killed: nothing is begun or goes on that nobody waits for, and nothing is lost."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.messages import Message, UserMessage
from gencode.core.status import PARENT_GONE, EndReason, Status
from gencode.core.task import transcript_of
from gencode.stores.pg_fleet import CLOSED_SECONDS, FleetStore
from gencode.testing import reported
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import start
from tests.waiting import PATIENCE, until, wait_until

pytestmark = pytest.mark.needs("postgres")

SLOW = {"text": "found it", "delay_ms": 90_000}
AT_REST = """
import asyncio, sys
from gencode import GenCode

async def main(cwd, model, url):
    async with GenCode.open(cwd, model=model, settings={"database_url": url}) as gen:
        turn = await gen.start_turn("go")
        await asyncio.to_thread(sys.stdin.readline)
        await gen.interrupt(turn.id)
        await gen.outcome(turn)
        print(turn.id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""
"""A process whose turn is interrupted when it hears a line, as with Esc in the app, and that then rests."""


def script(fleet: Fleet, agent: str, *turns: dict[str, Any], **sends: bool) -> str:
    """Main sends one agent to the workers."""
    sent = {"subagent_type": agent, "prompt": "look", "isolation": "process", **sends}
    words = [{"text": f"word {number}"} for number in range(4)]
    main = [{"calls": [{"name": "Task", "input": sent}]}, *(words if not sends else [SLOW, *words])]
    path = fleet.folder / f"{agent}.json"
    path.write_text(json.dumps({"agents": {"main": main, agent: turns}}))
    return f"scripted:{path}"


async def killed(fleet: Fleet, agent: str, model: str, status: str = "pending") -> tuple[str, str]:
    """A conversation whose process was killed when its agent was so far, and that agent's task."""
    sender = start("-p", "go", "--model", model, cwd=fleet.folder, GEN_DATABASE_URL=fleet.url)

    def sent() -> list[list[str]]:
        asked = "SELECT parent, id FROM gen_task WHERE dispatch IS NOT NULL"
        return fleet.rows(f"{asked} AND agent = '{agent}' AND status = '{status}'")

    await until(lambda: bool(sent()), f"its agent is {status}")
    sender.send_signal(signal.SIGKILL)
    sender.communicate()
    [[session, task]] = sent()
    return session, task


def state(fleet: Fleet, task: str) -> str:
    return dict(row for row in fleet.rows("SELECT id, status FROM gen_task"))[task]


def long_ago(fleet: Fleet) -> None:
    """Let the conversations have ended long ago, so that nobody is about to go on with them."""
    fleet.rows("UPDATE gen_task SET ended_at = '2020-01-01T00:00:00Z' WHERE ended_at IS NOT NULL")


async def test_what_nobody_waits_for_any_more_is_interrupted_and_can_go_on(fleet: Fleet) -> None:
    model = script(fleet, "Explore", {"text": "found it"})
    session, task = await killed(fleet, "Explore", model)
    where = {"GEN_DATABASE_URL": fleet.url}
    fleet.start(1, *PATIENT)  # like everybody who opens the journal it closes what belongs to the dead
    await until(lambda: state(fleet, session) == "interrupted", "the conversation is closed")
    assert state(fleet, task) == "pending"
    long_ago(fleet)
    await until(lambda: state(fleet, task) == "interrupted", "nobody goes on with the conversation")
    again = command("-p", "go on", "--resume", session, "--model", model, cwd=fleet.folder, **where)
    assert again.code == 0, again.err
    fleet.write({"Explore": [{"text": "found it"}]})
    async with fleet.open() as gen:
        found = await gen.find(task)
        assert (found.status, found.end.reason) == (Status.INTERRUPTED, EndReason.PARENT_GONE)
        assert not [each for each in await gen.history.events(task) if isinstance(each.fact, TaskStarted)]
        told = transcript_of(await gen.history.events(session))
        outcome = await gen.resume(task, "begin after all")
        messages = transcript_of(await gen.history.events(task))
    assert deliveries(told) == [
        (f"[The background task {task} of Explore was interrupted: {PARENT_GONE}]\n(no output)", (task,))
    ]
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "found it")
    heard = [each.text for each in messages if isinstance(each, UserMessage) and each.sender == "user"]
    assert heard == ["look", "begin after all"]


def deliveries(told: Sequence[Message]) -> list[tuple[str, tuple[str, ...]]]:
    found = [each for each in told if isinstance(each, UserMessage) and each.delivers]
    return [(reported(each.text), each.delivers) for each in found]


async def test_who_goes_on_with_the_conversation_gets_what_the_agent_comes_to(fleet: Fleet) -> None:
    model = script(fleet, "Explore", {"text": "found it"})
    session, task = await killed(fleet, "Explore", model)
    where = {"GEN_DATABASE_URL": fleet.url}
    again = start("-p", "go on", "--resume", session, "--model", model, cwd=fleet.folder, **where)
    await until(lambda: state(fleet, session) == "running", "the conversation goes on")
    assert state(fleet, task) == "pending"
    fleet.start(1, *PATIENT)
    _, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    async with fleet.open() as gen:
        told = transcript_of(await gen.history.events(session))
    assert deliveries(told) == [(f"[The background task {task} of Explore has finished]\nfound it", (task,))]


async def test_only_a_sender_that_died_takes_its_agents_along_and_none_whose_turn_was_interrupted(
    fleet: Fleet,
) -> None:
    fleet.start(1, "--lease-seconds", "5")
    _, left = await killed(fleet, "Explore", script(fleet, "Explore", SLOW), "running")
    model, named = script(fleet, "Plan", SLOW, run_in_background=True), {"database_url": fleet.url}
    async with GenCode.open(fleet.folder, model=model, settings=named) as gen:
        turn = await gen.start_turn("go")
        await until(lambda: fleet.owners("running").keys() - {left, turn.id}, "its agent runs")
        [kept] = fleet.owners("running").keys() - {left, turn.id}
        await gen.interrupt(turn.id)
        assert (await gen.outcome(turn)).status is Status.CANCELLED
        long_ago(fleet)
        await until(lambda: state(fleet, left) != "running", "the worker has looked who waits")
        stopped, goes_on = await gen.find(left), await gen.find(kept)
    assert (stopped.status.ended, stopped.end.reason) == (True, EndReason.PARENT_GONE)
    assert (goes_on.status, goes_on.agent) == (Status.RUNNING, "Plan")


def rested(fleet: Fleet, model: str) -> str:
    """A conversation whose turn was interrupted, and whose process was killed afterwards."""
    words = [sys.executable, "-c", AT_REST, str(fleet.folder), model, fleet.url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdin is not None and host.stdout is not None
            out = "SELECT 1 FROM gen_task WHERE dispatch IS NOT NULL"
            wait_until(lambda: fleet.rows(out), "it has sent an agent")
            host.stdin.write("Esc\n")
            host.stdin.flush()
            return host.stdout.readline().strip()
        finally:
            host.kill()


async def test_what_a_conversation_at_rest_has_out_works_on_when_its_process_is_killed(fleet: Fleet) -> None:
    model = script(fleet, "Explore", {"text": "found it"}, run_in_background=True)
    session = rested(fleet, model)
    [[task, parent]] = fleet.rows("SELECT id, parent FROM gen_task WHERE agent = 'Explore'")
    assert (parent, state(fleet, session), state(fleet, task)) == (session, "cancelled", "pending")
    long_ago(fleet)
    fleet.start(1, *PATIENT)
    await until(lambda: state(fleet, task) == "completed", "its agent has come to an end")
    model = script(fleet, "Plan")
    again = command(
        *("-p", "go on", "--resume", session, "--model", model), cwd=fleet.folder, GEN_DATABASE_URL=fleet.url
    )
    assert again.code == 0, again.err
    async with fleet.open() as gen:
        told = transcript_of(await gen.history.events(session))
    assert deliveries(told) == [(f"[The background task {task} of Explore has finished]\nfound it", (task,))]


async def test_a_sender_that_stood_still_past_its_lease_is_only_gone_after_a_while(fleet: Fleet) -> None:
    async with fleet.open() as gen:
        store = components(gen).store
        assert isinstance(store, FleetStore)
        task = (await store.create(TaskCreated(agent="main"), "nobody-who-renews")).task
        gone: list[tuple[bool, bool]] = []
        for ago in (-60, CLOSED_SECONDS / 2, 2 * CLOSED_SECONDS):
            past = "UPDATE gen_task SET lease_until = clock_timestamp()"
            fleet.rows(f"{past} - make_interval(secs => {ago})")
            found = await store.deserted([task], 0), await store.deserted([task], silent=CLOSED_SECONDS)
            gone.append((task in found[0], task in found[1]))
    assert gone == [(False, False), (True, False), (True, True)]
