"""A process that hangs or is suspended, as others see it: what it runs is stalled, and there is a way out."""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.interfaces.http.serving import served, take
from tests.sandbox.processes.living import alive, new_word
from tests.stories.agent_file import write_agent
from tests.stories.detached_agent import LOOK, SLOW, WITH_BASH, begun, wait_for, worker_of
from tests.stories.process_end import NEEDS_PROC, is_gone
from tests.suspending import suspend
from tests.waiting import Gate, wait_until

from gencode.app import GenCode, components
from gencode.core.status import Status
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.journal.store import TaskQuery
from gencode.tasks.crash_recovery import close_hung_process
from gencode.tasks.liveness import FolderLiveness, LivenessTimeouts
from gencode.testing import call, says

pytestmark = NEEDS_PROC
TIMING = LivenessTimeouts(20.0, 60.0)
SILENT = 200
LEASE = 15
RAN_OUT = """
UPDATE gen_task SET lease_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) WHERE owner IS NOT NULL
"""


@contextmanager
def suspended(home: Path, process: int) -> Generator[None, None, None]:
    """A process that stands still, and has for a while; it goes on afterwards, if it is there."""
    suspend(process)
    with closing(sqlite3.connect(home / ".gen" / "gencode.db")) as database, database:
        database.execute(RAN_OUT, (f"-{SILENT} seconds",))
    try:
        yield
    finally:
        if Path(f"/proc/{process}").exists():
            os.kill(process, signal.SIGCONT)


def slow_one(folder: Path, home: Path, *words: str, agent: str = "Explore") -> tuple[str, int]:
    """A detached task whose agent has looked around and waits for its model, and its process."""
    task = begun(folder, script(folder, others=[LOOK, SLOW]), *words, agent=agent)["agentId"]
    wait_for(folder, task, turns=1)
    return task, worker_of(home, task)


async def test_what_a_suspended_process_runs_is_stalled_wherever_it_is_listed_until_it_goes_on(
    tmp_path: Path, home: Path
) -> None:
    task, process = slow_one(tmp_path, home)
    with suspended(home, process):
        listed, shown = gen("task", "list", cwd=tmp_path), gen("task", "show", task, cwd=tmp_path)
        (told,) = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
        patient = gen("task", "list", cwd=tmp_path, GEN_STALL_SECONDS="500")
        async with served(tmp_path) as site, site.client.stream("/api/stream") as stream:
            heard = (await take(stream, lambda each: each.type == "TaskStalled"))[-1].data
            (over_http,) = (await site.client.get("/api/tasks")).json["tasks"]
            tree = (await site.client.get(f"/api/tasks/{task}/tree")).json["tasks"]
    way = f"{task} (Explore): process {process} is suspended. Continue it: kill -CONT {process}."
    for each in (listed.out, shown.out):
        assert "running (stalled, no activity for 2" in each
    for each in (listed.err, shown.out):
        assert f"{way} Or stop it: gen task stop {task}\n" in each
    for each in (told, over_http, *tree):
        assert (each["status"], SILENT + LEASE <= each["stalledSeconds"] < SILENT + SECONDS) == (
            "running",
            True,
        )
    assert (heard["task"], heard["seconds"] >= SILENT + LEASE) == (task, True)
    assert ("stalled" in patient.out, patient.err) == (False, "")
    wait_until(
        lambda: "stalledSeconds" not in gen("task", "list", "--json", cwd=tmp_path).out,
        "it gives a sign of life again",
    )
    assert gen("task", "stop", task, cwd=tmp_path).code == 0


def test_a_stop_ends_a_task_whose_process_is_suspended_and_the_process_with_what_it_started(
    tmp_path: Path, home: Path
) -> None:
    word = new_word()
    command = {"name": "Bash", "input": {"command": f"touch begun; sleep 600; : {word}"}}
    model = script(tmp_path, others=[{"text": "I look.", "calls": [command]}])
    task = begun(tmp_path, model, "--permission-mode", "dontAsk", agent=WITH_BASH)["agentId"]
    wait_until((tmp_path / "begun").exists, "its command runs")
    process = worker_of(home, task)
    assert alive(word)
    with suspended(home, process):
        stopped = gen("task", "stop", task, cwd=tmp_path)
        assert is_gone(process)
    assert stopped.out == f"Task {task} of {WITH_BASH} was stopped after 1 turn and is now interrupted.\n"
    wait_until(lambda: not alive(word), "its command has ended")
    told = gen("task", "show", task, "--json", cwd=tmp_path).json
    assert (told["status"], told["error"]) == (
        "interrupted",
        "it was stopped, and its process did not answer",
    )
    script(tmp_path, others=[{"text": "once more"}, {"text": "now I know"}])
    assert gen("task", "resume", task, "go on", cwd=tmp_path).code == 0


def test_a_suspended_conversation_is_named_with_its_agents_and_no_stop_of_one_ends_its_process(
    tmp_path: Path, home: Path
) -> None:
    pipe = Gate(tmp_path)
    main = [says("", call("Task", subagent_type=WITH_BASH, prompt="look")), says("the whole answer")]
    model = script(tmp_path, main=main, others=[says("", pipe.call), says("never")])
    leader = start("-p", "go", "--model", model, "--json", cwd=tmp_path)
    wait_until(lambda: running(tmp_path) == 2, "the agent is at work")
    with suspended(home, leader.pid):
        tree = gen("task", "list", "--tree", cwd=tmp_path)
        (agent,) = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
        stopped = gen("task", "stop", agent["agentId"], cwd=tmp_path)
        here = not is_gone(leader.pid)
    pipe.open()
    said, _ = leader.communicate(timeout=SECONDS)
    session = agent["parentId"]
    assert (tree.out.count("(stalled, no activity for 2"), len(tree.err.splitlines())) == (2, 1)
    way = "is suspended. Continue it: fg in its terminal. Or stop it: gen task stop"
    assert tree.err == f"{session} (main): process {leader.pid} {way} {session}\n"
    assert (stopped.code, here, leader.returncode) == (0, True, 0)
    assert json.loads(said)["result"] == "the whole answer"


async def test_who_waits_in_line_in_a_suspended_process_is_stalled_like_those_before_it(
    tmp_path: Path, home: Path
) -> None:
    pipe = Gate(tmp_path)
    sends = [call("Task", subagent_type=WITH_BASH, prompt=f"look {number}") for number in range(2)]
    main, others = [says("", *sends), says("the whole answer")], [says("", pipe.call), says("never")]
    model = script(tmp_path, main=main, others=others)
    leader = start("-p", "go", "--model", model, "--json", cwd=tmp_path, GEN_MAX_AGENTS="1")
    wait_until(lambda: " (1st in the queue) " in gen("task", "list", cwd=tmp_path).out, "one waits")
    with suspended(home, leader.pid):
        listed = gen("task", "list", cwd=tmp_path)
        at_work, waits = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
        shown = gen("task", "show", waits["agentId"], cwd=tmp_path).out
        async with served(tmp_path) as site, site.client.stream("/api/stream") as stream:
            heard = await take(stream, lambda each: each.data.get("task") == waits["agentId"])
            over_http = (await site.client.get(f"/api/tasks/{waits['agentId']}")).json
        stopped = gen("task", "stop", waits["agentId"], cwd=tmp_path)
    pipe.open()
    said, _ = leader.communicate(timeout=SECONDS)
    way = f"process {leader.pid} is suspended. Continue it: fg in its terminal. Or stop it: gen task stop"
    named = f"{at_work['agentId']} ({WITH_BASH}) and 1 more"
    assert listed.err == f"{named}: {way} {at_work['agentId']}\n"
    assert f"  stalled       {waits['agentId']} ({WITH_BASH}): {way} {waits['agentId']}\n" in shown
    for each in (listed.out, shown):
        assert "pending (1st in the queue, stalled, no activity for 2" in each
    for each in (waits, over_http):
        told = each["status"], each["queuePosition"], each["stalledSeconds"] >= SILENT + LEASE
        assert told == ("pending", 1, True)
    assert (heard[-1].type, heard[-1].data["seconds"] >= SILENT + LEASE) == ("TaskStalled", True)
    assert (stopped.code, "is now interrupted" in stopped.out) == (0, True)
    assert json.loads(said)["result"] == "the whole answer"


def running(folder: Path) -> int:
    """So many tasks are at work, conversations too."""
    return gen("task", "list", "--tree", cwd=folder).out.count(" running ")


class Looks:
    """Looks at a folder by a clock of the test, and closes what hangs there."""

    def __init__(self, opened: GenCode, root: Path) -> None:
        self._now = 0.0
        self._store = components(opened).store
        self._folder = FolderLiveness(components(opened).store, root, TIMING, clock=lambda: self._now)

    async def after(self, *pauses: float) -> None:
        """Look several times, each after a pause."""
        for pause in pauses:
            self._now += pause
            for hanging in await self._folder.look():
                await close_hung_process(self._store, hanging)


async def test_a_detached_task_whose_process_hangs_is_timed_out_by_whoever_saw_it_hang_for_long(
    tmp_path: Path, home: Path
) -> None:
    task, process = slow_one(tmp_path, home)
    with suspended(home, process):
        async with GenCode.open(tmp_path) as opened:
            elsewhere, here = Looks(opened, tmp_path / "other"), Looks(opened, tmp_path)
            await elsewhere.after(*[TIMING.longest_gap] * 20)
            await here.after(100_000.0, *[TIMING.longest_gap] * 11)  # as if the machine had slept
            before = (await opened.get(task)).status, is_gone(process)
            await here.after(TIMING.longest_gap)
            after, left = await opened.get(task), await components(opened).store.owned()
        assert (before, is_gone(process), left) == ((Status.RUNNING, False), True, [])
    why = "its process gave no sign of life for 60 s; it was killed"
    assert (after.status, after.error, after.result) == (Status.TIMED_OUT, why, "I look around.")


@pytest.mark.parametrize("said", ["in the call", "in its file"])
async def test_a_detached_task_whose_process_hangs_has_no_more_time_than_it_was_given(
    tmp_path: Path, home: Path, said: str
) -> None:
    write_agent(home, "hurried", "Glob", more="budget:\n  seconds: 30\n")
    words, agent = (("--max-seconds", "30"), "Explore") if said == "in the call" else ((), "hurried")
    task, process = slow_one(tmp_path, home, *words, agent=agent)
    with suspended(home, process):
        async with GenCode.open(tmp_path) as opened:
            looks = Looks(opened, tmp_path)
            await looks.after(*[TIMING.longest_gap] * 9)
            before = (await opened.get(task)).status
            await looks.after(TIMING.longest_gap)
            after = await opened.get(task)
        assert (before, is_gone(process)) == (Status.RUNNING, True)
    why = "it took longer than 30 s, and its process did not end it; it was killed"
    assert (after.status, after.error) == (Status.TIMED_OUT, why)


@pytest.mark.parametrize(("words", "looks"), [((), 13), (("--max-seconds", "30"), 10)])
async def test_with_a_detached_task_those_are_timed_out_that_wait_in_line_in_its_process(
    tmp_path: Path, home: Path, words: tuple[str, ...], looks: int
) -> None:
    write_agent(home, "lead", "Task(Explore)")
    (home / ".gen" / "settings.toml").write_text("max_depth = 2\nmax_agents = 1\n")
    hurried = {"subagent_type": "Explore", "budget": {"seconds": 20}}  # it ends nothing but itself
    sends = [call("Task", prompt=f"look {number}", **hurried) for number in range(2)]
    model = script(tmp_path, lead=[says("I send two.", *sends)], Explore=[LOOK, SLOW])
    process = worker_of(home, begun(tmp_path, model, *words, agent="lead")["agentId"])
    wait_until(lambda: " (1st in the queue) " in gen("task", "list", cwd=tmp_path).out, "one waits")
    with suspended(home, process):
        async with GenCode.open(tmp_path) as opened:
            await Looks(opened, tmp_path).after(*[TIMING.longest_gap] * looks)
            ended = [each.status for each in await opened.history.tasks(TaskQuery())]
        assert (ended, is_gone(process)) == ([Status.TIMED_OUT] * 3, True)


@pytest.mark.parametrize("place", ["a server", "a conversation"])
async def test_a_server_and_an_open_conversation_end_what_hangs_in_their_folder(
    tmp_path: Path, home: Path, place: str
) -> None:
    (task, process), waits = slow_one(tmp_path, home), {"stall_seconds": 0.5, "silence_seconds": 1.0}
    with suspended(home, process):
        if place == "a server":
            async with served(tmp_path, settings=waits) as site:
                ended = await site.client.until(f"/api/tasks/{task}", lambda now: now["status"] != "running")
        else:
            async with GenCode.open(tmp_path, settings=waits) as opened:
                listening = asyncio.create_task(ChatSession(opened).listen())
                ended = msgspec.to_builtins(
                    await opened.history.outcome(await opened.history.ended(task, SECONDS))
                )
                listening.cancel()
        wait_until(lambda: is_gone(process), "its process has ended")
    assert (ended["status"], ended["error"].startswith("its process gave no sign of life")) == (
        "timed_out",
        True,
    )


async def test_who_wakes_up_in_time_and_a_conversation_that_a_person_suspended_are_left_alone(
    tmp_path: Path, home: Path
) -> None:
    pipe = Gate(tmp_path)
    model = script(tmp_path, main=[says("", pipe.call), says("the whole answer")], Explore=[LOOK, SLOW])
    leader = start("-p", "go", "--model", model, "--json", cwd=tmp_path)
    task = begun(tmp_path, model)["agentId"]
    wait_for(tmp_path, task, turns=1)
    wait_until(lambda: running(tmp_path) == 2, "the conversation is at work")
    async with GenCode.open(tmp_path) as opened:
        looks = Looks(opened, tmp_path)
        with suspended(home, leader.pid):
            with suspended(home, worker_of(home, task)):
                await looks.after(*[TIMING.longest_gap] * 12)
            wait_until(
                lambda: "stalledSeconds" not in gen("task", "list", "--json", cwd=tmp_path).out,
                "it has woken up",
            )
            await looks.after(*[TIMING.longest_gap] * 100)
            statuses = [each.status for each in await opened.history.tasks(TaskQuery())]
    assert statuses == [Status.RUNNING] * 2
    pipe.open()
    said, _ = leader.communicate(timeout=SECONDS)
    assert json.loads(said)["result"] == "the whole answer"
    assert gen("task", "stop", task, cwd=tmp_path).code == 0
