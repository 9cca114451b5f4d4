"""A background task has a file: it grows while the task runs, ends whole, and its sender can page it."""

import asyncio
import itertools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from gencode import GenCode
from gencode.core.events import MessageAdded
from gencode.core.messages import Message, ToolMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.journal.event_bus import EventListener
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted

SEND = call("Task", subagent_type="Explore", prompt="look", description="a look", run_in_background=True)


def numbered() -> MemoryStore:
    """A store whose tasks have ids that a script can know: 00000001 is the conversation."""
    numbers = itertools.count(1)
    return MemoryStore(draw=lambda: f"{next(numbers):08x}")


def answers(transcript: list[Message]) -> list[str]:
    found = [message for message in transcript if isinstance(message, ToolMessage)]
    return [result.text for message in found for result in message.results]


async def results_of(listener: EventListener, task: str) -> None:
    """Wait until a task has the results of its calls."""
    async with asyncio.timeout(60):
        async for event in listener:
            fact = event.fact
            if (
                event.task == task
                and isinstance(fact, MessageAdded)
                and isinstance(fact.message, ToolMessage)
            ):
                listener.close()
                return


async def test_the_file_grows_while_the_task_runs_and_ends_whole(tmp_path: Path, home: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)\n")
    explore = [says("I read.", call("Read", file_path="a.py")), says("It prints 1.", delay_ms=300)]
    main = [says("", SEND), says("waiting"), says("told")]
    file = home / ".gen" / "outputs" / "00000002.md"
    async with scripted(tmp_path, store=numbered(), main=main, Explore=explore) as gen:
        listener = gen.listen()
        job = await gen.start_turn("go")
        await results_of(listener, "00000002")
        growing = file.read_text()
        outcome = await gen.outcome(job)
        child = await gen.get("00000002")
    assert growing.endswith("I read.\n- Read(a.py)\n  → Read: 1\tprint(1)\n")
    assert (outcome.output_file, child.output_file) == (None, str(file))
    assert file.read_text() == (
        f"{growing}\n## Result\n\nIt prints 1.\n\n"
        f"[task 00000002 has finished (completed) at {child.ended_at}]\n"
    )


async def test_a_task_in_the_foreground_has_no_file(tmp_path: Path, home: Path) -> None:
    async with scripted(tmp_path, Explore=[says("found")]) as gen:
        outcome = await gen.task("Explore", "look")
    assert outcome.output_file is None
    assert not (home / ".gen" / "outputs").exists()


async def test_the_sender_can_read_the_file_and_nobody_else(tmp_path: Path, home: Path) -> None:
    file = home / ".gen" / "outputs" / "00000002.md"
    look = call("Read", file_path=str(file))
    main = [says("", SEND), says("", call("TaskOutput", task_id="00000002")), says("", look), says("read")]
    store = numbered()
    async with scripted(tmp_path, store=store, main=main, Explore=[says("found it")]) as gen:
        outcome = await gen.ask("go").outcome()
        told = answers(transcript_of(await store.events(outcome.agent_id)))
    async with scripted(tmp_path, store=store, main=[says("", look), says("no")]) as gen:
        stranger = await gen.ask("spy").outcome()
        refused = answers(transcript_of(await store.events(stranger.agent_id)))
    assert str(file) in told[0]
    assert "found it" in told[2]
    assert "found it" not in refused[0]


async def test_the_sender_can_read_the_file_when_it_goes_on_later(tmp_path: Path, home: Path) -> None:
    file = home / ".gen" / "outputs" / "00000002.md"
    store = numbered()
    main = [says("", SEND), says("waiting"), says("told")]
    async with scripted(tmp_path, store=store, main=main, Explore=[says("found it")]) as gen:
        first = await gen.ask("go").outcome()
    again = [*main, says("", call("Read", file_path=str(file))), says("read")]
    async with scripted(tmp_path, store=store, main=again) as gen:
        outcome = await gen.ask("read it", session=first.agent_id).outcome()
        told = answers(transcript_of(await store.events(outcome.agent_id)))
    assert "found it" in told[-1]


async def test_where_no_file_can_be_written_the_task_goes_on_and_says_so(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "outputs").write_text("a file where a folder should be")
    main = [says("", SEND), says("waiting"), says("told")]
    explore = [says("", call("LS")), says("found it")]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=explore) as gen:
        await gen.ask("go").outcome()
        child = await gen.get("00000002")
    assert (child.status, child.result) == (Status.COMPLETED, "found it")
    assert "its output file could not be written: Not a directory" in child.evidence.warnings


async def test_a_file_that_lost_its_end_is_made_whole_by_the_next_look(tmp_path: Path, home: Path) -> None:
    main = [says("", SEND), says("waiting"), says("told")]
    file = home / ".gen" / "outputs" / "00000002.md"
    async with scripted(tmp_path, store=numbered(), main=main, Explore=[says("found it")]) as gen:
        await gen.ask("go").outcome()
        whole = file.read_text()
        file.write_text(whole[:-40])
        await gen.get("00000002")
    assert file.read_text() == whole


DIES = """
    import asyncio
    from gencode import GenCode
    from gencode.providers.scripted import ScriptedProvider
    from gencode.testing import call, says

    async def main():
        slow = [says("half way", call("Glob", pattern="*")), says("never", delay_ms=3_600_000)]
        send = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
        script = {"main": [says("I send one.", send), says("waiting")], "Explore": slow}
        async with GenCode.open(model=ScriptedProvider.of(script)) as gen:
            listener = gen.listen()
            job = await gen.start_turn("go")
            async for event in listener:
                message = getattr(event.fact, "message", None)
                if event.task != job.id and type(message).__name__ == "ToolMessage":
                    print(event.task, flush=True)

    asyncio.run(main())
"""


async def test_the_file_of_a_task_whose_process_was_killed_is_ended_by_the_next(
    tmp_path: Path, home: Path
) -> None:
    command = (sys.executable, "-c", textwrap.dedent(DIES))
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    task = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    file = home / ".gen" / "outputs" / f"{task}.md"
    before = file.read_text()
    async with GenCode.open(tmp_path, model=ScriptedProvider.of({})) as gen:
        after = file.read_text()
        child = await gen.get(task)
    assert child.status is Status.INTERRUPTED
    assert after == (
        f"{before}\n## Result\n\nError: the process that ran it died\n\nhalf way\n\n"
        f"[task {task} has finished (interrupted) at {child.ended_at}]\n"
    )
