"""The TaskStop tool, and Esc: how agents and commands are stopped."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode, tool
from gencode.agent.ports import Request
from gencode.agent.toolbox import ToolContext
from gencode.core.messages import EndPart, Part, TextPart
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.interfaces.tui.driving import seated, turns
from tests.seeds.playing import FIRST, SECOND, asks_for, play, task
from tests.seeds.rows import seed
from tests.virtual_clock import virtual_time
from tests.waiting import until

BEHIND = task("Explore", run_in_background=True)
SLOW = [says("never said", delay_ms=3_600_000)]
STOP = call("TaskStop", task_id=FIRST)
LOOK = says("I look.", call("Glob", pattern="*"))
ALLOWED = {"permission_mode": "dontAsk"}


@seed("000", "Schema", use='TaskStop(task_id="9f3a1c2e")')
async def test_task_stop_needs_a_task_id(tmp_path: Path) -> None:
    schema = (await play(tmp_path, [says("Hi.")])).schema("TaskStop")
    assert (schema["required"], schema["properties"]["task_id"]["type"]) == (["task_id"], "string")


@seed("000", "Graceful stop", use='TaskStop(task_id="9f3a1c2e")')
async def test_a_stopped_agent_ends_as_cancelled(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(BEHIND, STOP), Explore=SLOW)
    assert played.task.status is Status.CANCELLED
    assert FIRST in played.results[1].text
    assert not played.results[1].error


async def stopped_stubborn(folder: Path) -> tuple[float, Status]:
    """How long the stop of an agent takes whose tool heeds no cancellation, and how it ends."""
    deaf, wake = asyncio.Event(), asyncio.Event()

    @tool(effect="read", name="Stubborn", timeout=None)
    async def stubborn(_: ToolContext) -> str:
        """Wait, whoever wants it to stop."""
        while not wake.is_set():
            deaf.set()
            try:
                await wake.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    model = ScriptedProvider.of({"*": [says("", call("Stubborn")), says("never")]})
    async with GenCode.open(folder, model=model, store=MemoryStore(), tools=[stubborn]) as gen:
        handle = await gen.task("general-purpose", "wait", background=True)
        await deaf.wait()
        loop = asyncio.get_running_loop()
        began = loop.time()
        outcome = await handle.stop()
        took = loop.time() - began
        wake.set()
    return took, outcome.status


@seed("000", "Wait at most 2 s", use="gen task stop 9f3a")
@virtual_time
async def test_a_stop_waits_for_two_seconds_at_most(tmp_path: Path) -> None:
    took, _ = await stopped_stubborn(tmp_path)
    assert took <= 2.0


@seed("000", "Then force", use="gen task stop 9f3a")
@virtual_time
async def test_what_does_not_heed_a_stop_is_left_behind(tmp_path: Path) -> None:
    _, status = await stopped_stubborn(tmp_path)
    assert status is Status.CANCELLED


@seed("000", "Cancellation at loop start / in line", use='GEN_MAX_AGENTS=1; TaskStop(task_id="9f3a1c2e")')
@virtual_time
async def test_an_agent_that_waits_in_the_queue_is_stopped_before_its_first_turn(tmp_path: Path) -> None:
    main = asks_for(BEHIND, BEHIND, call("TaskStop", task_id=SECOND), STOP)
    played = await play(tmp_path, main, settings={"max_agents": 1}, Explore=SLOW)
    assert [(each.status, each.turns) for each in played.tasks] == [(Status.CANCELLED, 0)] * 2


@seed("000", "Cancellation in the tool loop", use="gen task stop 9f3a")
async def test_a_stop_ends_the_running_call_and_the_next_does_not_begin(tmp_path: Path) -> None:
    calls = [call("Bash", command="sleep 250"), call("Write", file_path="second.txt", content="x")]
    async with scripted(tmp_path, settings=ALLOWED, others=[says("", *calls), says("never")]) as gen:
        handle = await gen.task("general-purpose", "go", background=True)
        await until(lambda: called(gen, handle.id))
        outcome = await handle.stop()
    assert (outcome.status, outcome.turns) == (Status.CANCELLED, 1)
    assert not (tmp_path / "second.txt").exists()


async def called(gen: Any, name: str) -> bool:
    return (await gen.get(name)).evidence.tool_calls > 0


class Halting:
    """A model that halts in the middle of its reply."""

    def __init__(self) -> None:
        self.halted = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Half of a reply."""
        yield TextPart("half of it")
        self.halted.set()
        await asyncio.Event().wait()
        yield EndPart(request.model)


@seed("000", "Cancellation while streaming", use="gen task stop 9f3a")
async def test_a_stop_in_the_middle_of_a_reply_keeps_what_was_said(tmp_path: Path) -> None:
    model = Halting()
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "go", background=True)
        await model.halted.wait()
        outcome = await handle.stop()
    assert (outcome.status, outcome.result) == (Status.CANCELLED, "half of it")


@seed("000", "Works for background agents", use='TaskStop(task_id="9f3a1c2e")')
async def test_a_background_agent_may_be_stopped_twice(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(BEHIND, STOP, STOP), Explore=SLOW)
    assert played.task.status is Status.CANCELLED
    assert [each.error for each in played.results] == [False, False, False]


@seed("000", "Works for background Bash", use='TaskStop(task_id="shell_9f3a1c2e")')
async def test_a_background_command_is_stopped_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gencode.sandbox.shells.new_id", lambda: "000000aa")
    behind = call("Bash", command="sleep 250", run_in_background=True)
    played = await play(
        tmp_path, asks_for(behind, call("TaskStop", task_id="shell_000000aa")), settings=ALLOWED
    )
    (ended,) = played.outcome.evidence.commands
    assert (ended.command, ended.exit, ended.shell) == ("sleep 250", None, "shell_000000aa")
    assert [each.error for each in played.results] == [False, False]


@seed("000", "Not for foreground agent/Bash (no id)", use="Esc in the terminal app, or gen task stop 9f3a")
async def test_a_person_stops_a_foreground_agent_and_the_model_that_waits_has_no_id_for_it(
    tmp_path: Path,
) -> None:
    async with scripted(tmp_path, main=asks_for(task("Explore")), Explore=SLOW) as gen:
        turn = await gen.start_turn("go")
        await until(lambda: started(gen))
        (agent,) = await gen.tasks()
        assert agent.agent_id not in repr((await gen.show(turn.id)).transcript)
        stopped = await gen.stop(agent.agent_id)
        outcome = await gen.outcome(turn)
    assert (stopped.status, outcome.result) == (Status.CANCELLED, "Done.")


async def started(gen: GenCode) -> bool:
    return any(each.status is Status.RUNNING for each in await gen.tasks())


@seed("000", "Esc in the TUI cancels foreground agents", use="press `Esc`")
async def test_esc_stops_a_foreground_agent_and_both_sides_keep_its_id_and_text(tmp_path: Path) -> None:
    main = [says("", task("Explore", description="alpha")), says("I see.")]
    async with seated(tmp_path, script=turns(main=main, explore=[LOOK, *SLOW])) as seat:
        await seat.type("go")
        await seat.until(lambda: any(each.turns for each in seat.chat.foreground_agents()))
        (agent,) = seat.chat.foreground_agents()
        await seat.press("escape")
        await seat.rests()
        await seat.assert_sees(agent.id)
        stopped = await seat.chat.gen.get(agent.id)
        main_task = (await seat.chat.gen.show(seat.chat.session or "")).transcript
    assert (stopped.status, stopped.result) == (Status.CANCELLED, "I look.")
    assert agent.id in repr(main_task)
    assert "> I look." in repr(main_task)


@seed("000", "Esc cancels foreground Bash", use="press `Esc`")
async def test_esc_stops_a_command(tmp_path: Path) -> None:
    main = [says("", call("Bash", command="sleep 250 && touch made")), says("never")]
    async with seated(tmp_path, script=turns(main=main), settings=ALLOWED) as seat:
        await seat.type("go")
        await seat.assert_sees("sleep 250")
        await seat.press("escape")
        await seat.rests()
    assert not (tmp_path / "made").exists()
