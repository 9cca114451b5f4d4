"""The tools that have to be named: who gets them, what each mode lets them do, that nobody pays for them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.toolbox import Toolbox
from gencode.app import TOOLS
from gencode.core.events import CallDecided, TaskStarted
from gencode.core.messages import Message, ToolMessage
from gencode.core.rules import Action
from gencode.core.spec import ToolChoice
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.testing import call, says, scripted
from gencode.tools.catalog import on_request

GENERAL = [
    "current_time",
    "sleep",
    "get_env",
    "set_env",
    "read_file",
    "write_file",
    "list_files",
    "delete_file",
    "move_file",
    "get_file_info",
    "edit_file",
    "grep_files",
    "http_get",
    "http_post",
    "http_request",
    "web_search",
    "json_parse",
    "json_stringify",
    "base64_encode",
    "base64_decode",
    "memory_list",
    "memory_read",
    "memory_write",
    "memory_patch",
    "memory_append",
    "task_list",
    "task_replay",
    "notify",
]
EXPLORE = [
    "current_time",
    "get_env",
    "read_file",
    "list_files",
    "get_file_info",
    "grep_files",
    "http_get",
    "web_search",
    "json_parse",
    "base64_decode",
    "memory_list",
    "memory_read",
    "task_list",
    "task_replay",
    "notify",
]
SUBAGENT = ["read_file", "write_file", "edit_file", "list_dir", "exec", "web_search", "web_fetch"]
ANYWHERE = [
    "Task",
    "TaskOutput",
    "TaskStop",
    "Read",
    "Glob",
    "Grep",
    "WebFetch",
    "WebSearch",
    "Bash",
    "spawn",
    "spawn_subagent",
]

HIDDEN_IN_PLAN = {"set_env", "Write", "delete_file", "move_file", "Edit", "http_post", "http_request"}
NOTES = {"memory_write", "memory_patch", "memory_append"}


def box() -> Toolbox:
    return Toolbox((*TOOLS, *on_request(Path)))


def agent(home: Path, name: str, tools: Sequence[str], mode: str = "") -> None:
    """A file of the user for an agent with just these tools."""
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    line = f"permission-mode: {mode}\n" if mode else ""
    text = f"---\nname: {name}\ndescription: tries tools\ntools: [{', '.join(tools)}]\n{line}---\nTry.\n"
    (folder / f"{name}.md").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def answers(transcript: Sequence[Message]) -> list[tuple[str, bool]]:
    found = [message for message in transcript if isinstance(message, ToolMessage)]
    return [(result.text, result.error) for message in found for result in message.results]


@pytest.mark.parametrize("name", [*GENERAL, *SUBAGENT, *ANYWHERE])
def test_each_name_of_the_seeds_tables_resolves(name: str) -> None:
    assert box().missing(ToolChoice((name,))) == ()


def test_what_is_on_the_shelf_is_what_it_says_it_is() -> None:
    shelf = on_request(Path)
    loaded = {each.name: each.load() for each in shelf}
    assert [(tool.name, tool.aliases, tool.source, tool.on_request) for tool in loaded.values()] == [
        (each.name, each.aliases, "builtin", True) for each in shelf
    ]
    reading = {name for name, tool in loaded.items() if tool.effect == "read"}
    assert {name for name, tool in loaded.items() if tool.effect == "write"} == set(loaded) - reading
    assert reading & (HIDDEN_IN_PLAN | NOTES) == set()


def test_what_only_reads_has_no_tool_that_does_more() -> None:
    assert {tool.effect for tool in box().only(EXPLORE).values()} == {"read"}


def test_who_does_not_name_them_does_not_have_them() -> None:
    assert [*box().chosen(ToolChoice())] == [tool.name for tool in TOOLS if not tool.on_request]


def test_nothing_of_the_shelf_is_loaded_before_it_is_named() -> None:
    code = (
        "import sys, gencode.app; from gencode.interfaces.cli.main import build_parser; build_parser(());"
        "print([name for name in sys.modules if name.startswith(('gencode.tools.', 'importlib.metadata'))])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ("memory_notes", "message", "http_request", "file_operations", "data_formats", "clock")
    assert all(find_spec(f"gencode.tools.{name}") for name in names)
    modules = {f"gencode.tools.{name}" for name in names}
    assert [name for name in (*modules, "importlib.metadata") if f"'{name}'" in ended.stdout] == []


async def test_an_open_gencode_lists_them_with_effect_and_source(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("Hello.")]) as gen:
        await gen.ask("go").outcome()
        listed = {tool.name: (tool.effect, tool.source) for tool in gen.toolbox.values()}
        choices = [gen.explain(name, {"path": "a"}) for name in ("delete_file", "get_file_info")]
    assert (listed["memory_write"], listed["http_get"]) == (("write", "builtin"), ("read", "builtin"))
    assert [each.decision for each in choices] == [Action.ASK, Action.ALLOW]


async def test_other_names_of_parameters_are_taken_and_judged_like_ours(tmp_path: Path, home: Path) -> None:
    agent(home, "host", ["read_file", "write_file", "edit_file", "list_dir"])
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / ".env").write_text("SECRET=1\n")
    turns = [
        says("", call("read_file", path="a.txt")),
        says("", call("edit_file", path="a.txt", old_text="one", new_text="two")),
        says("", call("write_file", path="b.txt", content="b"), call("read_file", path=".env")),
        says("", call("write_file", path=".git/x", content="b")),
        says("ok"),
    ]
    async with scripted(tmp_path, settings={"permission_mode": "acceptEdits"}, host=turns) as gen:
        outcome = await gen.ask("go", agent="host").outcome()
        told = answers(transcript_of(await gen.history.events(outcome.agent_id)))
    assert [error for _, error in told] == [False, False, False, True, True]
    assert (tmp_path / "a.txt").read_text() == "two\n" and (tmp_path / "b.txt").read_text() == "b"
    assert "it may hold secrets" in told[3][0] and "nothing may write into .git" in told[4][0]


EVERY_WRITE = [
    call("delete_file", path="a.txt"),
    call("move_file", source="a.txt", destination="b.txt"),
    call("write_file", path="c.txt", content="x"),
    call("edit_file", path="a.txt", old_string="o", new_string="x"),
    call("http_post", url="https://example.com/", body="x"),
    call("http_request", url="https://example.com/", method="DELETE"),
    call("set_env", name="A", value="b"),
]


async def test_in_plan_mode_nothing_that_changes_is_shown_and_all_of_it_is_refused(
    tmp_path: Path, home: Path
) -> None:
    agent(home, "planner-of-mine", GENERAL, "plan")
    (tmp_path / "a.txt").write_text("one\n")
    turns = [
        says("", call("read_file", path="a.txt"), *EVERY_WRITE),
        says("", call("memory_write", name="plan", content="Do it.")),
        says("Planned."),
    ]
    sends = [says("", call("Task", subagent_type="planner-of-mine", prompt="plan")), says("ok")]
    async with scripted(tmp_path, main=sends, planner_of_mine=turns) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        events = await gen.history.events(child.agent_id)
    (started,) = [event.fact for event in events if isinstance(event.fact, TaskStarted)]
    told = answers(transcript_of(events))
    assert set(started.tools) & (HIDDEN_IN_PLAN | NOTES) == NOTES
    assert [error for _, error in told] == [False, *[True] * len(EVERY_WRITE), False]
    assert names(tmp_path) == ["a.txt"]
    notes = [path.read_text() for path in (home / ".gen" / "memory").rglob("plan.md")]
    assert notes == ["Do it."]


async def test_the_main_agent_in_plan_mode_and_headless_has_no_more(tmp_path: Path, home: Path) -> None:
    agent(home, "host", GENERAL)
    (tmp_path / "a.txt").write_text("one\n")
    for mode, hidden in (("plan", HIDDEN_IN_PLAN), ("default", set[str]())):
        turns = [says("", *EVERY_WRITE), says("No.")]
        async with scripted(tmp_path, settings={"permission_mode": mode}, host=turns) as gen:
            outcome = await gen.ask("go", agent="host").outcome()
            events = await gen.history.events(outcome.agent_id)
        decided = [event.fact.decision.action for event in events if isinstance(event.fact, CallDecided)]
        (started,) = [event.fact for event in events if isinstance(event.fact, TaskStarted)]
        assert set(started.tools) & HIDDEN_IN_PLAN == HIDDEN_IN_PLAN - hidden
        assert decided == [Action.DENY] * len(EVERY_WRITE)
        assert [error for _, error in answers(transcript_of(events))] == [True] * len(EVERY_WRITE)
    assert names(tmp_path) == ["a.txt"]


async def test_an_agent_that_only_reads_is_refused_what_its_file_does_not_name(
    tmp_path: Path, home: Path
) -> None:
    agent(home, "reader", EXPLORE)
    (tmp_path / "a.txt").write_text("one\n")
    tries = [*EVERY_WRITE, call("memory_write", name="x", content="x"), call("sleep", duration=1)]
    turns = [says("", *tries, call("exec", command="touch b")), says("No.")]
    async with scripted(tmp_path, settings={"permission_mode": "dontAsk"}, reader=turns) as gen:
        outcome = await gen.ask("go", agent="reader").outcome()
        told = answers(transcript_of(await gen.history.events(outcome.agent_id)))
    assert len(told) == len(tries) + 1
    assert all(error and "There is no tool" in text for text, error in told)
    assert names(tmp_path) == ["a.txt"] and not (home / ".gen/memory").exists()


async def test_with_full_autonomy_everything_does_what_it_says(tmp_path: Path, home: Path) -> None:
    agent(home, "host", GENERAL)
    (tmp_path / "a.txt").write_text("one\n")
    turns: list[dict[str, Any]] = [
        says("", call("read_file", path="a.txt")),
        says("", call("move_file", source="a.txt", destination="b.txt")),
        says("", call("delete_file", path="b.txt")),
        says("", call("json_stringify", value={"a": 1}), call("base64_encode", text="a")),
        says("", call("memory_append", name="log", content="x", scope="user"), call("notify", message="hi")),
        says("", call("set_env", name="A_B", value="c"), call("get_env", name="A_B"), call("task_list")),
        says("Done."),
    ]
    async with scripted(tmp_path, settings={"permission_mode": "dontAsk"}, host=turns) as gen:
        outcome = await gen.ask("go", agent="host").outcome()
        told = answers(transcript_of(await gen.history.events(outcome.agent_id)))
    assert outcome.status is Status.COMPLETED
    assert told[1:] == [
        ("Moved a.txt to b.txt.", False),
        ("Deleted b.txt.", False),
        (json.dumps({"a": 1}), False),
        ("YQ==", False),
        ("Created the note log (user): 2 bytes.", False),
        ("The user was notified.", False),
        ("A_B is set for your later commands.", False),
        ("c", False),
        ("There are no tasks.", False),
    ]
    assert {change.path: change.sha256 for change in outcome.evidence.files_changed} == {
        "a.txt": "",
        "b.txt": "",
    }


def test_every_one_of_them_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "tools.md").read_text("utf-8")
    assert [each.name for each in on_request(Path) if f"`{each.name}`" not in page] == []
