"""What an agent is told of files that it had read and that were changed below it."""

from pathlib import Path
from typing import Any

import pytest

from gencode.testing import Turns, call, says, scripted
from tests.tasks.autonomous_agent import AUTONOMOUS, NOTE
from tests.tasks.words import heard, numbered, results, said

HANDS = "Bash, Read, Edit, delete_file, move_file"
READ = says("", call("Read", file_path="a.txt"))
EDIT = says("", call("Edit", file_path="a.txt", old_string="one", new_string="two"))
MINE = says("", call("Edit", file_path="a.txt", old_string="one", new_string="mine"))


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """A folder with a file, and agents that may send each other."""
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    for name, tools in {"first": f"Task(second), {HANDS}", "second": HANDS}.items():
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


@pytest.mark.parametrize(
    "command", ["chmod +x a.txt", "touch a.txt", "echo one > a.txt", "cp a.txt b.txt && mv b.txt a.txt"]
)
async def test_a_file_in_which_the_same_is_counts_as_unchanged(folder: Path, command: str) -> None:
    told = await told_to_main(
        folder,
        main=[READ, sending("first"), MINE, says("")],
        first=[says("", call("Bash", command=command)), says("done")],
    )
    assert (told[1], (folder / "a.txt").read_text()) == ("done", "mine\n")


async def test_an_old_time_and_size_hide_no_change(folder: Path) -> None:
    hides = "touch -r a.txt b.txt && echo two > a.txt && touch -r b.txt a.txt"
    told = await told_to_main(
        folder,
        main=[READ, sending("first"), MINE, says("")],
        first=[says("", call("Bash", command=hides)), says("done")],
    )
    by = "the agent first, task 00000002"
    assert told[1:] == [
        f"done{NOTE.format(by=by)}",
        f"a.txt changed since it was read (by {by}); Read it again first.",
    ]


async def test_what_an_agent_changed_by_its_own_command_is_no_news_to_it(folder: Path) -> None:
    own = says("", call("Bash", command="echo more >> a.txt"))
    told = await told_to_main(
        folder, main=[READ, own, sending("second"), says("")], second=[says("nothing done")]
    )
    assert told[2] == "nothing done"


async def test_a_result_from_the_background_brings_the_same_news(folder: Path) -> None:
    main = [READ, sending("first", run_in_background=True), says("waiting"), says("ok")]
    first = [says("", call("Bash", command="echo more >> a.txt")), says("appended")]
    async with scripted(folder, settings=AUTONOMOUS, store=numbered(), main=main, first=first) as gen:
        outcome = await gen.ask("go").outcome()
        last = heard(await said(gen, outcome.agent_id))[-1].text
    assert last.endswith(f"appended{NOTE.format(by='the agent first, task 00000002')}")


@pytest.mark.parametrize("how", ["tool", "move", "command"])
async def test_a_file_that_was_deleted_below_is_told_with_who_did_it(folder: Path, how: str) -> None:
    deletes = {
        "tool": [READ, says("", call("delete_file", path="a.txt"))],
        "move": [says("", call("move_file", source="a.txt", destination="b.txt"))],
        "command": [says("", call("Bash", command="rm a.txt"))],
    }
    told = await told_to_main(
        folder, main=[READ, sending("first"), MINE, says("")], first=[*deletes[how], says("deleted")]
    )
    assert told[1] == f"deleted{NOTE.format(by='the agent first, task 00000002')}"
    assert not (folder / "a.txt").exists()


@pytest.mark.parametrize("how", ["tool", "move", "command"])
async def test_nobody_is_told_of_what_it_deleted_itself(folder: Path, how: str) -> None:
    deletes = {
        "tool": call("delete_file", path="a.txt"),
        "move": call("move_file", source="a.txt", destination="b.txt"),
        "command": call("Bash", command="rm a.txt"),
    }
    first = [READ, says("", deletes[how]), sending("second"), says("sent one")]
    begun = scripted(
        folder,
        settings=AUTONOMOUS,
        store=numbered(),
        main=[sending("first"), says("")],
        first=first,
        second=[says("looked")],
    )
    async with begun as gen:
        await gen.ask("go").outcome()
        told = results(await said(gen, "00000002"))
    assert (told[2], (folder / "a.txt").exists()) == ("looked", False)
