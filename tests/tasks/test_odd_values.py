"""What a Python program says of the wrong type is refused in one sentence by every method; nothing begins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.testing import says, scripted

ID = "The id of a task must be a string, not {said!r}."
MESSAGE = "The message to a task must be a string, not {said!r}."
TRUTH = "{name} must be True or False, not {said!r}."
BUDGET = (
    "A budget must be Budget(…) or a dictionary with some of turns, tokens, usd, seconds, spawns, "
    "not {said!r}."
)
Wish = Callable[[GenCode, str, Any], Any]
BY_ID: dict[str, Wish] = {
    "resume": lambda gen, _, said: gen.resume(said, "go"),
    "fork": lambda gen, _, said: gen.fork(said, "go"),
    "stop": lambda gen, _, said: gen.stop(said),
    "send": lambda gen, _, said: gen.send(said, "go"),
    "interrupt": lambda gen, _, said: gen.interrupt(said),
    "hits": lambda gen, _, said: gen.affected(said, "stop"),
    "set_budget": lambda gen, _, said: gen.set_budget(said, Budget(turns=3)),
    "get": lambda gen, _, said: gen.get(said),
    "show": lambda gen, _, said: gen.show(said),
    "journal": lambda gen, _, said: gen.journal(said),
    "export": lambda gen, _, said: gen.export(said),
}
OTHER: dict[str, tuple[str, Wish]] = {
    "tasks": (ID, lambda gen, _, said: gen.tasks(said)),
    "session": (ID, lambda gen, _, said: gen.ask("go", session=said).outcome()),
    "send": (MESSAGE, lambda gen, task, said: gen.send(task, said)),
    "interrupt": (MESSAGE, lambda gen, task, said: gen.interrupt(task, said)),
    "keep": (TRUTH, lambda gen, task, said: gen.stop(task, keep=said)),
    "tree": (TRUTH, lambda gen, task, said: gen.stop(task, tree=said)),
    "background": (TRUTH, lambda gen, _, said: cast("Any", gen).task("Explore", "go", background=said)),
    "here": (TRUTH, lambda gen, task, said: gen.resume(task, "go", here=said)),
    "set_budget": (BUDGET, lambda gen, task, said: gen.set_budget(task, said)),
    "budget of a task": (BUDGET, lambda gen, _, said: gen.task("Explore", "go", budget=said)),
    "budget of a fork": (BUDGET, lambda gen, task, said: gen.fork(task, "go", budget=said)),
    "budget to go on": (BUDGET, lambda gen, task, said: gen.resume(task, "go", budget=said)),
    "ask": ("The prompt must be a string, not {said!r}.", lambda gen, _, said: gen.ask(said).outcome()),
    "leads": (
        "The agent must be a string, not {said!r}.",
        lambda gen, _, said: gen.ask("go", agent=said).outcome(),
    ),
    "take_in": (
        "The journal of a task must be a string, not {said!r}.",
        lambda gen, _, said: gen.take_in(said),
    ),
}


@pytest.mark.parametrize("said", [5, 2.5, b"x", ["x"]])
async def test_every_method_refuses_what_is_of_the_wrong_type(tmp_path: Path, said: Any) -> None:
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        before = await gen.journal(task)
        wishes = {f"{name} by id": (ID, wish) for name, wish in BY_ID.items()}
        for name, (sentence, wish) in {**wishes, **OTHER}.items():
            with pytest.raises(UserMistake) as refused:
                await wish(gen, task, said)
            assert (name, str(refused.value)) == (name, sentence.format(said=said, name=name))
        assert await gen.journal(task) == before
        assert [each.agent_id for each in await gen.tasks()] == [task]
        assert await gen.history.tasks(TaskQuery(conversations=True)) == []


async def test_a_handle_refuses_the_same_and_its_task_goes_on(tmp_path: Path) -> None:
    number: Any = 5
    async with scripted(tmp_path, Explore=[says("x", delay_ms=200)]) as gen:
        handle = await gen.task("Explore", "look", background=True)
        for wish in (handle.send(number), handle.interrupt(number)):
            with pytest.raises(UserMistake, match=r"^The message to a task must be a string, not 5\.$"):
                await wish
        with pytest.raises(
            UserMistake, match=r"^An event number must be a whole number, 0 or more, not 'x'\.$"
        ):
            await anext(handle.events("x"))  # pyright: ignore[reportArgumentType]
        assert (await handle.result()).status is Status.COMPLETED


async def test_a_budget_may_be_a_dictionary_everywhere(tmp_path: Path) -> None:
    odd: Any = {"turns": "x"}
    async with scripted(tmp_path, Explore=[says("x")] * 3) as gen:
        task = (await gen.task("Explore", "look", budget={"tokens": 5_000})).agent_id
        assert await gen.set_budget(task, {"turns": 9}) == Budget(turns=9)
        with pytest.raises(UserMistake) as unknown:
            await gen.set_budget(task, {"token": 9})
        with pytest.raises(UserMistake, match=r"^A budget of turns is a whole number from 1 to .*, not 'x'"):
            await gen.set_budget(task, odd)
        assert str(unknown.value) == (
            "A budget has no token; its fields are: turns, tokens, usd, seconds, spawns."
        )
        assert (await gen.find(task)).terms.budget == Budget(turns=9)
        nothing: Any = None
        assert (await gen.task("Explore", "look", budget=nothing)).status is Status.COMPLETED


OPENING: dict[str, str] = {
    "cwd": "cwd must be the path of a folder, not 5.",
    "model": "model must be the name of a model, or a provider with stream(request), not 5.",
    "tools": "tools must be a list of functions made with @tool, not 5.",
    "settings": "settings must be a dictionary of names and values, not 5.",
    "store": "store must be a journal, such as MemoryStore(), not 5.",
    "asker": "asker must be an object with ask(question), not 5.",
}


@pytest.mark.parametrize("name", OPENING)
async def test_what_cannot_be_opened_with_is_told(tmp_path: Path, name: str) -> None:
    said: dict[str, Any] = {"cwd": tmp_path, "model": "offline", name: 5}
    with pytest.raises(UserMistake) as refused:
        async with GenCode.open(**said):
            raise AssertionError("it was opened")
    assert str(refused.value) == OPENING[name]


async def test_a_function_is_no_tool_by_itself(tmp_path: Path) -> None:
    async def count() -> None: ...

    tools: Any = [count]
    with pytest.raises(
        UserMistake, match=r"^tools must be a list of functions made with @tool, not <function"
    ):
        async with GenCode.open(tmp_path, model="offline", tools=tools):
            raise AssertionError("it was opened")


async def test_what_is_asked_about_a_call_is_of_its_type(tmp_path: Path) -> None:
    number: Any = 5
    async with scripted(tmp_path, Explore=[]) as gen:
        for sentence, wish in {
            "The tool must be a string, not 5.": lambda: gen.explain(number, {}),
            "The arguments of a call must be a dictionary, not 5.": lambda: gen.explain("Read", number),
            "The agent must be a string, not 5.": lambda: gen.explain("Read", {}, agent=number),
        }.items():
            with pytest.raises(UserMistake) as refused:
                wish()
            assert str(refused.value) == sentence
