"""The five verbs as a model has them: at each of the three points where work can be cut, and in a tree."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.ports import Request
from gencode.agent.toolbox import Tool, ToolContext, tool
from gencode.app import GenCode
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall
from gencode.core.outcome import Outcome
from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.sandbox import shells
from gencode.tasks import control, supervisor
from gencode.testing import call, says, scripted
from tests.tasks.agent_file import write_agent
from tests.tasks.held_agent import POINTS, Held
from tests.tasks.words import heard, numbered, results, said
from tests.waiting import until

CHILD = "00000002"
SEND = ("Task", {"subagent_type": "general-purpose", "prompt": "go", "run_in_background": True})
VERBS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "interrupt": [("TaskStop", {"task_id": CHILD, "how": "interrupt"})],
    "steer": [
        ("SendMessage", {"task_id": CHILD, "message": "hurry"}),
        ("TaskStop", {"task_id": CHILD, "how": "interrupt"}),
    ],
    "keep": [("TaskStop", {"task_id": CHILD, "how": "keep"})],
    "abort": [("TaskStop", {"task_id": CHILD})],
    "abort the tree": [("TaskStop", {"task_id": CHILD, "how": "tree"})],
}


class Leading:
    """A main agent that sends one which is held at a point, and does one of the verbs once it is there."""

    def __init__(self, held: Held, verb: str) -> None:
        self.held = held
        self._turns = iter([[SEND], *([each] for each in VERBS[verb]), *[[]] * 9])
        self._sent = False

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if request.agent != "main":
            async for part in self.held.stream(request):
                yield part
            return
        if self._sent:
            await self.held.there.wait()
        self._sent = True
        for name, given in next(self._turns):
            yield CallPart(ToolCall(f"c{name}", name, given))
        yield TextPart("so be it")
        yield EndPart("led")


async def led(folder: Path, point: str, verb: str) -> tuple[Outcome, str]:
    """How an agent ended that its sender hit with a verb, and what the sender was told at once."""
    held = Held(point)

    @tool(effect="read", timeout=None)
    async def hold(ctx: ToolContext) -> str:
        """Wait for a long time."""
        held.there.set()
        await asyncio.sleep(60)
        return "never"

    async with (
        asyncio.timeout(60),
        GenCode.open(folder, model=Leading(held, verb), tools=[hold], store=numbered()) as gen,
    ):
        main = await gen.ask("lead").outcome()
        told = results(await said(gen, main.agent_id))
        words = [each.text for each in heard(await said(gen, CHILD))]
        assert any("hurry" in each for each in words) is (verb == "steer")
        return await gen.get(CHILD), told[-1]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("verb", "status", "result", "hit"),
    [
        ("interrupt", Status.COMPLETED, "went on", "was interrupted and continues from there."),
        ("steer", Status.COMPLETED, "went on", "was interrupted and continues from there."),
        ("keep", Status.CANCELLED, "this is what I have", "was stopped after {turns} and is now cancelled."),
        ("abort", Status.CANCELLED, "", "was stopped after {turns} and is now cancelled."),
        ("abort the tree", Status.CANCELLED, "", "was stopped after {turns} and is now cancelled."),
    ],
)
async def test_a_model_has_every_verb_at_every_point(
    tmp_path: Path, point: str, verb: str, status: Status, result: str, hit: str
) -> None:
    outcome, told = await led(tmp_path, point, verb)
    kept = "half a " if not result and point == "inside the stream" else result
    assert (outcome.status, outcome.result) == (status, kept)
    turns = "1 turn" if outcome.turns == 1 else f"{outcome.turns} turns"
    words = f"Task {CHILD} of general-purpose {hit.format(turns=turns)}"
    assert told == (f"{words}\n\nIts last message:\n{result}" if verb == "keep" else words)


def waiting_for(running: int) -> Tool:
    """A tool that gives its agent time until so many tasks are at work."""

    @tool(effect="read", timeout=None)
    async def all_begun(ctx: ToolContext) -> str:
        """Wait until all have begun."""
        assert ctx.delegate is not None
        sent = ctx.delegate

        async def begun() -> bool:
            return len(await sent.affected(CHILD, "tree")) == running

        await until(begun, f"{running} tasks are at work")
        return "they have"

    return all_begun


async def in_a_tree(folder: Path, home: Path, *hows: str) -> tuple[list[str], dict[str, Status]]:
    """What a main agent is told that hits one which waits for an agent and has another in the background."""
    write_agent(home / ".gen" / "agents", "Leader", "Task(Explore, Plan), Read")
    below = [
        call("Task", subagent_type="Explore", prompt="in front"),
        call("Task", subagent_type="Plan", prompt="behind", run_in_background=True),
    ]
    stops = [says("", call("TaskStop", task_id=CHILD, how=how)) for how in hows]
    send = call("Task", subagent_type="Leader", prompt="lead", run_in_background=True)
    slow = [says("late", delay_ms=600_000)]
    script = {
        "main": [says("", send), says("", call("all_begun")), *stops, *[says("enough")] * 9],
        "Leader": [says("", *below), says("led"), says("led on")],
        "Explore": slow,
        "Plan": slow,
    }
    async with (
        asyncio.timeout(60),
        GenCode.open(
            folder,
            model=ScriptedProvider.of(script),
            tools=[waiting_for(3)],
            store=numbered(),
            settings={"max_depth": 2},
        ) as gen,
    ):
        main = await gen.ask("go").outcome()
        told = results(await said(gen, main.agent_id))[2:]
        return told, {task.agent: task.status for task in await gen.tasks()}


async def test_what_a_stop_leaves_running_is_named_and_the_whole_tree_is_stopped_afterwards(
    tmp_path: Path, home: Path
) -> None:
    told, ends = await in_a_tree(tmp_path, home, "stop", "tree", "tree")
    assert told == [
        f"Task {CHILD} of Leader was stopped after 1 turn and is now cancelled. Subagents also stopped: "
        "00000003 (Explore). Subagents still running: 00000004 (Plan). To stop that: "
        f'TaskStop(task_id="{CHILD}", how="tree").',
        f"Task {CHILD} of Leader had already finished (cancelled). Subagents also stopped: 00000004 (Plan).",
        f"Task {CHILD} of Leader had already finished (cancelled); nothing was stopped.",
    ]
    assert {*ends.values()} == {Status.CANCELLED}


async def test_the_tree_is_stopped_at_once(tmp_path: Path, home: Path) -> None:
    told, ends = await in_a_tree(tmp_path, home, "tree")
    assert told == [
        f"Task {CHILD} of Leader was stopped after 1 turn and is now cancelled. Subagents also stopped: "
        "00000003 (Explore), 00000004 (Plan)."
    ]
    assert {*ends.values()} == {Status.CANCELLED}


async def test_an_interruption_says_what_it_cut_and_what_goes_on(tmp_path: Path, home: Path) -> None:
    told, ends = await in_a_tree(tmp_path, home, "interrupt", "tree")
    assert told[0] == (
        f"Task {CHILD} of Leader was interrupted and continues from there. Subagents also stopped: "
        "00000003 (Explore). Subagents still running: 00000004 (Plan). To stop that: "
        f'TaskStop(task_id="{CHILD}", how="tree").'
    )
    assert ends["Plan"] is Status.CANCELLED


class Curious:
    """Says yes to everything, and remembers what was asked."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(allow=True)


@pytest.mark.parametrize(
    ("how", "shown"), [("interrupt", "interrupts"), ("keep", "stops"), ("stop", "stops"), ("tree", "stops")]
)
async def test_who_is_asked_about_a_verb_sees_what_it_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, shown: str
) -> None:
    for room in (control, supervisor):
        monkeypatch.setattr(room, "REPORT_SECONDS", 1.0)
    send = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    stop = call("TaskStop", task_id=CHILD, how=how)
    main = [says("", send), says("", stop), says("", call("TaskStop", task_id=CHILD)), *[says("ok")] * 3]
    person = Curious()
    async with scripted(
        tmp_path,
        settings={"ask": ["TaskStop"]},
        store=numbered(),
        asker=person,
        main=main,
        Explore=[says("x", delay_ms=60_000), says("x", delay_ms=60_000)],
    ) as gen:
        await gen.ask("go").outcome()
    again = [f"stops {CHILD} (Explore)" if how == "interrupt" else "nothing to stop"]
    assert [each.preview for each in person.questions] == [f"{shown} {CHILD} (Explore)", *again]


async def test_a_command_is_stopped_and_never_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells, "new_id", lambda: "000000aa")
    begin = call("Bash", command="sleep 300", run_in_background=True)
    stops = [says("", call("TaskStop", task_id="shell_000000aa", how=how)) for how in ("interrupt", "tree")]
    settings = {"permission_mode": "dontAsk", "sandbox": "off"}
    async with scripted(tmp_path, settings=settings, main=[says("", begin), *stops, says("ok")]) as gen:
        outcome = await gen.ask("go").outcome()
        told = results(await said(gen, outcome.agent_id))[1:]
    assert told[0] == "shell_000000aa is a command: it can be stopped, but not resumed."
    assert told[1].startswith("shell_000000aa was stopped, with all it had started.")
