"""The Task tool of mycode: its Python interface, its JSON, its agents and models."""

from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode, Handle
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.contracts.provider import Play
from tests.interfaces.cli.running import gen, script
from tests.providers.dialects import chat
from tests.providers.fake_server import fake_server, streamed
from tests.seeds.playing import FIRST, asks_for, play, task
from tests.seeds.rows import seed
from tests.seeds.setup import auth_project
from tests.virtual_clock import virtual_time
from tests.waiting import until

FOUND = "src/auth/errors.py:1 - AuthError class"
LOOK = [says("", call("Grep", pattern="AuthError")), says(FOUND)]
AUTH = {"description": "Find auth error handling", "prompt": "Search for authentication error handling"}


@seed(
    "001",
    "Example call with description/prompt/type/model/background",
    use='Task(description="Explore authentication code", prompt="…", subagent_type="Explore", model="haiku")',
)
async def test_the_example_call_runs_as_it_is_written(tmp_path: Path) -> None:
    auth_project(tmp_path)
    sent = call("Task", **AUTH, subagent_type="Explore", model="haiku", run_in_background=False)
    played = await play(tmp_path, asks_for(sent), Explore=LOOK)
    assert (played.task.description, played.answers) == (AUTH["description"], [FOUND])


@seed("001", "Agent types of the table", use="gen agents list")
async def test_the_four_agents_of_the_table_are_there(tmp_path: Path) -> None:
    async with scripted(tmp_path) as gencode:
        names = {entry.spec.name for entry in gencode.agents.listing() if entry.spec}
    assert {"Explore", "Plan", "Bash", "general-purpose"} <= names


@seed("001", "Separate context, constrained tools, background", use="Task(…, run_in_background=true)")
async def test_an_agent_has_a_context_and_tools_of_its_own_also_in_the_background(tmp_path: Path) -> None:
    main = [says("", task("Explore", run_in_background=True)), says("It runs."), says("Done.")]
    played = await play(tmp_path, main, prompt="A secret plan", Explore=[says("found")])
    assert played.task.background
    assert "A secret plan" not in repr(played.requests_of("Explore"))
    assert "Write" not in played.offered("Explore")


@seed("001", "Parallel launch (several Task calls in one message)", use="two calls of Task in one reply")
@virtual_time
async def test_agents_of_one_reply_run_at_the_same_time(tmp_path: Path) -> None:
    waits = [says("found", delay_ms=60_000)]
    main = [says("", *(task("Explore", str(number)) for number in range(20))), says("All.")]
    played = await play(tmp_path, main, Explore=waits)
    firsts = [index for index, each in enumerate(played.requests) if each.agent == "Explore"]
    assert len(played.tasks) == 20
    assert firsts == list(range(1, 21))
    assert {each.status for each in played.tasks} == {Status.COMPLETED}


@seed("001", "Resume with agent id (person, Python)", use='gen task resume 9f3a "And where is it tested?"')
async def test_a_person_resumes_an_agent_with_its_id(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("In src."), says("In tests.")]) as gencode:
        first = await gencode.task("Explore", "Where is it?")
        again = await gencode.resume(first.agent_id, "And where is it tested?")
    assert (again.agent_id, again.result, again.turns) == (first.agent_id, "In tests.", 2)


@seed("001", "Example dialogue", use='gen -p "Find where authentication errors are handled"')
async def test_the_example_dialogue_is_reproduced(tmp_path: Path) -> None:
    auth_project(tmp_path)
    said = "Based on the exploration, authentication errors are handled in src/auth/errors.py."
    main = [
        says("I'll launch an Explore agent.", call("Task", **AUTH, subagent_type="Explore")),
        says(said),
    ]
    played = await play(tmp_path, main, prompt="Find where authentication errors are handled", Explore=LOOK)
    assert "src/auth/errors.py" in played.results_of(FIRST)[0].text
    assert (played.answers, played.outcome.result) == ([FOUND], said)


@seed(
    "001",
    "TaskInput",
    use="Task(description, prompt, subagent_type, model, run_in_background, resume, max_turns)",
)
async def test_task_takes_the_seven_fields_of_the_source(tmp_path: Path) -> None:
    properties = (await play(tmp_path, [says("Hi.")])).schema("Task")["properties"]
    seven = {"description", "prompt", "subagent_type", "model", "run_in_background", "resume", "max_turns"}
    assert seven <= set(properties)


@seed(
    "001",
    "TaskOutput JSON: success, result, agentId, outputFile, error",
    use='gen task run Explore "…" --json',
)
def test_the_json_of_a_task_has_the_fields_of_the_source(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[says(FOUND)])
    told = gen("task", "run", "Explore", "look", "--model", model, "--json", cwd=tmp_path).json
    assert (told["success"], told["result"], told["error"], told["outputFile"]) == (True, FOUND, None, None)
    assert len(told["agentId"]) == 8


@seed("001", "SubagentConfig", use="gen agents show Explore --json")
def test_the_configuration_of_an_agent_can_be_shown(tmp_path: Path) -> None:
    told = gen("agents", "show", "Explore", "--json", cwd=tmp_path).json
    assert (told["name"], told["model"], told["maxTurns"]) == ("Explore", "inherit", 30)
    assert "Read" in told["tools"]


@seed("001", "Task tool text: types and guidelines", use="Task: the main agent reads it")
async def test_the_main_agent_reads_the_types_and_the_guidelines(tmp_path: Path) -> None:
    played = await play(tmp_path, [says("Hi.")])
    (tool,) = [each for each in played.requests[0].tools if each.name == "Task"]
    text = f"{tool.description} {tool.parameters}"
    for words in ("three to five words", "haiku for simple work, sonnet for complex", "at the same time"):
        assert words in " ".join(text.split())
    for name in ("Explore", "Plan", "Bash", "general-purpose"):
        assert f"- {name}: " in played.requests[0].system


@seed(
    "001", "Validation (min 1, enum, positive)", use='Task(subagent_type="Explore", prompt="", max_turns=0)'
)
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"prompt": ""}, "prompt"),
        ({"subagent_type": "Explorr"}, "Explore"),
        ({"max_turns": 0}, "max_turns"),
        ({"model": "gpt-9"}, "gpt-9"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_starts(
    tmp_path: Path, wrong: dict[str, Any], named: str
) -> None:
    fields = {"subagent_type": "Explore", "prompt": "look", **wrong}
    played = await play(tmp_path, asks_for(call("Task", **fields)))
    assert played.tasks == []
    assert named in played.results[0].text


@seed(
    "001",
    "Subagent(type, partial config)",
    use="""gen --agents '{"quick": {"description": "…", "model": "haiku"}}'""",
)
async def test_an_agent_is_made_of_a_partial_configuration(tmp_path: Path) -> None:
    quick = {"description": "Looks quickly.", "prompt": "Be quick.", "tools": ["Glob"], "maxTurns": 2}
    endless = [says("", call("Glob", pattern=str(number))) for number in range(9)]
    async with scripted(tmp_path, settings={"agents": {"quick": quick}}, quick=endless) as gencode:
        outcome = await gencode.task("quick", "look")
    assert (outcome.status, outcome.turns) == (Status.LIMIT_REACHED, 2)


@seed("001", "run(prompt) → TaskOutput", use='await gen.task("Explore", "Find the tests")')
async def test_a_program_runs_an_agent_and_gets_its_outcome(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says(FOUND)]) as gencode:
        outcome = await gencode.task("Explore", "look")
    assert isinstance(outcome, Outcome)
    assert (outcome.success, outcome.result, outcome.error) == (True, FOUND, None)


@seed(
    "001",
    "runInBackground → {agentId, outputFile}; getStatus()",
    use='handle = await gen.task("Plan", "…", background=True); handle.id, handle.output_file, handle.status',
)
async def test_a_handle_has_the_id_the_output_file_and_the_status(tmp_path: Path) -> None:
    async with GenCode.open(tmp_path, model=ScriptedProvider.of({"Plan": [says("1. Move it.")]})) as gencode:
        handle = await gencode.task("Plan", "plan", background=True)
        assert isinstance(handle, Handle)
        assert handle.status in (Status.PENDING, Status.RUNNING)
        outcome = await handle.result()
        assert (handle.id, handle.status) == (outcome.agent_id, Status.COMPLETED)
        assert repr(handle) == f"Handle(id='{handle.id}', agent='Plan', status='completed')"
        assert str(handle.output_file) == outcome.output_file
        assert "1. Move it." in handle.output_file.read_text()


@seed("001", "resume(agentId)", use='await gen.resume(outcome.agent_id, "go on")')
async def test_a_program_resumes_an_agent_that_reached_its_limit(tmp_path: Path) -> None:
    look = says("", call("Glob", pattern="*"))
    async with scripted(tmp_path, Explore=[look, says("so far"), says("done")]) as gencode:
        first = await gencode.task("Explore", "look", max_turns=1)
        again = await gencode.resume(first.agent_id, "go on")
    assert (first.status, again.status, again.result) == (Status.LIMIT_REACHED, Status.COMPLETED, "done")


@seed(
    "001",
    "Registry, filtering, isolation, aggregation, background with output file, resume store",
    use='gen task run Plan "…" --background; gen task output ID',
)
@virtual_time
async def test_the_output_file_grows_while_the_agent_works_and_ends_with_its_result(tmp_path: Path) -> None:
    steps = [says("I look.", call("Glob", pattern="*")), says("1. Move it.", delay_ms=60_000)]
    async with GenCode.open(tmp_path, model=ScriptedProvider.of({"Plan": steps})) as gencode:
        handle = await gencode.task("Plan", "plan", background=True)
        await until(lambda: handle.output_file.exists() and "I look." in handle.output_file.read_text())
        assert "1. Move it." not in handle.output_file.read_text()
        await handle.result()
        assert "## Result\n\n1. Move it.\n" in handle.output_file.read_text()


@seed("001", "Tools / turn limits of this seed", use="~/.gen/agents/Explore.md with `max-turns: 10`")
async def test_a_file_of_the_user_takes_the_place_of_a_built_in_agent(tmp_path: Path, home: Path) -> None:
    (home / ".gen" / "agents").mkdir(parents=True)
    (home / ".gen" / "agents" / "Explore.md").write_text(
        "---\nname: Explore\ndescription: Explores.\nmodel: haiku\nmax-turns: 10\n"
        "tools: Read, Glob, Grep, LS\n---\nYou are a codebase exploration specialist.\n"
    )
    async with scripted(tmp_path) as gencode:
        spec = gencode.agents.find("Explore")
    assert (spec.model, spec.max_turns, spec.builtin) == ("haiku", 10, False)


async def models_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *agents: str, **settings: Any
) -> dict[str, str]:
    """The model that a service is asked for by each of these agents."""
    tiers = {"fast": "openai/small", "balanced": "openai/medium", "powerful": "openai/large"}
    async with fake_server(streamed(*chat(Play(("Done.",))))) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with GenCode.open(
            folder, model="openai/main", settings={"models": tiers, **settings}, store=MemoryStore()
        ) as gencode:
            for agent in agents:
                assert (await gencode.task(agent, "look")).success
        return {agent: asked.body["model"] for agent, asked in zip(agents, server.asked, strict=True)}


@seed(
    "001",
    "Default models: Explore/Bash haiku, Plan/general-purpose sonnet",
    use='`preset = "mycode"` in settings.toml, or `[agent_models]` with `Explore = "haiku"`',
)
async def test_one_setting_gives_the_agents_the_models_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = ("Explore", "Bash", "Plan", "general-purpose")
    usual = await models_of(tmp_path, monkeypatch, *four)
    preset = await models_of(tmp_path, monkeypatch, *four, preset="mycode")
    own = await models_of(tmp_path, monkeypatch, *four, preset="mycode", agent_models={"explore": "opus"})
    assert list(usual.values()) == ["main"] * 4
    assert list(preset.values()) == ["small", "small", "medium", "medium"]
    assert list(own.values()) == ["large", "small", "medium", "medium"]


@seed("001", "Model overridable per call", use='Task(subagent_type="Explore", model="sonnet", …)')
async def test_the_model_of_a_call_comes_before_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Play(("",), (("Task", {"subagent_type": "Explore", "prompt": "look", "model": "sonnet"}),))
    plays = (sent, Play(("found",)), Play(("Done.",)))
    async with fake_server(*(streamed(*chat(each)) for each in plays)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        settings = {"models": {"balanced": "openai/medium"}, "agent_models": {"Explore": "openai/small"}}
        async with GenCode.open(
            tmp_path, model="openai/main", settings=settings, store=MemoryStore()
        ) as gencode:
            await gencode.ask("go").outcome()
    assert [asked.body["model"] for asked in server.asked] == ["main", "medium", "main"]


def test_an_agent_that_is_not_there_is_named(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text('[agent_models]\nExplor = "haiku"\n')
    model = script(tmp_path, Explore=[says(FOUND)])
    ended = gen("task", "run", "Explore", "look", "--model", model, cwd=tmp_path)
    assert ended.code == 0
    assert "agent_models: There is no agent 'Explor'. Did you mean Explore?" in ended.err
