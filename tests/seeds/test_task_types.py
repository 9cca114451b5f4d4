"""Task Types: kinds of agents as folders, each with its own tools and instructions."""

import json
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.events import ProgressMade, TaskCreated
from gencode.core.status import Status
from gencode.core.subsession_events import Lineage, wire
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from gencode.tools.http_request import http_get, http_post, http_request
from tests.interfaces.cli.running import gen
from tests.seeds.playing import FIRST, SECOND, Played, asks_for, play, task
from tests.seeds.rows import seed
from tests.seeds.setup import take_examples
from tests.seeds.type_files import GENERAL, PLANS, READS, ours, trust_all, write_type
from tests.stories.agent_file import write_agent
from tests.workspaces.village import page, village_in

FREE = {"permission_mode": "dontAsk"}
SPAWNS = {"permission_mode": "dontAsk", "tools": ["spawn_subagent"]}


def opened(folder: Path) -> Any:
    """A GenCode in which no model is asked."""
    return scripted(folder, main=[says("Hi.")])


async def used(folder: Path, kind: str, *calls: dict[str, Any], **more: Any) -> Played:
    """What a type gets when it makes these calls in one reply."""
    turns = [says("", *calls), says("Done.")]
    return await play(folder, asks_for(task(kind)), settings=FREE, **{kind: turns}, **more)


async def given(folder: Path, kind: str) -> Played:
    """A conversation in which a type is started and answers."""
    return await play(folder, asks_for(task(kind)), settings=FREE, others=[says("Done.")])


def tools_of(played: Played, kind: str) -> set[str]:
    """The tools that a type was offered; LS is not offered beside Read, and works all the same."""
    offered = {each.name for each in played.requests_of(kind)[0].tools}
    return offered | {"LS"} if "Read" in offered else offered


@seed(
    "002",
    "Type = folder with SUBAGENT.md (YAML front matter + body)",
    use="subagents/explore/SUBAGENT.md",
)
async def test_a_folder_with_a_file_is_a_type(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", body="Write verses.")
    trust_all(tmp_path)
    played = await given(tmp_path, "poet")
    assert played.answers == ["Done."]
    assert "Write verses." in played.requests_of("poet")[0].system


@seed(
    "002",
    "`data/subagents/` overrides `subagents/`",
    use="`data/subagents/explore/SUBAGENT.md`; with `override: true` it also replaces the built-in Explore",
)
async def test_a_type_of_the_user_comes_before_one_that_ships(tmp_path: Path) -> None:
    write_type(tmp_path, "explore", body="The shipped one.", more="override: true\n")
    write_type(tmp_path, "explore", body="My own.", more="override: true\n", at="data/subagents")
    trust_all(tmp_path)
    async with opened(tmp_path) as gencode:
        assert gencode.agents.find("explore").prompt == "My own."


@seed("002", "general/explore/plan ship with the product", use="gen agents add task-types")
def test_the_types_are_copied_into_a_project_by_one_command(tmp_path: Path) -> None:
    added = gen("agents", "add", "task-types", "--json", cwd=tmp_path)
    assert {Path(each).name for each in added.json["written"]} >= {"general", "explore", "plan"}
    assert (tmp_path / "subagents" / "explore" / "SUBAGENT.md").is_file()


@seed(
    "002",
    "Created at run time",
    use="Write `data/subagents/poet/SUBAGENT.md`, then `gen trust`; the types you trusted keep working",
)
async def test_a_new_type_waits_for_trust_alone_and_changes_no_other_one(tmp_path: Path) -> None:
    take_examples(tmp_path)
    async with opened(tmp_path) as gencode:
        write_type(tmp_path, "poet", at="data/subagents")
        assert gencode.agents.find("explore").source.endswith("subagents/explore/SUBAGENT.md")
        with pytest.raises(UserMistake, match="gen trust"):
            gencode.agents.find("poet")
        trust_all(tmp_path)
        assert gencode.agents.find("poet").name == "poet"


@seed(
    "002",
    "`name` must match the directory",
    use="`gen agents lint` and `gen agents list` name a file whose name differs from its folder",
)
async def test_a_type_whose_name_is_not_that_of_its_folder_cannot_be_used(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", called="novelist")
    trust_all(tmp_path)
    async with opened(tmp_path) as gencode:
        (wrong,) = [each for each in gencode.agents.listing() if each.problem]
        assert "'novelist'" in wrong.problem and "'poet'" in wrong.problem
        with pytest.raises(UserMistake):
            gencode.agents.find("novelist")


@seed(
    "002",
    "`description` injected into the main prompt so that the model can choose",
    use='description: "Fast, read-only research agent. Use when you need to search or read."',
)
async def test_the_main_agent_reads_when_to_use_a_type(tmp_path: Path) -> None:
    write_type(tmp_path, "poet")
    trust_all(tmp_path)
    played = await play(tmp_path, [says("Hi.")])
    assert "- poet: Does poet. Use it when poet is needed." in played.requests[0].system


@seed("002", "`tools`: comma separated names", use='tools: "read_file, list_files, notify"')
async def test_a_type_has_the_tools_that_its_file_names(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", "read_file, list_files, notify, web_search")
    trust_all(tmp_path)
    tools = tools_of(await given(tmp_path, "poet"), "poet")
    assert tools == ours("read_file", "list_files", "notify", "web_search")


@seed("002", '`tools: "*"` = all task tools', use='tools: "*"')
async def test_a_star_is_every_tool_that_a_subagent_may_have(tmp_path: Path) -> None:
    write_type(tmp_path, "star", "*")
    trust_all(tmp_path)
    calls = [call(name) for name in GENERAL]
    played = await used(tmp_path, "star", *calls, call("message", content="x"), call("Task"))
    refused = [each.text.startswith("There is no tool") for each in played.results_of(FIRST)]
    assert refused == [False] * len(GENERAL) + [True, True]
    assert ours(*GENERAL) <= tools_of(played, "star")


@seed("002", "`model`: tier", use="`model: powerful` in the file; `[models]` in the settings names the tiers")
async def test_a_type_may_name_a_tier(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", more="model: powerful\n")
    trust_all(tmp_path)
    settings = {"models": {"powerful": "openai/gpt-5.4"}, "model": "openai/gpt-5.4-mini"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        async with GenCode.open(tmp_path, settings=settings, store=MemoryStore()) as gencode:
            spec = gencode.agents.find("poet")
            assert gencode.models.resolve(spec.model, gencode.model, from_file=True).name == "openai/gpt-5.4"


@seed("002", "`model`: provider/model", use="model: openai/gpt-4o")
async def test_a_type_may_name_a_model(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", more="model: openai/gpt-4o\n")
    trust_all(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        settings = {"model": "openai/gpt-5.4-mini"}
        async with GenCode.open(tmp_path, settings=settings, store=MemoryStore()) as gencode:
            spec = gencode.agents.find("poet")
            assert gencode.models.resolve(spec.model, gencode.model, from_file=True).name == "openai/gpt-4o"


@seed(
    "002",
    "`model` omitted → default; unknown → default with a warning",
    use="Leave `model` out; `gen agents list` warns of one that is not known",
)
async def test_a_type_without_a_model_that_is_known_has_its_parents(tmp_path: Path) -> None:
    write_type(tmp_path, "plain")
    write_type(tmp_path, "odd", more="model: supersonic\n")
    trust_all(tmp_path)
    played = await play(tmp_path, asks_for(task("plain"), task("odd")), others=[says("Done.")])
    plain, odd = played.tasks
    assert plain.model == odd.model == played.outcome.model
    assert not any("model" in each for each in plain.evidence.warnings)
    async with opened(tmp_path) as gencode:
        assert any("supersonic" in each for each in gencode.agents.find("odd").warnings)


@seed("002", "Body appended to the base persona prompt", use="The text below the fields of `SUBAGENT.md`")
async def test_the_body_of_the_file_follows_the_persona(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", body="## Your role\n\nYou write verses.")
    trust_all(tmp_path)
    system = (await given(tmp_path, "poet")).requests_of("poet")[0].system
    assert 0 <= system.index("a subagent of GenCode") < system.index("You write verses.")


@seed("002", "general: 28 tools", use='spawn_subagent(type="general", input="…")')
async def test_general_has_the_28_tools_of_its_table(tmp_path: Path) -> None:
    take_examples(tmp_path)
    assert len(GENERAL) == 28
    assert tools_of(await given(tmp_path, "general"), "general") == ours(*GENERAL)


@seed("002", "explore: 15 tools, read-only", use='spawn_subagent(type="explore", input="…")')
async def test_explore_has_the_15_tools_of_its_table(tmp_path: Path) -> None:
    take_examples(tmp_path)
    assert len(READS) == 15
    assert tools_of(await given(tmp_path, "explore"), "explore") == ours(*READS)


@seed("002", "plan: 17 tools, read + memory", use='spawn_subagent(type="plan", input="…")')
async def test_plan_has_the_17_tools_of_its_table(tmp_path: Path) -> None:
    take_examples(tmp_path)
    assert len(PLANS) == 17
    assert tools_of(await given(tmp_path, "plan"), "plan") == ours(*PLANS)


@seed("002", "http_request/http_post not in explore/plan", use="A call of them is refused")
async def test_explore_and_plan_send_no_arbitrary_requests(tmp_path: Path) -> None:
    take_examples(tmp_path)
    sends = [call("http_request", url="https://example.com/", method="DELETE"), call("http_post", url="x")]
    for kind in ("explore", "plan"):
        results = (await used(tmp_path, kind, *sends)).results_of(FIRST)
        assert [each.text.startswith("There is no tool") for each in results] == [True, True]


@seed(
    "002",
    "current_time, sleep, get_env, set_env",
    use="`tools:` names them, or `GEN_TOOLS=current_time` for the main agent",
)
async def test_a_type_reads_the_clock_and_variables_but_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    take_examples(tmp_path)
    played = await used(
        tmp_path,
        "general",
        call("current_time"),
        call("sleep", duration=1),
        call("set_env", name="STAGE", value="test"),
        call("get_env", name="STAGE"),
        call("get_env", name="OPENAI_API_KEY"),
    )
    results = played.results_of(FIRST)
    assert [each.error for each in results] == [False] * 5
    assert results[3].text == "test"
    assert "sk-test" not in results[4].text


@seed(
    "002",
    "read/write/list/delete/move/info/edit/grep file tools",
    use='write_file(path="a.txt", content="…"), move_file(source="a.txt", destination="b.txt")',
)
async def test_a_type_works_on_files_under_the_names_of_the_seed(tmp_path: Path) -> None:
    take_examples(tmp_path)
    played = await used(
        tmp_path,
        "general",
        call("write_file", path="a.txt", content="one\n"),
        call("edit_file", path="a.txt", old_text="one", new_text="two"),
        call("read_file", path="a.txt"),
        call("grep_files", pattern="two", output_mode="content"),
        call("get_file_info", path="a.txt"),
        call("move_file", source="a.txt", destination="b.txt"),
        call("list_files", path="."),
        call("delete_file", path="b.txt"),
    )
    results = played.results_of(FIRST)
    assert [each.error for each in results] == [False] * 8
    assert "two" in results[2].text and "two" in results[3].text and "b.txt" in results[6].text
    assert not (tmp_path / "b.txt").exists()


@seed("002", "http_get, http_post, http_request, web_search", use='http_get(url="https://example.com/")')
async def test_a_type_asks_the_web(tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    folder.mkdir()
    take_examples(folder)
    async with village_in(tmp_path) as village:
        await village.build("a.example.net", page(b"hello", "Content-Type: text/plain"))
        url = "http://a.example.net/"
        tools = [http_get(village), http_post(village), http_request(village)]
        calls = [
            call("http_get", url=url),
            call("http_post", url=url, body="x"),
            call("http_request", url=url, method="GET"),
        ]
        played = await used(folder, "general", *calls, tools=tools)
    results = played.results_of(FIRST)
    assert [("hello" in each.text, each.error) for each in results] == [(True, False)] * 3
    assert "WebSearch" in tools_of(played, "general")


@seed(
    "002",
    "json_parse/stringify, base64_encode/decode",
    use='json_parse(text="[1]"), base64_encode(text="hi")',
)
async def test_a_type_reads_and_writes_json_and_base64(tmp_path: Path) -> None:
    take_examples(tmp_path)
    played = await used(
        tmp_path,
        "general",
        call("json_parse", text='{"a": [1]}', pointer="/a/0"),
        call("json_stringify", value={"a": 1}),
        call("base64_encode", text="hi"),
        call("base64_decode", text="aGk="),
    )
    assert [each.text for each in played.results_of(FIRST)] == ["1", '{"a": 1}', "aGk=", "hi"]


@seed(
    "002",
    "memory_list/read/write/patch/append",
    use='memory_write(name="plan", content="…"); a later agent calls memory_read(name="plan")',
)
async def test_a_note_of_one_type_is_read_by_a_later_one(tmp_path: Path) -> None:
    take_examples(tmp_path)
    writes = [
        call("memory_write", name="plan", content="1. Move."),
        call("memory_append", name="plan", content="2. Test."),
    ]
    await used(tmp_path, "plan", *writes)
    reads = [
        call("memory_list"),
        call("memory_patch", name="plan", old_string="Move", new_string="Copy"),
        call("memory_read", name="plan"),
    ]
    results = (await used(tmp_path, "general", *reads)).results_of(FIRST)
    assert [each.error for each in results] == [False] * 3
    assert "plan" in results[0].text and results[2].text == "1. Copy.\n2. Test.\n"


@seed("002", "task_list, task_replay inside a type", use='task_list(), task_replay(task_id="9f3a1c2e")')
async def test_a_type_sees_the_tasks_of_its_session(tmp_path: Path) -> None:
    take_examples(tmp_path)
    (tmp_path / "secret.txt").write_text("hidden\n")
    first = [says("I look.", call("read_file", path="secret.txt")), says("Nothing here.")]
    second = [says("", call("task_list"), call("task_replay", task_id=FIRST)), says("Seen.")]
    main = asks_for(task("explore", "search", description="search"), task("plan"))
    listed, replayed = (await play(tmp_path, main, explore=first, plan=second)).results_of(SECOND)
    lines = listed.text.split("\n")
    assert [line.split()[:2] for line in lines] == [[FIRST, "explore:"], [SECOND, "plan:"]]
    assert "Nothing here." in replayed.text and "read_file" in replayed.text
    assert "hidden" not in replayed.text and "secret.txt" not in replayed.text


@seed("002", "notify", use='notify(message="half way")')
async def test_a_milestone_is_shown_at_once(tmp_path: Path) -> None:
    take_examples(tmp_path)
    turns = [says("", call("notify", message="half way")), says("Done.")]
    async with scripted(tmp_path, main=asks_for(task("explore")), explore=turns) as gencode:
        events = [event async for event in gencode.ask("go")]
    notes = [each.fact for each in events if isinstance(each.fact, ProgressMade) and each.fact.note]
    assert [note.text for note in notes] == ["half way"]


@seed("002", "Prompts of general / explore / plan", use="examples/subagents/explore/SUBAGENT.md")
async def test_each_type_is_told_the_rules_of_its_kind(tmp_path: Path) -> None:
    take_examples(tmp_path)
    for kind, rule in (
        ("general", "finish all of it"),
        ("explore", "create, change and delete nothing"),
        ("plan", "Give numbered steps"),
    ):
        system = (await given(tmp_path, kind)).requests_of(kind)[0].system
        assert "## Your role" in system and rule in system


@seed(
    "002",
    "`spawn_subagent(type, description, input)`, type default general",
    use='`GEN_TOOLS=spawn_subagent gen`; then spawn_subagent(type="explore", input="…")',
)
async def test_a_type_is_spawned_and_general_where_none_is_named(tmp_path: Path) -> None:
    take_examples(tmp_path)
    spawns = says(
        "",
        call("spawn_subagent", input="go"),
        call("spawn_subagent", type="explore", description="papers", input="go"),
        call("spawn_subagent", type="expolre", input="go"),
    )
    main = [spawns, says("They work."), says("All done."), says("All done.")]
    played = await play(tmp_path, main, settings=SPAWNS, others=[says("Done.")])
    assert [each.agent for each in played.tasks] == ["general", "explore"]
    assert played.results[1].text.startswith(f"Subagent [papers] started (id: {SECOND})")
    assert played.results[2].error and "explore" in played.results[2].text


@seed(
    "002",
    "Main prompt explains when to use each type with spawn_subagent",
    use="`GEN_TOOLS=spawn_subagent`: its `type` lists every agent, and the prompt says when to use each",
)
async def test_the_model_reads_which_types_it_can_spawn_and_when(tmp_path: Path) -> None:
    take_examples(tmp_path)
    write_type(tmp_path, "poet")
    trust_all(tmp_path)
    played = await play(tmp_path, [says("Hi.")], settings=SPAWNS)
    kind = played.schema("spawn_subagent")["properties"]["type"]
    assert {"general", "explore", "plan", "poet"} <= set(kind["enum"])
    assert kind["default"] == "general"
    assert "- poet: Does poet. Use it when poet is needed." in played.requests[0].system
    (tool,) = [each for each in played.requests[0].tools if each.name == "spawn_subagent"]
    assert "Task" in tool.description


@seed("002", "Type in context and events", use="gen task events ID --json")
async def test_the_type_is_in_the_events_of_a_task(tmp_path: Path) -> None:
    take_examples(tmp_path)
    async with scripted(tmp_path, main=asks_for(task("explore")), explore=[says("Done.")]) as gencode:
        events = [event async for event in gencode.ask("go")]
    (made,) = [each for each in events if isinstance(each.fact, TaskCreated) and each.fact.parent]
    line = wire(made, Lineage(None))
    assert (line["type"], line["agentType"]) == ("SubSessionCreated", "explore")


@seed("002", "Type kept on resume", use='gen task resume ID "go on"')
async def test_a_resumed_task_keeps_its_type(tmp_path: Path) -> None:
    take_examples(tmp_path)
    again = task("explore", "deeper", resume=FIRST)
    played = await play(tmp_path, asks_for(task("explore"), again), explore=[says("One."), says("Two.")])
    first, second = played.requests_of("explore")
    assert (played.answers, played.task.agent) == (["One.", "Two."], "explore")
    assert (first.system, first.tools) == (second.system, second.tools)


@seed("002", "Defence 1: model sees only its tools", use="`tools:` of the file")
async def test_a_model_is_not_shown_what_its_type_may_not_use(tmp_path: Path) -> None:
    take_examples(tmp_path)
    shown = tools_of(await given(tmp_path, "explore"), "explore")
    assert shown.isdisjoint(ours("write_file", "delete_file", "http_request", "memory_write") | {"Bash"})


@seed(
    "002",
    "Defence 2: disallowed call → error result, no exception",
    use="The model reads an error and continues",
)
async def test_a_call_outside_of_the_type_is_an_error_result(tmp_path: Path) -> None:
    take_examples(tmp_path)
    (tmp_path / "keep.txt").write_text("kept\n")
    tries = [
        call("write_file", path="new.txt", content="x"),
        call("delete_file", path="keep.txt"),
        call("http_request", url="https://example.com/", method="DELETE"),
        call("memory_write", name="n", content="x"),
        call("exec", command="touch new.txt"),
    ]
    played = await used(tmp_path, "explore", *tries, call("read_file", path="keep.txt"))
    assert [each.error for each in played.results_of(FIRST)] == [*[True] * 5, False]
    assert (played.task.status, played.answers) == (Status.COMPLETED, ["Done."])
    assert not (tmp_path / "new.txt").exists() and (tmp_path / "keep.txt").read_text() == "kept\n"


@seed(
    "002",
    "Registry per type, one stateless thinker, parallel types",
    use="Several calls of Task in one reply",
)
async def test_types_work_side_by_side_each_with_its_tools(tmp_path: Path) -> None:
    take_examples(tmp_path)
    main = [says("", task("explore"), task("plan"), task("general")), says("All done.")]
    played = await play(tmp_path, main, settings=FREE, others=[says("Done.")])
    assert [len(tools_of(played, kind)) for kind in ("explore", "plan", "general")] == [15, 17, 28]
    assert played.answers == ["Done."] * 3


def write_skill(home: Path, name: str, more: str) -> None:
    """A skill of the user's."""
    folder = home / ".gen" / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Surveys.\n{more}---\n\nSurvey $ARGUMENTS.\n"
    )


@seed("002", "Skill `agent:` → type", use="`agent: explore` in `SKILL.md`")
async def test_a_skill_is_done_by_the_type_it_names(tmp_path: Path, home: Path) -> None:
    take_examples(tmp_path)
    write_skill(home, "survey", "context: fork\nagent: explore\n")
    use = call("Skill", skill="survey", arguments="parsers")
    played = await play(tmp_path, asks_for(use), settings=FREE, explore=[says("3 parsers")])
    assert (played.task.agent, played.answers) == ("explore", ["3 parsers"])
    assert "Survey parsers." in played.task.prompt


@seed(
    "002",
    "Fork skill without agent → general",
    use="`context: fork` in `SKILL.md`: the folder's `general`, else general-purpose",
)
async def test_a_skill_that_names_no_type_is_done_by_general(tmp_path: Path, home: Path) -> None:
    write_skill(home, "survey", "context: fork\n")
    use = call("Skill", skill="survey")
    plain = await play(tmp_path, asks_for(use), settings=FREE, others=[says("Done.")])
    take_examples(tmp_path)
    typed = await play(tmp_path, asks_for(use), settings=FREE, others=[says("Done.")])
    assert (plain.task.agent, typed.task.agent) == ("general-purpose", "general")


@seed("002", "Stored in TASK_CREATED, replay restores", use="gen task replay ID")
async def test_the_type_is_stored_and_replayed(tmp_path: Path) -> None:
    take_examples(tmp_path)
    async with scripted(tmp_path, main=asks_for(task("explore")), explore=[says("Done.")]) as gencode:
        await gencode.ask("go").outcome()
        (made,) = await gencode.tasks()
        replay = await gencode.replay(made.agent_id)
        assert (replay.task.agent, replay.same) == ("explore", True)


@seed("002", "Old JSONL without type → general", use="gen task import old.jsonl")
async def test_an_old_file_without_a_type_is_of_general(tmp_path: Path) -> None:
    async with opened(tmp_path) as gencode:
        for told, agent in (({}, "general-purpose"), ({"taskType": "explore"}, "explore")):
            made = {"type": "TASK_CREATED", "data": {"inputText": "look", **told}}
            taken = await gencode.take_in(json.dumps(made))
            assert taken.outcome.agent == agent


@seed(
    "002",
    "Results under 2,000 characters",
    use="`result-cap: 2000` in the file (8,000 without it); TaskOutput has the rest",
)
async def test_a_long_result_is_cut_for_the_parent_and_whole_for_people(tmp_path: Path) -> None:
    write_type(tmp_path, "poet", more="result-cap: 2000\n")
    trust_all(tmp_path)
    verse = "A line of a long poem.\n" * 200
    main = asks_for(task("poet"), call("TaskOutput", task_id=FIRST, offset=1_978))
    played = await play(tmp_path, main, poet=[says(verse)])
    cut, rest = played.results
    assert len(cut.text) < 3_000 < len(rest.text) + len(cut.text)
    assert played.task.result == verse


@seed("002", "Data flow end to end", use='GEN_TOOLS=spawn_subagent gen -p "search for AI papers"')
async def test_a_question_flows_through_a_type_and_back(tmp_path: Path) -> None:
    take_examples(tmp_path)
    spawn = call("spawn_subagent", type="explore", description="papers", input="search for AI papers")
    main = [says("", spawn), says("On its way."), says("There are two.")]
    played = await play(
        tmp_path,
        main,
        prompt="search for the latest AI papers",
        settings=SPAWNS,
        explore=[says("", call("current_time")), says("two papers")],
    )
    assert [each.agent for each in played.requests].count("explore") == 2
    assert (played.task.agent, played.task.background, played.outcome.result) == (
        "explore",
        True,
        "There are two.",
    )


@seed(
    "002",
    "Future: deepresearch (more iterations, larger response)",
    use='`gen agents add task-types`, then spawn_subagent(type="deepresearch", input="…")',
)
async def test_deepresearch_has_its_own_turns_and_a_longer_report(tmp_path: Path) -> None:
    take_examples(tmp_path)
    long = "word " * 2_800
    main = [
        says("", call("spawn_subagent", type="deepresearch", input="go")),
        says("It works."),
        says("Done."),
    ]
    turns = [*(says("", call("current_time")) for _ in range(20)), says(long)]
    played = await play(tmp_path, main, settings=SPAWNS, deepresearch=turns)
    assert (played.task.status, played.task.turns) == (Status.COMPLETED, 21)
    assert long.strip() in repr(played.messages[-2])


@seed("002", "Future: custom types", use='gen agents new poet --description "Writes verses."')
async def test_a_type_of_ones_own_is_one_file(tmp_path: Path, home: Path) -> None:
    write_agent(home, "poet", "Read")
    played = await given(tmp_path, "poet")
    assert (played.task.agent, tools_of(played, "poet")) == ("poet", {"Read", "LS"})
