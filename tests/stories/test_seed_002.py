"""Seed 002, Task Types: kinds of agents as files, each with exactly its tools, kept to them twice over."""

from pathlib import Path
from typing import Any

import pytest
from tests.stories.seeds import answers, on_disk, posts, results, started, take_examples, transcript

from gencode.core.events import CallDecided
from gencode.core.rules import Action
from gencode.core.status import Status
from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home
from gencode.testing import call, says, scripted

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
PLAN = [*EXPLORE, "memory_write", "memory_append"]
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
FREE = {"permission_mode": "dontAsk", "tools": ["spawn_subagent"]}
OURS = {
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "list_files": "LS",
    "grep_files": "Grep",
    "web_search": "WebSearch",
}


def ours(names: list[str]) -> set[str]:
    return {OURS.get(name, name) for name in names}


@pytest.mark.parametrize(("kind", "table"), [("general", GENERAL), ("explore", EXPLORE), ("plan", PLAN)])
async def test_each_type_sees_exactly_the_tools_of_its_table(
    tmp_path: Path, kind: str, table: list[str]
) -> None:
    take_examples(tmp_path)
    main = [says("", call("spawn_subagent", type=kind, input="go")), says("Started."), says("Heard.")]
    settings, agents = FREE, dict[str, Any]({kind: [says("Done.")]})
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, settings=settings, main=main, **agents) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        given, child = await started(gen, "00000002"), await gen.get("00000002")
    assert (child.agent, child.status, outcome.result) == (kind, Status.COMPLETED, "Heard.")
    assert set(given.tools) == ours(table) and len(given.tools) == len(table)
    assert "## Your role" in given.system


async def test_the_type_is_general_when_none_is_named_and_its_result_comes_back(tmp_path: Path) -> None:
    take_examples(tmp_path)
    spawn = call("spawn_subagent", description="papers", input="search for the latest papers")
    main = [says("", spawn), says("It is on its way."), says("There are two new papers.")]
    settings = FREE
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, settings=settings, main=main, general=[says("two papers")]) as gen,
    ):
        outcome = await gen.ask("search for the latest AI papers").outcome()
        told = await transcript(gen, outcome.agent_id)
        child = await gen.get("00000002")
    assert answers(told)[0].startswith("Subagent [papers] started (id: 00000002)")
    (post,) = posts(told)
    assert post.text.startswith(
        "[Subagent 'papers' completed]\nTask: search for the latest papers\nResult:\ntwo papers"
    )
    assert (child.agent, outcome.result) == ("general", "There are two new papers.")


async def test_a_tool_outside_of_the_table_is_refused_with_an_error_result_and_changes_nothing(
    tmp_path: Path,
) -> None:
    take_examples(tmp_path)
    tries = [
        call("write_file", path="new.txt", content="x"),
        call("delete_file", path="keep.txt"),
        call("http_request", url="https://example.com/", method="DELETE"),
        call("memory_write", name="n", content="x"),
        call("exec", command="touch new.txt"),
    ]
    (tmp_path / "keep.txt").write_text("kept\n")
    explore = [says("", *tries, call("read_file", path="keep.txt")), says("I only looked.")]
    main = [says("", call("Task", subagent_type="explore", prompt="go")), says("ok")]
    async with (
        on_disk() as store,
        scripted(
            tmp_path, store=store, settings={"permission_mode": "dontAsk"}, main=main, explore=explore
        ) as gen,
    ):
        await gen.ask("go").outcome()
        found = results(await transcript(gen, "00000002"))
        events = await gen.history.events("00000002")
    decided = [event.fact.decision.action for event in events if isinstance(event.fact, CallDecided)]
    assert decided == [*[Action.DENY] * 5, Action.ALLOW]
    assert [result.error for result in found] == [*[True] * 5, False]
    assert all(result.text.startswith("There is no tool ") for result in found[:5])
    assert not (tmp_path / "new.txt").exists() and (tmp_path / "keep.txt").read_text() == "kept\n"


async def test_a_planner_keeps_its_plan_in_memory_and_a_later_one_reads_it(tmp_path: Path) -> None:
    take_examples(tmp_path)
    keep = says(
        "",
        call("memory_write", name="plan", content="1. Move."),
        call("memory_append", name="plan", content="2. Test."),
    )
    sends = [says("", call("Task", subagent_type="plan", prompt="plan it")), says("ok")]
    async with on_disk() as store:
        async with scripted(tmp_path, store=store, main=sends, plan=[keep, says("Planned.")]) as gen:
            await gen.ask("go").outcome()
            kept = results(await transcript(gen, "00000002"))
        look = [says("", call("memory_read", name="plan")), says("Read.")]
        sends = [says("", call("Task", subagent_type="explore", prompt="read it")), says("ok")]
        async with scripted(tmp_path, store=store, main=sends, explore=look) as gen:
            await gen.ask("go").outcome()
            (read,) = answers(await transcript(gen, "00000004"))
    assert [result.error for result in kept] == [False, False]
    assert read == "1. Move.\n2. Test.\n"


async def test_a_type_of_the_users_data_folder_is_found_and_kept_on_resume(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "subagents" / "deepdive"
    folder.mkdir(parents=True)
    text = '---\nname: deepdive\ndescription: "Digs."\ntools: "read_file, notify"\n---\n\nDig deep.\n'
    (folder / "SUBAGENT.md").write_text(text)
    trust(standing(tmp_path, gen_home()), gen_home())
    first = says("", call("Task", subagent_type="deepdive", prompt="dig"))
    again = says("", call("Task", subagent_type="deepdive", prompt="deeper", resume="00000002"))
    async with (
        on_disk() as store,
        scripted(
            tmp_path, store=store, main=[first, again, says("ok")], deepdive=[says("One."), says("Two.")]
        ) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        told = answers(await transcript(gen, outcome.agent_id))
        child, given = await gen.find("00000002"), await started(gen, "00000002")
    assert (told, child.agent, set(given.tools)) == (["One.", "Two."], "deepdive", {"Read", "notify"})
    assert "Dig deep." in given.system


async def test_a_skill_that_names_a_type_is_done_by_that_type(tmp_path: Path, home: Path) -> None:
    take_examples(tmp_path)
    folder = home / ".gen" / "skills" / "survey"
    folder.mkdir(parents=True)
    head = "---\nname: survey\ndescription: Surveys a topic.\ncontext: fork\nagent: explore\n---\n"
    text = f"{head}\nSurvey $ARGUMENTS.\n"
    (folder / "SKILL.md").write_text(text)
    main = [says("", call("Skill", skill="survey", arguments="parsers")), says("Surveyed.")]
    settings = {"permission_mode": "dontAsk"}
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, settings=settings, main=main, explore=[says("3 parsers")]) as gen,
    ):
        outcome = await gen.ask("survey the parsers").outcome()
        told = answers(await transcript(gen, outcome.agent_id))
        child, given = await gen.get("00000002"), await started(gen, "00000002")
    assert (child.agent, told, outcome.result) == ("explore", ["3 parsers"], "Surveyed.")
    assert "Survey parsers." in child.prompt and set(given.tools) == ours(EXPLORE)
