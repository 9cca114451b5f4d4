"""What mycode promises: safety, limits, savings, persistence, and what it plans for later."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode.core.rules import Action
from gencode.core.status import Status
from gencode.stores.sqlite import SqliteStore
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen, script
from tests.seeds.playing import FIRST, SECOND, Played, asks_for, play, task
from tests.seeds.rows import seed
from tests.seeds.setup import auth_project
from tests.stories.agent_file import write_agent
from tests.stories.detached_agent import begun, wait_for, worker_of
from tests.virtual_clock import virtual_time

FREE = {"permission_mode": "dontAsk"}
LONG = "\n".join(f"{number:04} a line of a long report" for number in range(1_000))
FOUND = "src/auth/errors.py:1 - AuthError class"
RESEARCH = [
    says("", call("Grep", pattern="AuthError", output_mode="content")),
    says("", call("Read", file_path="src/auth/errors.py"), call("Read", file_path="src/middleware/auth.py")),
    says("", call("Read", file_path="notes.txt")),
    says(FOUND),
]


@seed("001", "Allowlists strictly enforced", use="tools: Read, Grep")
async def test_a_tool_that_is_not_on_the_list_is_refused_in_every_mode(tmp_path: Path, home: Path) -> None:
    write_agent(home, "reader", "Read, Grep")
    tries = [says("", call("Write", file_path="made", content="x"), call("Bash", command="ls")), says("No.")]
    played = await play(tmp_path, asks_for(task("reader")), settings=FREE, reader=tries)
    assert [each.error for each in played.results_of(FIRST)] == [True, True]
    assert not (tmp_path / "made").exists()


@seed("001", "Limits: turns and time", use='gen task run Explore "…" --max-turns 5 --max-seconds 60')
@virtual_time
async def test_turns_and_time_of_an_agent_are_limited(tmp_path: Path) -> None:
    endless = [says("", call("Glob", pattern=str(number)), delay_ms=1_000) for number in range(90)]
    async with scripted(tmp_path, Explore=endless) as gencode:
        turns = await gencode.task("Explore", "look", max_turns=5)
    async with scripted(tmp_path, settings={"max_seconds": 3}, Explore=endless) as gencode:
        time = await gencode.task("Explore", "look")
    assert (turns.status, turns.turns) == (Status.LIMIT_REACHED, 5)
    assert time.status is Status.TIMED_OUT


@seed("001", "Output isolation", use='Task(subagent_type="Explore", prompt="…")')
async def test_an_agent_cannot_see_the_main_context(tmp_path: Path) -> None:
    main = [says("A secret plan."), *asks_for(task("Explore"))]
    async with scripted(tmp_path, main=main, Explore=[says("found")]) as gencode:
        session = (await gencode.ask("first").outcome()).agent_id
        await gencode.ask("second", session=session).outcome()
        (agent,) = await gencode.tasks(parent=session)
        assert "A secret plan." not in repr((await gencode.show(agent.agent_id)).transcript)


@seed("001", "Permission inheritance", use='gen -p "…" --deny "Read(src/auth/**)"')
async def test_what_is_denied_to_the_main_agent_is_denied_to_all(tmp_path: Path) -> None:
    auth_project(tmp_path)
    tries = [
        says("", call("Read", file_path="src/auth/errors.py"), call("Grep", pattern="class AuthError")),
        says("x"),
    ]
    denied = {**FREE, "deny": ["Read(src/auth/**)"]}
    played = await play(tmp_path, asks_for(task("Explore")), settings=denied, Explore=tries)
    read, found = played.results_of(FIRST)
    assert read.error
    assert "errors.py" not in found.text


@seed("001", "Cleanup of stale background tasks", use="gen task list; gen sessions prune")
def test_a_task_whose_process_died_is_interrupted_and_resumable(tmp_path: Path, home: Path) -> None:
    model = script(tmp_path, Explore=[says("", call("Glob", pattern="*")), says("x", delay_ms=600_000)])
    agent = begun(tmp_path, model)["agentId"]
    wait_for(tmp_path, agent, turns=1)
    os.kill(worker_of(home, agent), signal.SIGKILL)
    assert not wait_for(tmp_path, agent, status="interrupted")["success"]
    script(tmp_path, Explore=[says(""), says("done")])
    assert gen("task", "resume", agent, "go on", "--json", cwd=tmp_path).json["agentId"] == agent


@seed("001", "Plan mode kept beside Task", use="gen --permission-mode plan; Shift+Tab in the app")
async def test_plan_mode_narrows_the_main_agent_and_all_it_sends(tmp_path: Path) -> None:
    tries = [says("", call("Write", file_path="made", content="x")), says("No.")]
    main = [*tries[:1], says("", task("general-purpose")), says("Planned.")]
    played = await play(tmp_path, main, settings={"permission_mode": "plan"}, others=tries)
    assert "Write" not in played.offered("main")
    assert played.results[0].error
    assert not (tmp_path / "made").exists()


@seed("001", "Wildcard `*`", use='tools: "*"')
@pytest.mark.parametrize("tools", ['"*"', '["*"]', '{mode: allowlist, allow: ["*"]}'])
async def test_a_star_gives_an_agent_all_tools(tmp_path: Path, home: Path, tools: str) -> None:
    write_agent(home, "star", tools)
    played = await play(tmp_path, asks_for(task("star")), star=[says("x")])
    assert {"Read", "Write", "Edit", "Bash", "Glob", "Grep"} <= {*played.offered("star")}


@seed("001", "Summary at most 1000-2000 characters", use="result-cap: 2000 (the default is 8,000)")
async def test_a_long_result_is_cut_for_the_parent_and_kept_whole(tmp_path: Path, home: Path) -> None:
    write_agent(home, "brief", "Read", more="result-cap: 2000\n")
    whole = call("TaskOutput", task_id=FIRST, offset=1_990)
    played = await play(tmp_path, asks_for(task("brief"), whole), brief=[says(LONG)])
    cut, rest = played.results
    assert len(cut.text) < 3_000
    assert "0999 a line" not in cut.text
    assert "0100 a line" in rest.text
    assert played.task.result == LONG


@seed("001", "~55 % fewer tokens", use="python bench/tokens.py")
async def test_delegated_research_costs_the_main_context_less_than_half(tmp_path: Path) -> None:
    auth_project(tmp_path)
    (tmp_path / "notes.txt").write_text("".join(f"line {n} of some notes\n" for n in range(400)))
    alone = await play(tmp_path, RESEARCH)
    apart = await play(tmp_path, asks_for(task("Explore"), then=FOUND), Explore=RESEARCH)
    assert sent_to_main(apart) < 0.45 * sent_to_main(alone)


def sent_to_main(played: Played) -> int:
    """How many characters of messages the main model was sent in all."""
    return sum(len(repr(each.messages)) for each in played.requests_of("main"))


@seed(
    "001",
    "Explore/Plan auto-approve read tools",
    use='`gen task run Explore "…"`; WebFetch with `web_read_hosts = ["*"]` in settings.toml',
)
@pytest.mark.parametrize("agent", ["Explore", "Plan"])
async def test_explore_and_plan_use_their_read_tools_without_approval(tmp_path: Path, agent: str) -> None:
    reads: Sequence[tuple[str, dict[str, Any]]] = (
        ("Read", {"file_path": "a.py"}),
        ("Glob", {"pattern": "*"}),
        ("Grep", {"pattern": "x"}),
        ("WebSearch", {"query": "x"}),
        ("Bash", {"command": "git log --oneline"}),
        ("WebFetch", {"url": "https://docs.python.org/", "prompt": "x"}),
    )
    async with scripted(tmp_path, settings={"web_read_hosts": ["*"]}) as gencode:
        found = [
            gencode.explain(name, arguments, agent=agent, background=True).decision
            for name, arguments in reads
        ]
    assert found == [Action.ALLOW] * 6


@seed(
    "001",
    "Bash agent asks; general-purpose inherits",
    use='gen task run Bash "make" --permission-mode dontAsk',
)
async def test_bash_needs_approval_and_general_purpose_has_its_parents_mode(tmp_path: Path) -> None:
    for mode, expected in (("default", Action.ASK), ("dontAsk", Action.ALLOW)):
        async with scripted(tmp_path, settings={"permission_mode": mode}) as gencode:
            for agent in ("Bash", "general-purpose"):
                assert gencode.explain("Bash", {"command": "make"}, agent=agent).decision is expected


@seed("001", "End-to-end Explore, Plan, isolation, token comparison", use='gen -p "Plan the migration"')
async def test_explore_and_plan_work_end_to_end_in_isolation(tmp_path: Path) -> None:
    auth_project(tmp_path)
    main = asks_for(task("Explore"), task("Plan", "Plan it"), then="Planned.")
    played = await play(tmp_path, main, Explore=RESEARCH, Plan=[says("1. Move it.")])
    assert played.answers == [FOUND, "1. Move it."]
    assert played.outcome.result == "Planned."
    assert "class AuthError" not in repr(played.requests_of("main"))
    assert "class AuthError" not in repr(played.requests_of("Plan"))


@seed(
    "001",
    "background, resume, parallel, full permissions, persistence",
    use="Task(…, run_in_background=true)",
)
async def test_the_five_known_limitations_are_gone(tmp_path: Path) -> None:
    main = [
        says("", task("Explore", run_in_background=True), task("Plan"), task("Plan")),
        says("", task("Explore", "and?", resume=FIRST)),
        says("Done."),
        says("Done."),
    ]
    played = await play(tmp_path, main, others=[says("one"), says("two")])
    assert len(played.tasks) == 3
    assert played.tasks[0].turns == 2
    assert {each.status for each in played.tasks} == {Status.COMPLETED}


@seed(
    "001", "TaskOutput polling, /task-status, cancellation", use='TaskOutput(task_id="9f3a1c2e", block=false)'
)
async def test_background_work_is_polled_and_cancelled(tmp_path: Path) -> None:
    main = asks_for(
        task("Explore", run_in_background=True),
        call("TaskOutput", task_id=FIRST, block=False),
        call("TaskStop", task_id=FIRST),
    )
    played = await play(tmp_path, main, Explore=[says("x", delay_ms=600_000)])
    assert "Status: still running" in played.results[1].text
    assert played.task.status is Status.CANCELLED


@seed("001", "Session persistence, storage, retrieval", use="gen sessions list; gen -p … --session ID")
async def test_a_conversation_and_its_agents_are_there_in_a_later_process(tmp_path: Path) -> None:
    file = tmp_path / "gencode.db"
    main = [*asks_for(task("Explore")), says("As I said: in src.")]
    for prompt in ("Where is it?", "And again?"):
        store = await SqliteStore.open(file)
        async with scripted(tmp_path, store=store, main=main, Explore=[says("in src")]) as gencode:
            earlier = [each.parent_id for each in await gencode.tasks()]
            session = earlier[0] if earlier else None
            outcome = await gencode.ask(prompt, session=session).outcome()
            assert [each.result for each in await gencode.tasks(parent=outcome.agent_id)] == ["in src"]
        await store.close()
    assert outcome.result == "As I said: in src."


@seed("001", "Custom subagents", use='gen agents new tester --description "Runs the tests"')
async def test_a_custom_agent_is_made_by_one_command_and_started(tmp_path: Path) -> None:
    made = gen("agents", "new", "tester", "--user", "--description", "Runs the tests", cwd=tmp_path)
    assert made.code == 0, made.err
    played = await play(tmp_path, asks_for(task("tester")), tester=[says("Green.")])
    assert played.answers == ["Green."]


@seed("001", "True process isolation", use='gen task run Explore "…" --isolation process')
def test_an_agent_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[says("found")])
    words = ("task", "run", "Explore", "look", "--isolation", "process", "--model", model, "--json")
    told = gen(*words, cwd=tmp_path).json
    assert (told["success"], told["result"]) == (True, "found")


@seed("001", "Inter-agent communication", use="tools: SendMessage")
@virtual_time
async def test_an_agent_whose_file_names_it_writes_to_a_sibling(tmp_path: Path, home: Path) -> None:
    write_agent(home, "talker", "SendMessage, Glob")
    main = [says("", task("Explore"), task("talker")), says("Done.")]
    explore = [says("", call("Glob", pattern="*"), delay_ms=5_000), says("I heard it.")]
    talker = [says("", call("SendMessage", task_id=FIRST, message="leave the tests out")), says("Said.")]
    played = await play(tmp_path, main, Explore=explore, talker=talker)
    assert "leave the tests out" in repr(played.transcripts[FIRST])
    assert not played.results_of(SECOND)[0].error


@seed("001", "Result caching", use="GEN_RESULT_CACHE=true")
async def test_the_same_work_is_answered_from_the_journal(tmp_path: Path) -> None:
    main = asks_for(task("Explore", "Where is it?"), task("Explore", "Where is it?"))
    played = await play(tmp_path, main, settings={"result_cache": True}, Explore=[says("in src")])
    assert played.answers == ["in src", "in src"]
    assert len(played.requests_of("Explore")) == 1
    assert played.tasks[1].answered_from == FIRST


@seed("001", "1-5", use="gen agents list; Task(…, run_in_background=true); Task(…, resume=ID)")
async def test_all_five_phases_are_there(tmp_path: Path, home: Path) -> None:
    write_agent(home, "tester", "Read")
    async with scripted(tmp_path) as gencode:
        names = {entry.spec.name for entry in gencode.agents.listing() if entry.spec}
    properties = (await play(tmp_path, [says("Hi.")])).schema("Task")["properties"]
    assert {"Explore", "Plan", "Bash", "tester"} <= names
    assert {"run_in_background", "resume"} <= set(properties)
