"""TodoWrite: the list comes back, and the person sees how far it is."""

from typing import Any

import pytest

from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError
from gencode.tools.todo import MOST, TODO_WRITE
from tests.tools.desk import Desk


def step(content: str, status: str, **more: str) -> dict[str, str]:
    return {"content": content, "status": status, **more}


async def test_the_list_comes_back_and_one_line_is_shown(desk: Desk) -> None:
    todos = [
        step("Read the code", "completed"),
        step("Fix\nthe bug", "in_progress", activeForm="Fixing the bug", id="2"),
        step("Run the tests", "pending"),
    ]
    assert await desk.output(TODO_WRITE, todos=todos) == ToolOutput(
        "[x] Read the code\n[>] Fix the bug\n[ ] Run the tests"
    )
    assert desk.told == ["1 of 3 done: Fixing the bug"]


@pytest.mark.parametrize(
    ("todos", "last", "told"),
    [
        ([], "The list is empty.", "no steps left"),
        ([step("a", "completed")], "[x] a", "1 of 1 done"),
        (
            [step("a", "in_progress"), step("b", "in_progress")],
            "[2 steps are in progress; work on one at a time]",
            "0 of 2 done: a",
        ),
        ([step("a", "pending")], "[no step is in progress; mark the one you are working on]", "0 of 1 done"),
    ],
)
async def test_a_list_that_is_odd_is_taken_with_a_word_about_it(
    desk: Desk, todos: list[dict[str, str]], last: str, told: str
) -> None:
    text = await desk.use(TODO_WRITE, todos=todos)
    assert (text.split("\n")[-1], desk.told) == (last, [told])


@pytest.mark.parametrize(
    ("todos", "said"),
    [
        ([step("", "pending")], "Expected `str` of length >= 1"),
        ([step("a", "done")], "Invalid enum value 'done'"),
        ("a", "Expected `array`"),
        ([step("a", "pending")] * (MOST + 1), f"The list has more than {MOST} steps; combine some."),
    ],
)
async def test_a_list_that_cannot_be_understood_is_refused(desk: Desk, todos: Any, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        await desk.use(TODO_WRITE, todos=todos)
    assert said in str(caught.value)
    assert desk.told == []


def test_its_names_and_its_effect() -> None:
    assert (TODO_WRITE.name, TODO_WRITE.aliases, TODO_WRITE.effect) == ("TodoWrite", ("todo",), "read")
