"""Admission through the public door: who may work at once, who waits, and in which order."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest

from gencode.agent.model_calls import BACK_IN_LINE
from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.events import ProgressMade, QueueMoved
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall, ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.testing import call, says, scripted
from tests.tasks.agent_file import write_agent
from tests.tasks.words import results, said
from tests.waiting import until

SLOW = says("done", delay_ms=300)


async def test_over_the_cap_a_task_waits_at_a_visible_place_and_then_runs(tmp_path: Path, home: Path) -> None:
    async with scripted(tmp_path, settings={"max_agents": 2}, Explore=[SLOW]) as gen:
        listener = gen.listen()
        handles = [await gen.task("Explore", f"part {number}", background=True) for number in range(5)]
        at_once = [(await gen.get(handle.id)).status for handle in handles]
        waiting = [(await gen.get(handle.id)).queue_position for handle in handles[2:]]
        ended = [(await handle.result()).status for handle in handles]
        listener.close()
        moved = [event.task async for event in listener if isinstance(event.fact, QueueMoved)]
    assert at_once == [Status.RUNNING] * 2 + [Status.PENDING] * 3
    assert waiting == [1, 2, 3]
    assert ended == [Status.COMPLETED] * 5
    assert {*moved} <= {handle.id for handle in handles[2:]}


async def test_a_waiting_task_can_be_stopped_and_says_so(tmp_path: Path, home: Path) -> None:
    async with scripted(tmp_path, settings={"max_agents": 1}, Explore=[SLOW]) as gen:
        first = await gen.task("Explore", "first", background=True)
        second = await gen.task("Explore", "second", background=True)
        stopped = await second.stop()
        done = await first.result()
    assert (stopped.status, stopped.turns, stopped.started_at) == (Status.CANCELLED, 0, None)
    assert done.status is Status.COMPLETED


async def test_a_parent_holds_no_place_while_it_waits_for_its_children(tmp_path: Path, home: Path) -> None:
    agents = home / ".gen" / "agents"
    for name, below in (("One", "Two"), ("Two", "Three"), ("Three", "Explore")):
        write_agent(agents, name, f"Task({below}), Read")
    one, two, three = [
        [says("", call("Task", subagent_type=below, prompt="go down")), says(f"above {below}")]
        for below in ("Two", "Three", "Explore")
    ]
    settings = {"max_agents": 1, "max_depth": 4}
    async with (
        asyncio.timeout(60),
        scripted(tmp_path, settings=settings, Explore=[says("deep")], One=one, Two=two, Three=three) as gen,
    ):
        outcome = await gen.task("One", "start")
        below = await gen.tasks(parent=outcome.agent_id)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "above Two")
    assert [task.agent for task in below] == ["Two"]


async def test_who_is_back_and_has_to_wait_for_its_turn_says_so(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "Lead", "Task(Explore), Read")
    lead = [says("", *[call("Task", subagent_type="Explore", prompt="look")] * 2), says("both are back")]
    settings = {"max_agents": 1, "max_depth": 2}
    async with scripted(tmp_path, settings=settings, Explore=[SLOW], Lead=lead) as gen:
        listener = gen.listen()
        first = await gen.task("Lead", "first", background=True)
        second = await gen.task("Lead", "second", background=True)
        ended = [await each.result() for each in (first, second)]
        listener.close()
        steps = [
            (event.task, event.fact.text)
            async for event in listener
            if isinstance(event.fact, ProgressMade) and event.task in (first.id, second.id)
        ]
    assert [each.result for each in ended] == ["both are back"] * 2
    assert {each for each in steps if each[1] == BACK_IN_LINE} >= {(first.id, BACK_IN_LINE)}
    assert steps[-1][1] == "thinking"


async def test_a_child_sends_only_whom_its_file_names(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "Leader", "Task(Explore), Read")
    turns = [says("", call("Task", subagent_type="Plan", prompt="plan it")), says("alone then")]
    async with scripted(tmp_path, settings={"max_depth": 2}, Leader=turns, Plan=[says("never")]) as gen:
        outcome = await gen.task("Leader", "go")
        answers = results(await said(gen, outcome.agent_id))
    assert outcome.evidence.children == ()
    [answer] = answers
    assert answer.startswith("Plan cannot be started") and "Explore" in answer


class InTurn:
    """Two leaders that send four agents each, who work one after the other, each until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.let_go = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        prompt = next(each.text for each in request.messages if isinstance(each, UserMessage))
        if request.agent == "main" and len(request.messages) == 1:
            yield CallPart(ToolCall("A", "Task", {"subagent_type": "Leader", "prompt": "A"}))
            yield CallPart(ToolCall("B", "Task", {"subagent_type": "Leader", "prompt": "B"}))
        elif request.agent == "Leader" and not isinstance(request.messages[-1], ToolMessage):
            for kid in (f"{prompt.lower()}{number}" for number in range(4)):
                yield CallPart(ToolCall(kid, "Task", {"subagent_type": "Explore", "prompt": kid}))
        elif request.agent == "Explore":
            self.begun.append(prompt)
            await self.let_go.wait()
            self.let_go.clear()
        yield TextPart("done")
        yield EndPart("in turn")


async def test_the_places_that_another_process_shows_are_the_order_in_which_they_begin(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "Leader", "Task(Explore), Read")
    model, shown = InTurn(), list[list[str]]()
    async with (
        asyncio.timeout(60),
        GenCode.open(tmp_path, model=model, settings={"max_agents": 1, "max_depth": 2}) as gen,
        GenCode.open(tmp_path, model="offline") as other,
    ):
        turn = await gen.ask("go").start()
        for number in range(8):
            await until(lambda number=number: len(model.begun) > number, "the next one has begun")
            await until(partial(queued, other, 7 - number), "all others wait")
            waiting = [task for task in await other.tasks() if task.status is Status.PENDING]
            places = {task.queue_position: task.prompt for task in waiting}
            shown.append([places[place] for place in range(1, 8 - number)])
            model.let_go.set()
        await turn.ended()
    assert shown == [model.begun[number:] for number in range(1, 9)]
    assert {*model.begun[:4]} != {"a0", "a1", "a2", "a3"}


async def queued(gen: GenCode, many: int) -> bool:
    """Whether so many tasks wait for their turn."""
    return [task.status for task in await gen.tasks()].count(Status.PENDING) == many


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"max_agents": 0}, "max_agents is 0; name at least 1"),
        ({"max_depth": 5}, "max_depth is 5; agents are nested 4 deep at most"),
        ({"agent_caps": {"anthropic": 0}}, "lets 0 agents of anthropic work at once"),
    ],
)
async def test_caps_under_which_nobody_could_work_are_refused(
    tmp_path: Path, settings: dict[str, object], why: str
) -> None:
    with pytest.raises(UserMistake, match=why):
        async with scripted(tmp_path, settings=settings):
            pass
