"""GenCode inside somebody's program: several at once, in a loop that runs; nothing of theirs is touched."""

import asyncio
import logging
import os
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import gencode
from gencode import (
    CallFinished,
    CallStarted,
    Event,
    GenCode,
    MessageAdded,
    Status,
    TaskCreated,
    TaskEnded,
    TaskStarted,
    TextArrived,
)
from gencode.app import components
from gencode.core.errors import StoreTrouble
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import call, says


def project(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "who.txt").write_text(f"I am {name}.\n")
    return folder


def reader(name: str, *, slow: bool = False) -> ScriptedProvider:
    """Reads who.txt, tries to write, and says whose script it is."""
    wait = {"delay_ms": 60_000} if slow else {}
    turns = [
        says("", call("Read", file_path="who.txt")),
        says("", call("Write", file_path="new.txt", content=name)),
        says(f"Said by {name}.", **wait),
    ]
    return ScriptedProvider.of({"*": turns})


async def test_two_live_in_one_process_with_folders_models_and_settings_of_their_own(tmp_path: Path) -> None:
    one, two = project(tmp_path, "one"), project(tmp_path, "two")
    wide, narrow = {"permission_mode": "acceptEdits"}, {"permission_mode": "plan", "max_agents": 1}
    async with (
        GenCode.open(one, model=reader("one"), settings=wide) as first,
        GenCode.open(two, model=reader("two"), settings=narrow) as second,
    ):
        outcomes = await asyncio.gather(
            first.task("general-purpose", "go"), second.task("general-purpose", "go")
        )
        shown = [await gen.show(each.agent_id) for gen, each in zip((first, second), outcomes, strict=True)]
    assert [each.result for each in outcomes] == ["Said by one.", "Said by two."]
    assert ["I am one." in str(shown[0].transcript), "I am two." in str(shown[1].transcript)] == [True, True]
    assert "I am two." not in str(shown[0].transcript)
    assert (one / "new.txt").read_text() == "one"
    assert not (two / "new.txt").exists()
    assert [each.cwd for each in outcomes] == [str(one), str(two)]


async def test_closing_one_leaves_the_other_at_work(tmp_path: Path) -> None:
    one, two = project(tmp_path, "one"), project(tmp_path, "two")
    async with GenCode.open(two, model=reader("two")) as second:
        async with GenCode.open(one, model=reader("one", slow=True)) as first:
            waiting = await first.task("Explore", "go", background=True)
            working = await second.task("Explore", "go", background=True)
            async for event in waiting.events():
                if isinstance(event.fact, MessageAdded) and event.seq and event.seq > 5:
                    break
        outcome = await working.result()
        stopped = await second.get(waiting.id)
        with pytest.raises(StoreTrouble):
            await first.get(waiting.id)
        again = await second.task("Explore", "go")
    assert (outcome.result, outcome.status, again.result) == ("Said by two.", "completed", "Said by two.")
    assert stopped.status in (Status.CANCELLED, Status.INTERRUPTED)


async def test_events_are_typed_and_come_as_things_happen(tmp_path: Path) -> None:
    script = ScriptedProvider.of(
        {
            "main": [says("", call("Task", subagent_type="Explore", prompt="look")), says("All done.")],
            "Explore": [says("", call("Read", file_path="who.txt")), says("It is one.")],
        }
    )
    seen: list[Event] = []
    async with GenCode.open(project(tmp_path, "one"), model=script) as gen:
        async for event in gen.ask("Who is it?"):
            seen.append(event)
    main, child = dict.fromkeys(event.task for event in seen)
    kinds = {task: [type(each.fact) for each in seen if each.task == task] for task in (main, child)}
    assert (kinds[child][0], kinds[child][1], kinds[child][-1]) == (TaskCreated, TaskStarted, TaskEnded)
    assert {CallStarted, CallFinished, MessageAdded} <= {*kinds[main]}
    said = "".join(e.fact.text for e in seen if isinstance(e.fact, TextArrived) and e.task == main)
    assert said == "All done."
    for task in (main, child):
        numbers = [each.seq for each in seen if each.task == task and each.seq is not None]
        assert numbers == list(range(1, len(numbers) + 1))


async def test_a_listener_hears_all_tasks_until_its_with_is_left(tmp_path: Path) -> None:
    async with GenCode.open(project(tmp_path, "one"), model=reader("one")) as gen:
        with gen.listen() as events:
            outcome = await gen.task("Explore", "go")
        ended = [event.fact async for event in events if isinstance(event.fact, TaskEnded)]
        assert not components(gen).bus.heard
    assert [fact.result for fact in ended] == [outcome.result]


async def test_a_server_answers_several_at_once_from_one_open_gencode(tmp_path: Path) -> None:
    async with GenCode.open(project(tmp_path, "one"), model=reader("one")) as gen:

        async def serve(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
            prompt = (await incoming.readline()).decode().strip()
            outcome = await gen.task("Explore", prompt)
            outgoing.write(f"{outcome.prompt}: {outcome.result}".encode())
            outgoing.close()
            await outgoing.wait_closed()

        async def ask(port: int, prompt: str) -> str:
            incoming, outgoing = await asyncio.open_connection("127.0.0.1", port)
            outgoing.write(f"{prompt}\n".encode())
            answer = (await incoming.read()).decode()
            outgoing.close()
            await outgoing.wait_closed()
            return answer

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            answers = await asyncio.gather(*(ask(port, f"question {each}") for each in range(5)))
    assert answers == [f"question {each}: Said by one." for each in range(5)]


def test_threads_with_loops_of_their_own_share_a_journal(tmp_path: Path) -> None:
    results: dict[str, str] = {}

    async def work(name: str) -> None:
        async with GenCode.open(project(tmp_path, name), model=reader(name)) as gen:
            results[name] = (await gen.task("Explore", "go")).result

    threads = [threading.Thread(target=asyncio.run, args=(work(name),)) for name in ("one", "two")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == {"one": "Said by one.", "two": "Said by two."}


async def test_nothing_of_the_program_around_it_is_changed(tmp_path: Path) -> None:
    def around() -> dict[str, Any]:
        return {
            "folder": Path.cwd(),
            "environment": dict(os.environ),
            "signals": [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
            "log": list(logging.getLogger().handlers),
            "filters": list(warnings.filters),
            "tasks": {task.get_name() for task in asyncio.all_tasks()},
        }

    before = around()
    async with GenCode.open(project(tmp_path, "one"), model=reader("one")) as gen:
        await gen.task("Bash", "go")
    assert around() == before


def test_every_public_name_is_there() -> None:
    assert {name for name in gencode.__all__ if getattr(gencode, name).__module__.startswith("gencode.")} == {
        *gencode.__all__
    }


def test_the_api_is_methods_that_help_shows() -> None:
    methods = ("set_budget", "replay", "journal", "difference", "find", "outcome_of", "send", "take_in")
    assert all(getattr(GenCode, name).__doc__ for name in methods)
