"""An agent that goes on while the cap is full: it waits like a new one, and what it was told is not lost."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as typed
from tests.interfaces.cli.running import script
from tests.interfaces.http.serving import gen_serve, served
from tests.tasks.waiting_line import HOLD, ONE, STOPPED, Patient
from tests.tasks.words import heard, numbered, results, said
from tests.virtual_clock import virtual_time
from tests.waiting import until

CLOSING = "the program is closing"
COUNT = {"type": "object", "required": ["count"]}


class Line(NamedTuple):
    """One agent at work, one that had ended and waits to go on, and a new one behind it."""

    gen: GenCode
    model: Patient
    again: str
    behind: str

    async def shown(self, by: GenCode) -> list[tuple[str, Status, object, str]]:
        """All three as a process shows them."""
        return [
            (task.prompt, task.status, task.queue_position or 0, task.result) for task in await by.tasks()
        ]


Wake = Callable[[GenCode, str], Awaitable[None]]


async def by_resume(gen: GenCode, task: str) -> None:
    await gen.resume(task, "more", background=True)


async def by_word(gen: GenCode, task: str) -> None:
    woken = (await gen.send(task, "more")).resumed
    assert woken


WAKES = pytest.mark.parametrize("wake", [by_resume, by_word])


@asynccontextmanager
async def line(folder: Path, wake: Wake = by_resume) -> AsyncGenerator[Line]:
    model = Patient()
    async with asyncio.timeout(60), GenCode.open(folder, model=model, settings=ONE) as gen:
        earlier = await gen.task("Explore", "early")
        await gen.task("Explore", "hold", background=True)
        await until(lambda: "hold" in model.asked, "one is at work")
        await wake(gen, earlier.agent_id)
        behind = await gen.task("Explore", "late", background=True)
        yield Line(gen, model, earlier.agent_id, behind.id)


@WAKES
async def test_it_is_pending_at_its_place_for_everybody_and_then_goes_on(tmp_path: Path, wake: Wake) -> None:
    async with line(tmp_path, wake) as now, GenCode.open(tmp_path, model="offline") as other:
        shown = [await now.shown(gen) for gen in (now.gen, other)]
        waited = await now.gen.history.ended(now.again, 0.2)
        now.model.let_go.set()
        ended = await now.gen.history.ended(now.behind, 60)
        told = await now.gen.get(now.again)
    assert shown[0] == [
        ("early", Status.PENDING, 1, ""),
        ("hold", Status.RUNNING, 0, ""),
        ("late", Status.PENDING, 2, ""),
    ]
    assert (shown[1], waited.status) == (shown[0], Status.PENDING)
    assert (now.model.asked, ended.status) == (["early", "hold", "more", "late"], Status.COMPLETED)
    assert (told.status, told.result, told.turns) == (Status.COMPLETED, "early / more", 2)


@WAKES
@pytest.mark.parametrize("how", ["stop", "keep", "tree"])
async def test_who_stops_it_hits_it_and_it_never_works(tmp_path: Path, wake: Wake, how: str) -> None:
    async with line(tmp_path, wake) as now:
        hit = [each.agent_id for each in await now.gen.affected(now.again, "stop")]
        stopped = await now.gen.stop(now.again, keep=how == "keep", tree=how == "tree")
        place = (await now.gen.get(now.behind)).queue_position
        now.model.let_go.set()
        await now.gen.history.ended(now.behind, 60)
        later = await now.gen.get(now.again)
    assert (hit, place) == ([now.again], 1)
    assert (stopped.status, stopped.result, stopped.turns) == (Status.CANCELLED, "early", 1)
    assert (stopped.affected, now.model.asked) == ((later,), ["early", "hold", "late"])


async def test_another_terminal_sees_it_in_line_and_stops_it(tmp_path: Path) -> None:
    async with line(tmp_path) as now:
        listed = await asyncio.to_thread(typed, "task", "list", cwd=tmp_path)
        looked = await asyncio.to_thread(typed, "task", "output", now.again, "--no-block", cwd=tmp_path)
        ended = await asyncio.to_thread(typed, "task", "stop", now.again, "--json", cwd=tmp_path)
        now.model.let_go.set()
        await now.gen.history.ended(now.behind, 60)
    (row,) = [each for each in listed.out.splitlines() if now.again in each]
    assert "1st in the queue" in row
    waits = f"Task {now.again} of Explore is waiting in the queue (1st).\n"
    assert (looked.out, looked.err) == ("", waits)
    assert (ended.json["stopped"], ended.json["status"], ended.json["result"]) == (
        [now.again],
        "cancelled",
        "early",
    )
    assert now.model.asked == ["early", "hold", "late"]


async def test_to_interrupt_it_hits_nothing_and_says_so_before_and_after(tmp_path: Path) -> None:
    async with line(tmp_path) as now:
        hits = [await now.gen.affected(each, "interrupt") for each in (now.again, now.behind)]
        cut = await asyncio.to_thread(typed, "task", "interrupt", now.behind, cwd=tmp_path)
        words = ("--message", "and this")
        told = await asyncio.to_thread(typed, "task", "interrupt", now.again, *words, cwd=tmp_path)
        now.model.let_go.set()
        await now.gen.history.ended(now.behind, 60)
        went_on = await now.gen.get(now.again)
    waits = "Nothing to interrupt: Task {task} of Explore is waiting in the queue.\n"
    assert (hits, cut.out, cut.err) == ([[], []], waits.format(task=now.behind), "")
    heard = "It reads your message when it starts.\n"
    assert (told.code, told.out, told.err) == (0, waits.format(task=now.again), heard)
    assert went_on.result == "early / more / and this"


async def test_to_abort_the_tree_of_its_sender_hits_it(tmp_path: Path, home: Path) -> None:
    (home / ".gen" / "agents").mkdir(parents=True)
    text = "---\nname: Lead\ndescription: Leads.\ntools: LS, Task(Explore)\n---\nLead.\n"
    (home / ".gen" / "agents" / "Lead.md").write_text(text)
    lead = [says("", call("Task", subagent_type="Explore", prompt="look")), says("led")]
    settings = {**ONE, "max_depth": 2}
    async with scripted(tmp_path, settings=settings, Lead=lead, Explore=[says("seen")], Plan=[HOLD]) as gen:
        above = await gen.task("Lead", "go")
        (child,) = above.evidence.children
        await gen.task("Plan", "hold", background=True)
        await gen.resume(child, "more", background=True)
        hit = [each.agent_id for each in await gen.affected(above.agent_id, "tree")]
        await gen.stop(above.agent_id, tree=True)
        after = await gen.get(child)
    assert (hit, after.status, after.result, after.turns) == ([child], Status.CANCELLED, "seen", 1)


async def test_what_is_said_to_it_meanwhile_is_heard_with_what_woke_it(tmp_path: Path) -> None:
    async with line(tmp_path) as now, GenCode.open(tmp_path, model="offline") as other:
        woken = (await now.gen.send(now.again, "and this")).resumed
        cut = await now.gen.interrupt(now.again, "and that")
        await other.send(now.again, "from elsewhere")
        with pytest.raises(
            UserMistake, match="is waiting in the queue; send it a message, wait for it or stop it first"
        ):
            await now.gen.resume(now.again, "once more")
        now.model.let_go.set()
        await now.gen.history.ended(now.again, 60)
        words = [each.text for each in heard(await said(now.gen, now.again))]
    assert (woken, cut.status) == (False, Status.PENDING)
    assert words == ["early", "more", "and this", "and that", "from elsewhere"]


@virtual_time
async def test_an_agent_that_writes_to_it_twice_is_told_that_it_hears_both(tmp_path: Path) -> None:
    child = "00000002"
    words = [call("SendMessage", task_id=child, message=each) for each in ("more", "and this")]
    busy = call("Task", subagent_type="Plan", prompt="hold", run_in_background=True)
    look = call("Task", subagent_type="Explore", prompt="look")
    main = [says("", look), says("", busy), *(says("", each) for each in words), says("told"), says("done")]
    plan = [says("planned", delay_ms=1500)]
    explore = [says("seen"), says("both")]
    async with scripted(
        tmp_path, settings=ONE, store=numbered(), main=main, Plan=plan, Explore=explore
    ) as gen:
        outcome = await gen.ask("go").outcome()
        answers = results(await said(gen, outcome.agent_id))[2:]
        mail = [each.mail for each in heard(await said(gen, child))]
    assert answers == [
        f"Explore (task {child}) had finished and continues in the background with your message; "
        "its result is sent to you.",
        f"Explore (task {child}) gets the message before its next reply.",
    ]
    assert mail == [0, 1, 2]


@WAKES
async def test_what_it_was_told_outlives_the_end_of_the_program(tmp_path: Path, wake: Wake) -> None:
    async with line(tmp_path, wake) as now:
        await now.gen.send(now.again, "and this")
    async with GenCode.open(tmp_path, model=Patient()) as gen:
        cut = await gen.get(now.again)
        went_on = await gen.resume(now.again, "go on")
    assert (cut.status, cut.error, cut.result) == (Status.CANCELLED, CLOSING, "early")
    told = ["early", "more", STOPPED.format(why=CLOSING), "and this", "go on"]
    assert went_on.result == " / ".join(told)


async def test_what_was_said_anew_counts_although_it_never_began(tmp_path: Path) -> None:
    async def in_form(gen: GenCode, task: str) -> None:
        await gen.resume(task, "count", background=True, output_schema=COUNT, budget=Budget(tokens=9_000))

    async with line(tmp_path, in_form) as now:
        pass
    model = ScriptedProvider.of({"Explore": [says("never said"), says('{"count": 1}')]})
    async with GenCode.open(tmp_path, model=model) as gen:
        task = await gen.find(now.again)
        went_on = await gen.resume(now.again, "go on")
    assert (task.terms.budget.tokens, task.terms.output_schema) == (9_000, COUNT)
    assert (went_on.status, went_on.output) == (Status.COMPLETED, {"count": 1})


async def test_a_copy_of_it_has_heard_what_woke_it(tmp_path: Path) -> None:
    async with line(tmp_path) as now:
        copy = asyncio.create_task(now.gen.fork(now.again, "another way"))
        await until(lambda: len(now.gen.running) == 4, "the copy waits, too")
        now.model.let_go.set()
        outcome = await copy
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "early / more / another way")


async def test_what_it_was_told_outlives_a_server_that_is_killed(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir(exist_ok=True)
    (home / ".gen" / "settings.toml").write_text("max_agents = 1\n")
    explore = [says("seen"), says("more seen")]
    async with gen_serve(tmp_path, Explore=explore, Plan=[HOLD]) as server:
        client = server.client
        early = (await client.post("/api/tasks", {"agent": "Explore", "prompt": "look"})).json["agentId"]
        await client.ended(early)
        await client.post("/api/tasks", {"agent": "Plan", "prompt": "hold"})
        woken = await client.post(f"/api/tasks/{early}/resume", {"prompt": "more"})
        await server.stop(signal.SIGKILL)
    async with GenCode.open(tmp_path, model=script(tmp_path, Explore=explore)) as gen:
        cut = await gen.get(early)
        went_on = await gen.resume(early, "go on")
        words = [each.text for each in heard(await said(gen, early))]
    assert (woken.json["status"], woken.json["queuePosition"]) == ("pending", 1)
    assert (cut.status, cut.result, cut.usage.tree.input_tokens) == (Status.INTERRUPTED, "seen", 0)
    assert (words[:2], words[-1], went_on.result) == (["look", "more"], "go on", "more seen")


async def test_a_server_shows_it_in_line_and_waits_for_it(tmp_path: Path) -> None:
    explore = [says("seen"), says("more seen")]
    plan = [says("planned", delay_ms=2_000)]
    async with served(tmp_path, settings=ONE, Explore=explore, Plan=plan) as site:
        client = site.client
        early = (await client.post("/api/tasks", {"agent": "Explore", "prompt": "look"})).json["agentId"]
        await client.ended(early)
        await client.post("/api/tasks", {"agent": "Plan", "prompt": "hold"})
        woken = await client.post(f"/api/tasks/{early}/resume", {"prompt": "more"})
        listed = (await client.get("/api/tasks", agent="Explore")).json["tasks"]
        hits = (await client.get(f"/api/tasks/{early}/hits", verb="stop")).json
        ended = await client.ended(early)
    shown = [(each["status"], each["queuePosition"], each["result"]) for each in (woken.json, *listed)]
    assert shown == [("pending", 1, "")] * 2
    assert [each["agentId"] for each in hits["tasks"]] == [early]
    assert (ended["status"], ended["result"]) == ("completed", "more seen")
