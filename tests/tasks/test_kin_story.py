"""Agents of one family write to each other: in one process and in several, awake and ended."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode, components
from gencode.core.events import TaskStarted
from gencode.core.messages import Message, Part, ToolMessage, ToolResult
from gencode.core.status import Status, stop_cause
from gencode.providers.scripted import ScriptedProvider
from gencode.tasks.relatives import TaskTree
from gencode.testing import call, says, scripted
from tests.contracts.provider import Play
from tests.tasks.minds import MODEL, Told, say, thinking
from tests.tasks.words import heard, numbered, said
from tests.virtual_clock import virtual_time
from tests.waiting import PATIENCE, until

SENDER = re.compile(r"started by \w+ \(task ([0-9a-f]{8})\)")
BESIDE = re.compile(r", \w+ \(task ([0-9a-f]{8})\)")
SAYS = re.compile(r"\(task ([0-9a-f]{8})\) (?:says|writes)\]")
MAY = {"allow": ["Task"]}
NEVER = says("never said", delay_ms=600_000)
FIRST, SECOND = "00000002", "00000003"
TO_FIRST = call("SendMessage", task_id=FIRST, message="and?")


def agent(home: Path, name: str, *more: str) -> None:
    """An agent whose file names SendMessage."""
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (f"name: {name}", "description: Talks.", "tools: SendMessage, LS", *more)
    (folder / f"{name}.md").write_text("---\n" + "\n".join(lines) + "\n---\nTalk.\n")


def here_and_other(
    folder: Path, home: Path, *of_here: str, **scripts: Any
) -> AbstractAsyncContextManager[GenCode]:
    """The agents Here and Other, of which a conversation sends the one as FIRST and the other as SECOND."""
    agent(home, "Here", *of_here)
    agent(home, "Other")
    return scripted(folder, settings=MAY, store=numbered(), **scripts)


@asynccontextmanager
async def apart_and_here(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch, think: Callable[[Told], Play]
) -> AsyncGenerator[GenCode, None]:
    """The agents Apart, in a process of its own, and Here: they think for a moment of what they were told."""
    agent(home, "Apart", "isolation: process")
    agent(home, "Here")

    async def slowly(told: Told) -> Play:
        await asyncio.sleep(0.1)
        return think(told)

    async with (
        asyncio.timeout(2 * PATIENCE),
        thinking(slowly, monkeypatch),
        GenCode.open(folder, model=MODEL, settings=MAY) as gen,
    ):
        yield gen


def write(task: str, message: str) -> tuple[str, dict[str, str]]:
    """A call that says something to a task."""
    return "SendMessage", {"task_id": task, "message": message}


def send(name: str, *, behind: bool = False) -> tuple[str, dict[str, Any]]:
    """A call that sends an agent."""
    return "Task", {"subagent_type": name, "prompt": name, "run_in_background": behind}


def task_of(name: str, *, behind: bool = False) -> dict[str, Any]:
    """The same for a script: a call that sends one agent."""
    return call("Task", subagent_type=name, prompt=name, run_in_background=behind)


def told(messages: list[Message]) -> list[ToolResult]:
    """What the calls of an agent gave."""
    found = [each for each in messages if isinstance(each, ToolMessage)]
    return [result for each in found for result in each.results]


async def letters(gen: GenCode, task: str) -> list[str]:
    """What other agents said to one, in the order it heard that."""
    return [each.text.partition("\n")[2] for each in heard(await said(gen, task)) if each.mail]


def test_the_listing_of_those_in_reach_is_bounded() -> None:
    family = TaskTree()
    family.learn("000000ff", None, "main")
    for number in range(14):
        family.learn(f"{number:08x}", "000000ff", "Explore")
    assert family.reachable("00000000") == [
        "main (task 000000ff), your parent",
        *(f"Explore (task {number:08x})" for number in range(13, 3, -1)),
        "and 3 earlier ones",
    ]
    assert family.reachable("000000ff") == []


async def test_agents_in_processes_of_their_own_write_to_their_sender_and_to_each_other(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talk(told: Told) -> Play:
        """Tells its sender, finds the two beside it, tells them, and ends when it has heard from both."""
        beside, said_by = {*BESIDE.findall(told.heard)}, {*SAYS.findall(told.heard)}
        if not told.turns:
            return say("", *[write(task, f"{told.prompt} to main") for task in SENDER.findall(told.system)])
        if len(beside) < 2:
            return say("", write("beside", "is anybody there?"))
        if "gets the message" not in told.heard.partition("You can also write to")[2]:
            return say("", *[write(task, f"{told.prompt} to another") for task in beside])
        return say("I heard them.") if len(said_by) == 2 else say("", ("LS", {"path": "."}))

    each_sent = [send(name, behind=True) for name in ("Apart", "Here", "Apart")]

    def think(told: Told) -> Play:
        if told.prompt != "go":
            return talk(told)
        return say("Done.") if told.turns else say("", *each_sent)

    async with apart_and_here(tmp_path, home, monkeypatch, think) as gen:
        outcome = await gen.ask("go").outcome()
        tasks = sorted(await gen.tasks(parent=outcome.agent_id), key=lambda task: task.agent)
        main = await letters(gen, outcome.agent_id)
        heard_by = {each.agent_id: sorted(await letters(gen, each.agent_id)) for each in tasks}
    assert [(task.agent, task.status) for task in tasks] == [
        (name, Status.COMPLETED) for name in ("Apart", "Apart", "Here")
    ]
    assert sorted(main) == ["Apart to main", "Apart to main", "Here to main"]
    assert [heard_by[task.agent_id] for task in tasks] == [
        ["Apart to another", "Here to another"],
        ["Apart to another", "Here to another"],
        ["Apart to another", "Apart to another"],
    ]


async def test_an_agent_that_ended_is_woken_by_one_beside_it_and_reports_to_its_sender_once(
    tmp_path: Path, home: Path
) -> None:
    async with here_and_other(
        tmp_path,
        home,
        main=[says("", task_of("Here")), says("", task_of("Other", behind=True)), *[says("noted")] * 3],
        Here=[says("one"), says("two", delay_ms=300)],
        Other=[says("", TO_FIRST), says("said it")],
    ) as gen:
        outcome = await gen.ask("go").outcome()
        here = await gen.get(FIRST)
        (answer,) = told(await said(gen, SECOND))
        words = [each for each in heard(await said(gen, outcome.agent_id)) if each.delivers]
        letter = await letters(gen, FIRST)
    woken = f"Here (task {FIRST}) had finished and continues in the background with your message; "
    assert (answer.text, answer.error) == (f"{woken}its result goes to its parent.", False)
    assert (here.status, here.result, here.background, letter) == (Status.COMPLETED, "two", True, ["and?"])
    assert sorted(task for each in words for task in each.delivers) == [FIRST, SECOND]


@virtual_time
async def test_it_is_woken_also_while_its_sender_rests_and_that_hears_of_it_in_its_next_turn(
    tmp_path: Path, home: Path
) -> None:
    async with here_and_other(
        tmp_path,
        home,
        main=[
            says("", task_of("Here")),
            says("", task_of("Other", behind=True)),
            *[says("heard", delay_ms=3_000)] * 2,
        ],
        Here=[says("one"), says("two")],
        Other=[says("", TO_FIRST, delay_ms=1_000), says("said it")],
    ) as gen:
        job = await gen.start_turn("go")
        await until(lambda: gen.running.find(SECOND) is not None)
        await job.halt(stop_cause("enough"))
        await gen.history.ended(SECOND, 30)
        await gen.history.ended(FIRST, 30)
        outcome = await gen.ask("and?", session=job.id).outcome()
        given = [each.delivers for each in heard(await said(gen, job.id)) if each.delivers]
    assert (outcome.result, given) == ("heard", [(FIRST, SECOND)])


async def test_who_was_stopped_is_not_woken_by_an_agent_beside_it(tmp_path: Path, home: Path) -> None:
    async with here_and_other(
        tmp_path,
        home,
        main=[
            says("", task_of("Here", behind=True)),
            says("", call("TaskStop", task_id=FIRST)),
            says("", task_of("Other")),
            *[says("done")] * 2,
        ],
        Here=[NEVER],
        Other=[says("", TO_FIRST), says("said it")],
    ) as gen:
        await gen.ask("go").outcome()
        (answer,) = told(await said(gen, SECOND))
        here, waiting = await gen.get(FIRST), await components(gen).store.unread_messages(FIRST)
    kept = (
        f"Here (task {FIRST}) has finished (cancelled) and is not resumed by this; "
        "it gets the message when it is resumed."
    )
    assert (answer.text, answer.error, here.status) == (kept, False, Status.CANCELLED)
    assert [each.text for each in waiting] == [f"[Other (task {SECOND}) writes]\n> and?"]


async def test_two_that_write_to_each_other_do_not_wake_each_other_for_ever(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gencode.tasks.control.MOST_LIVES", 3)
    to_second = call("SendMessage", task_id=SECOND, message="you!")
    async with (
        asyncio.timeout(60),
        here_and_other(
            tmp_path,
            home,
            main=[says("", task_of("Here")), says("", task_of("Other")), *[says("noted")] * 20],
            Here=[says("here")] + [says("", to_second), says("here")] * 20,
            Other=[says("", TO_FIRST), says("other")] * 20,
        ) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        facts = [[event.fact for event in await gen.history.events(task)] for task in (FIRST, SECOND)]
    lives = [sum(isinstance(each, TaskStarted) for each in every) for every in facts]
    assert (outcome.status, lives) == (Status.COMPLETED, [3, 3])


async def test_a_message_wakes_nobody_whose_budget_is_spent_and_is_kept(tmp_path: Path, home: Path) -> None:
    async with here_and_other(
        tmp_path,
        home,
        *("budget:", "  turns: 1"),
        main=[says("", task_of("Here")), says("", task_of("Other")), says("done")],
        Here=[says("one"), says("never")],
        Other=[says("", TO_FIRST), says("said it")],
    ) as gen:
        await gen.ask("go").outcome()
        (answer,) = told(await said(gen, SECOND))
        here, waiting = await gen.get(FIRST), await components(gen).store.unread_messages(FIRST)
    assert answer.text.endswith(" The message is kept and delivered when the task is resumed.")
    assert ("1 turn" in answer.text, here.result, len(waiting)) == (True, "one", 1)


async def test_one_in_a_process_of_its_own_does_not_wake_what_its_sender_would_not_wait_for(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(told: Told) -> Play:
        if told.turns < 2:
            return say("", send("Apart", behind=True) if told.turns else send("Here"))
        return say("Done.") if "It is kept." in told.heard else say("", ("LS", {"path": "."}))

    def apart(told: Told) -> Play:
        beside = BESIDE.findall(told.heard)
        if "gets the message when it is resumed" in told.heard:
            return say("It is kept.")
        return say("", write(beside[-1], "and?") if beside else write("beside", "who is there?"))

    def think(told: Told) -> Play:
        if told.prompt == "Here":
            return say("one")
        return apart(told) if told.prompt == "Apart" else main(told)

    async with apart_and_here(tmp_path, home, monkeypatch, think) as gen:
        outcome = await gen.ask("go").outcome()
        here = next(each for each in await gen.tasks(parent=outcome.agent_id) if each.agent == "Here")
        waiting = await components(gen).store.unread_messages(here.agent_id)
    assert (outcome.result, here.status, here.result, here.turns) == ("Done.", Status.COMPLETED, "one", 1)
    assert [letter.text.splitlines()[1:] for letter in waiting] == [["> and?"]]


@pytest.mark.parametrize("by", ["sibling", "person"])
@virtual_time
async def test_what_one_had_answered_before_it_was_woken_is_handed_back_as_well(
    tmp_path: Path, home: Path, by: str
) -> None:
    thanks = says("", call("SendMessage", task_id=FIRST, message="thanks"), delay_ms=500)
    async with here_and_other(
        tmp_path,
        home,
        main=[
            says("", task_of("Here", behind=True), task_of("Other", behind=True)),
            says("I wait.", delay_ms=2_500),
            *[says("noted")] * 3,
        ],
        Here=[says("THE FINDING"), says("you are welcome")],
        Other=[thanks if by == "sibling" else says("nothing"), says("said it")],
    ) as gen:
        turn = asyncio.ensure_future(gen.ask("go").outcome())
        if by == "person":
            await until(lambda: ended(gen, FIRST), "it has answered")
            await gen.send(FIRST, "thanks")
        outcome = await turn
        words = [each for each in heard(await said(gen, outcome.agent_id)) if each.delivers]
    found = [word for each in words for word in ("THE FINDING", "you are welcome") if word in each.text]
    assert found == ["THE FINDING", "you are welcome"]
    assert sorted(task for each in words for task in each.delivers) == [FIRST, FIRST, SECOND]


async def ended(gen: GenCode, task: str) -> bool:
    """Whether a task is there and has ended."""
    found = await gen.history.task(task)
    return found is not None and found.status.ended


class Listening(ScriptedProvider):
    """A script that remembers what each agent was told before anything else."""

    systems: dict[str, str]

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.systems[request.agent] = request.system
        return super().stream(request)


async def test_an_agent_that_may_write_is_told_who_it_is_who_sent_it_and_whom_it_reaches(
    tmp_path: Path, home: Path
) -> None:
    agent(home, "Here")
    wrong = [call("SendMessage", task_id=task, message="x") for task in ("main", "00000009")]
    model = Listening.of(
        {
            "main": [says("", task_of("Explore")), says("", task_of("Here")), says("done")],
            "Explore": [says("found")],
            "Here": [says("", *wrong), says("said")],
        }
    )
    assert isinstance(model, Listening)
    model.systems = {}
    async with GenCode.open(tmp_path, model=model, settings=MAY, store=numbered()) as gen:
        await gen.ask("go").outcome()
        answers = [each.text for each in told(await said(gen, SECOND))]
        begun = (await gen.find(SECOND)).terms.system
    kin = "You have none. You can also write to: main (task 00000001), your parent, "
    reach = f"{kin}Explore (task 00000002)."
    added = model.systems["Here"].removeprefix(f"{begun}\n\n")
    assert added.startswith("## Messages\n") and SECOND in added and "main (task 00000001)" in added
    assert "## Messages" not in model.systems["main"] + model.systems["Explore"]
    assert [each.endswith(reach) for each in answers] == [True, True]
