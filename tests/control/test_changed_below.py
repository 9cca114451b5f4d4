"""What an agent is told of files that it had read and that were changed below it."""

from pathlib import Path
from typing import Any

import pytest

from gencode.testing import Turns, call, says, scripted
from tests.control.words import heard, numbered, results, said

AUTONOMOUS = {"permission_mode": "dontAsk", "max_depth": 2}
READ = says("", call("Read", file_path="a.txt"))
EDIT = says("", call("Edit", file_path="a.txt", old_string="one", new_string="two"))
MINE = says("", call("Edit", file_path="a.txt", old_string="one", new_string="mine"))
NOTE = "\n[Files that you had read have changed: a.txt (by {by}). Read them again before you rely on them.]"


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """A folder with a file, and agents that may send each other."""
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    for name, tools in {"first": "Task(second), Bash, Read, Edit", "second": "Bash, Read, Edit"}.items():
        (agents / f"{name}.md").write_text(
            f"---\nname: {name}\ndescription: {name}\ntools: {tools}\n---\nGo.\n"
        )
    (tmp_path / "a.txt").write_text("one\n")
    return tmp_path


def sending(agent: str, **more: bool) -> dict[str, Any]:
    return says("", call("Task", subagent_type=agent, prompt="go", **more))


async def told_to_main(folder: Path, main: Turns, first: Turns = (), second: Turns = ()) -> list[str]:
    """What the calls of a conversation gave."""
    begun = scripted(
        folder,
        settings=AUTONOMOUS,
        store=numbered(),
        main=main,
        first=first or [says("")],
        second=second or [says("")],
    )
    async with begun as gen:
        outcome = await gen.ask("go").outcome()
        return results(await said(gen, outcome.agent_id))


async def test_a_change_two_levels_below_is_told_with_its_author(folder: Path) -> None:
    told = await told_to_main(
        folder,
        main=[READ, sending("first"), MINE, says("")],
        first=[sending("second"), says("sent one")],
        second=[READ, EDIT, says("edited")],
    )
    by = "the agent second, task 00000003"
    assert told[1:] == [
        f"sent one{NOTE.format(by=by)}",
        f"a.txt changed since it was read (by {by}); Read it again first.",
    ]


async def test_a_change_by_a_command_is_told_with_its_author_and_only_once(folder: Path) -> None:
    told = await told_to_main(
        folder,
        main=[READ, sending("first"), sending("second"), MINE, says("")],
        first=[says("", call("Bash", command="echo more >> a.txt")), says("appended")],
        second=[says("", call("Bash", command="cat a.txt; touch b.txt")), says("looked")],
    )
    by = "the agent first, task 00000002"
    assert told[1:] == [
        f"appended{NOTE.format(by=by)}",
        "looked",
        f"a.txt changed since it was read (by {by}); Read it again first.",
    ]


async def test_what_an_agent_changed_by_its_own_command_is_no_news_to_it(folder: Path) -> None:
    own = says("", call("Bash", command="echo more >> a.txt"))
    told = await told_to_main(
        folder, main=[READ, own, sending("second"), says("")], second=[says("nothing done")]
    )
    assert told[2] == "nothing done"


async def test_a_result_from_the_background_brings_the_same_news(folder: Path) -> None:
    main = [READ, sending("first", run_in_background=True), says("waiting"), says("")]
    first = [says("", call("Bash", command="echo more >> a.txt")), says("appended")]
    async with scripted(folder, settings=AUTONOMOUS, store=numbered(), main=main, first=first) as gen:
        outcome = await gen.ask("go").outcome()
        last = heard(await said(gen, outcome.agent_id))[-1].text
    assert last.endswith(f"appended{NOTE.format(by='the agent first, task 00000002')}")
