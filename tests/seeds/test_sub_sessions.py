"""Sub-sessions: their rows and events, what they may do, and how they are shown."""

import io
import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.events import CallFinished, Event, TextArrived
from gencode.core.ids import stamp
from gencode.core.spec import ToolChoice
from gencode.core.status import Status
from gencode.core.subsession_events import Lineage, wire
from gencode.interfaces.render.agent_view import AgentView, View, fold, name_of, rows, step_style
from gencode.interfaces.render.rich_panels import launch_panel, result_panel
from gencode.interfaces.tui.agent_rows import working_agent
from gencode.places import database
from gencode.testing import call, says, scripted
from tests.seeds.playing import FIRST, Played, asks_for, play, task
from tests.seeds.rows import seed
from tests.seeds.setup import on_disk
from tests.stores.earlier_database import made_by_version
from tests.stories.agent_file import write_agent
from tests.virtual_clock import virtual_time

COLUMNS = (
    *("Id", "ParentSessionId", "ParentMessageId", "AgentType", "Status", "Prompt", "Result", "Error"),
    *("EffectivePermissionsJson", "CreatedAt", "CompletedAt"),
)
FREE = {"permission_mode": "dontAsk"}
DONE = [says("Done.")]


async def stored(folder: Path, main: Any, **agents: Any) -> list[dict[str, Any]]:
    """The rows of the subagents of a conversation in the database of this test's home."""
    async with on_disk() as store, scripted(folder, store=store, main=main, **agents) as gencode:
        await gencode.ask("go").outcome()
    with closing(sqlite3.connect(database())) as file:
        rows = file.execute(f"SELECT {', '.join(COLUMNS)} FROM SubSessions ORDER BY Id").fetchall()  # noqa: S608
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


async def events_of(folder: Path, main: Any, **agents: Any) -> list[Event]:
    """Everything that is heard of a conversation."""
    async with scripted(folder, settings=FREE, main=main, **agents) as gencode:
        return [event async for event in gencode.ask("go")]


async def wired(folder: Path, main: Any, **agents: Any) -> list[dict[str, Any]]:
    """The events of the only subagent as they are on the wire."""
    view, lines = View(), list[dict[str, Any]]()
    for event in await events_of(folder, main, **agents):
        view = fold(view, event)
        lines.append(wire(event, view.lineage(event.task)))
    return [line for line in lines if str(line["type"]).startswith("SubSession")]


def named(lines: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The only event of this name."""
    (found,) = [line for line in lines if line["type"] == name]
    return found


def drawn(what: Any, width: int = 110) -> str:
    """What a terminal shows, with its colours."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=width)
    console.print(what)
    return str(console.file.getvalue())  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


def view_of(events: list[Event]) -> AgentView:
    """The subagent as screens show it after these events."""
    view = View()
    for event in events:
        view = fold(view, event)
    (agent,) = [each for each in view.agents.values() if not each.conversation]
    return agent


@seed("003", "SubSessions table, all 11 columns", use='sqlite3 ~/.gen/gencode.db "SELECT * FROM SubSessions"')
async def test_a_subagent_is_a_row_of_eleven_columns(tmp_path: Path) -> None:
    (row,) = await stored(tmp_path, asks_for(task("Explore")), Explore=DONE)
    assert len(COLUMNS) == 11
    assert (row["Id"], row["AgentType"], row["Status"]) == (FIRST, "Explore", "completed")


@seed("003", "Indexes, FK, ON DELETE CASCADE", use="gen sessions delete ID --yes")
async def test_subagents_are_deleted_with_their_conversation(tmp_path: Path) -> None:
    main = asks_for(task("Explore"), task("Plan"))
    async with scripted(tmp_path, main=main, others=DONE) as gencode:
        session = (await gencode.ask("go").outcome()).agent_id
        gone = await gencode.delete(session)
        assert (len(gone), await gencode.tasks()) == (3, [])


@seed("003", "Pending/Running/Completed/Failed/Cancelled", use="gen task list --all")
@virtual_time
async def test_a_subagent_is_pending_running_and_ends_in_one_of_three_ways(tmp_path: Path) -> None:
    slow = [says("x", delay_ms=600_000)]
    script: dict[str, Any] = {"Explore": slow, "Plan": slow, "Review": DONE, "Bash": [says("", error="auth")]}
    async with scripted(tmp_path, main=DONE, settings={"max_agents": 1}, **script) as gencode:
        running = await gencode.task("Explore", "look", background=True)
        waiting = await gencode.task("Plan", "plan", background=True)
        states = [(await gencode.get(each.id)).status for each in (running, waiting)]
        await gencode.stop(waiting.id)
        await gencode.stop(running.id)
        ended = [(await gencode.get(running.id)).status]
        ended += [(await gencode.task(name, "go")).status for name in ("Review", "Bash")]
    assert states == [Status.RUNNING, Status.PENDING]
    assert ended == [Status.CANCELLED, Status.COMPLETED, Status.FAILED]


@seed("003", "CreatedAt/CompletedAt, Prompt, Result, Error", use="gen task show ID --json")
async def test_a_row_says_what_was_asked_and_what_came_of_it(tmp_path: Path) -> None:
    main = asks_for(task("Explore", "find it"), task("Plan", "plan it"))
    found, failed = await stored(tmp_path, main, Explore=[says("a.py")], Plan=[says("", error="no luck")])
    assert (found["Prompt"], found["Result"], found["Error"]) == ("find it", "a.py", None)
    assert found["CreatedAt"] <= found["CompletedAt"]
    assert "no luck" in failed["Error"]


@seed("003", "ParentMessageId", use="The id of the call of Task, in the table `SubSessions`")
async def test_a_row_names_the_call_that_started_it(tmp_path: Path) -> None:
    (row,) = await stored(tmp_path, asks_for(task("Explore")), Explore=DONE)
    assert row["ParentMessageId"] and row["ParentSessionId"] == "00000001"


@seed("003", "EffectivePermissions stored", use="gen permissions explain --agent Explore --tool Write")
async def test_a_row_has_the_policies_from_the_session_down(tmp_path: Path) -> None:
    (row,) = await stored(tmp_path, asks_for(task("Explore")), Explore=DONE)
    assert [policy["mode"] for policy in json.loads(row["EffectivePermissionsJson"])] == ["default", "plan"]


@seed(
    "003",
    "Config: type, description, prompt, model+provider, tools, max iterations, permissions, may spawn",
    use="The fields of an agent file: [agent files](agents.md#fields)",
)
async def test_a_file_has_every_field_of_the_configuration(tmp_path: Path, home: Path) -> None:
    more = 'model: openai/gpt-4o\nmax-turns: 7\npermissions: {deny: ["Bash(rm *)"]}\nsends: [Explore]\n'
    write_agent(home, "coder", "[Read, Bash, Task]", more=more)
    async with scripted(tmp_path, main=DONE) as gencode:
        spec = gencode.agents.find("coder")
    assert (spec.name, spec.description, spec.prompt) == ("coder", "Does it.", "Work.")
    assert (spec.model, spec.max_turns, spec.sends) == ("openai/gpt-4o", 7, ("Explore",))
    assert spec.tools == ToolChoice(("Read", "Bash", "Task"))
    assert [str(rule) for rule in spec.rules] == ["deny Bash(rm *)"]


@seed(
    "003",
    'Config: display Name ("Codebase Explorer", "Task Planner" …)',
    use="`display-name: Careful Coder` in the file; its rows and `gen agents show` have that name",
)
async def test_an_agent_has_a_name_for_people(tmp_path: Path, home: Path) -> None:
    write_agent(home, "coder", "Read", more="display-name: Careful Coder\n")
    async with scripted(tmp_path, coder=DONE) as gencode:
        names = ("coder", "Explore", "planner", "researcher", "general")
        shown = [gencode.agents.find(name).display_name for name in names]
        outcome = await gencode.task("coder", "Tidy up.")
        view = View()
        for event in (await gencode.journal(outcome.agent_id)).events:
            view = fold(view, event)
    assert [name_of(row.agent) for row in rows(view, None)] == ["Careful Coder: Tidy up."]
    assert shown == ["Careful Coder", "Codebase Explorer", "Task Planner", "Research Agent", "General Agent"]


async def built_in(folder: Path, name: str) -> tuple[str, set[str]]:
    """The agent behind a name, and what it is offered."""
    played = await play(folder, asks_for(task(name)), settings=FREE, others=DONE)
    return played.task.agent, set(played.offered(played.task.agent))


@seed("003", "Built-in general", use='Task(subagent_type="general", prompt="…")')
async def test_general_reads_writes_and_runs_commands(tmp_path: Path) -> None:
    name, tools = await built_in(tmp_path, "general")
    assert name == "general-purpose" and {"Read", "Write", "Edit", "Glob", "Grep", "Bash"} <= tools


@seed("003", "Built-in explore", use='Task(subagent_type="explore", prompt="Find all API endpoints")')
async def test_explore_only_reads(tmp_path: Path) -> None:
    name, tools = await built_in(tmp_path, "explore")
    assert name == "Explore" and {"Read", "Glob", "Grep"} <= tools
    assert tools.isdisjoint({"Write", "Edit", "Task"})


@seed("003", "Built-in planner", use='Task(subagent_type="planner", prompt="…")')
async def test_planner_is_plan_and_only_reads(tmp_path: Path) -> None:
    name, tools = await built_in(tmp_path, "planner")
    assert name == "Plan" and {"Read", "Glob", "Grep"} <= tools
    assert tools.isdisjoint({"Write", "Edit", "Task"})


@seed("003", "Built-in researcher", use='Task(subagent_type="researcher", prompt="…")')
async def test_researcher_has_the_web_and_ten_turns(tmp_path: Path) -> None:
    assert await built_in(tmp_path, "researcher") == ("researcher", {"WebFetch", "WebSearch", "Read"})
    async with scripted(tmp_path, main=DONE) as gencode:
        assert gencode.agents.find("researcher").max_turns == 10


@seed(
    "003",
    "task tool: prompt, description, run_in_background, max_turns",
    use='task(subagent_type="explore", prompt="…", description="…", run_in_background=true, max_turns=5)',
)
async def test_the_tool_takes_the_seeds_parameters_also_as_text(tmp_path: Path) -> None:
    asked = {"subagent_type": "explore", "prompt": "look", "description": "look around"}
    main = [
        says("", call("task", **asked, run_in_background="true", max_turns="5")),
        says("It works."),
        says("Done."),
    ]
    made = (await play(tmp_path, main, Explore=DONE)).task
    assert (made.description, made.prompt, made.background) == ("look around", "look", True)
    (refused,) = (await play(tmp_path, asks_for(task("explore", max_turns=0)))).results
    assert refused.error


@seed(
    "003",
    "subagent_type: list/enum of the types in the tool",
    use="The parameter `subagent_type` of Task lists every agent that can be started, your own included",
)
async def test_the_schema_lists_the_agents_there_are(tmp_path: Path, home: Path) -> None:
    write_agent(home, "tester", "Read")
    kinds = (await play(tmp_path, [says("Hi.")])).schema("Task")["properties"]["subagent_type"]["enum"]
    assert kinds == ["Bash", "Explore", "general-purpose", "Plan", "researcher", "Review", "tester"]


@seed("003", "Tool description: when to use, isolation", use="gen tools --json")
async def test_the_tool_says_that_an_agent_sees_only_its_prompt(tmp_path: Path) -> None:
    (tool,) = [each for each in (await play(tmp_path, DONE)).requests[0].tools if each.name == "Task"]
    assert "It sees nothing of this conversation" in tool.description


@seed(
    "003",
    '"This agent cannot spawn subagents"',
    use="`max_depth = 2` and `tools: [Task(Explore)]` let an agent send some",
)
async def test_a_subagent_cannot_start_others_unless_it_is_allowed_to(tmp_path: Path, home: Path) -> None:
    write_agent(home, "lead", "[Read, Task(Explore)]")
    script: dict[str, Any] = {"lead": asks_for(task("Explore")), "Explore": DONE}
    shallow = await play(tmp_path, asks_for(task("lead")), settings=FREE, **script)
    deep = await play(tmp_path, asks_for(task("lead")), settings={**FREE, "max_depth": 2}, **script)
    assert [each.agent for each in shallow.tasks] == ["lead"]
    assert shallow.results_of(FIRST)[0].error
    assert [each.agent for each in deep.tasks] == ["lead", "Explore"]


@seed("003", "Background reply with id and how to look", use="Task(…, run_in_background=true)")
async def test_a_background_call_is_answered_with_the_id_and_the_next_calls(tmp_path: Path) -> None:
    main = [says("", task("Explore", run_in_background=True)), says("It works."), says("Done.")]
    answer = (await play(tmp_path, main, Explore=DONE)).results[0].text
    assert FIRST in answer and "TaskOutput" in answer and "TaskStop" in answer


@seed(
    "003",
    "task_status",
    use='`TaskOutput(task_id="9f3a1c2e", block=false)`; a person: `/task-status 9f3a1c2e`',
)
@virtual_time
async def test_the_status_of_a_task_is_told_at_once(tmp_path: Path) -> None:
    main = [
        says("", task("Explore", run_in_background=True)),
        says("", call("TaskOutput", task_id=FIRST, block=False)),
        says("It works."),
        says("Done."),
    ]
    played = await play(tmp_path, main, Explore=[says("Found.", delay_ms=60_000)])
    assert "Status: still running" in played.results[1].text


@seed("003", "Foreground: result; failure text", use='Task(subagent_type="explore", prompt="…")')
async def test_a_foreground_call_gives_the_result_or_says_what_failed(tmp_path: Path) -> None:
    main = asks_for(task("Explore"), task("Plan"))
    found, failed = (
        await play(tmp_path, main, Explore=[says("a.py")], Plan=[says("", error="no luck")])
    ).results
    assert not found.error and "> a.py" in found.text
    assert failed.error and "no luck" in failed.text


@seed("003", "Service: create+execute", use='await gen.task("Explore", "Find …", background=True)')
@virtual_time
async def test_a_program_starts_a_task_and_waits_for_it_later(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=DONE, Explore=[says("Found.", delay_ms=60_000)]) as gencode:
        handle = await gencode.task("Explore", "look", background=True)
        before = (await gencode.get(handle.id)).status
        outcome = await handle.result()
    assert (before, outcome.status, outcome.result) == (Status.RUNNING, Status.COMPLETED, "Found.")


@seed("003", "Service: get", use='await gen.get("9f3a1c2e")')
async def test_a_task_is_found_by_its_id(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=DONE, Explore=DONE) as gencode:
        outcome = await gencode.task("Explore", "look")
        assert (await gencode.get(outcome.agent_id[:6])).result == "Done."
        with pytest.raises(UserMistake, match="There is no task"):
            await gencode.get("deadbeef")


@seed("003", "Service: list for parent", use="await gen.tasks(parent=ID)")
async def test_the_tasks_of_a_parent_are_listed(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=asks_for(task("Explore"), task("Plan")), others=DONE) as gencode:
        session = (await gencode.ask("go").outcome()).agent_id
        await gencode.task("Review", "alone")
        children = await gencode.tasks(parent=session)
    assert [each.agent for each in children] == ["Explore", "Plan"]


@seed("003", "Service: cancel", use='`await gen.stop("9f3a1c2e")`, `gen task stop 9f3a1c2e`')
@virtual_time
async def test_a_task_is_stopped_once(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=DONE, Explore=[says("x", delay_ms=600_000)]) as gencode:
        handle = await gencode.task("Explore", "look", background=True)
        first, second = await gencode.stop(handle.id), await gencode.stop(handle.id)
    assert (first.status, len(first.affected), len(second.affected)) == (Status.CANCELLED, 1, 0)


@seed("003", "Execute twice is refused", use="gen task resume ID of a task that runs")
@virtual_time
async def test_a_running_task_is_not_started_again(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=DONE, Explore=[says("Found.", delay_ms=60_000)]) as gencode:
        handle = await gencode.task("Explore", "look", background=True)
        with pytest.raises(UserMistake):
            await gencode.resume(handle.id, "again")
        assert (await handle.result()).turns == 1


@seed("003", "Unknown type", use="The nearest names are offered; nothing else is started in its place")
async def test_an_unknown_type_is_an_error_with_the_nearest_names(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("explorr")))
    assert played.results[0].error and "Explore" in played.results[0].text
    assert played.tasks == []


@seed("003", "SubSessionCreated", use="gen -p … --output-format stream-json")
async def test_the_beginning_of_a_subagent_is_an_event(tmp_path: Path) -> None:
    made = named(await wired(tmp_path, asks_for(task("Explore", "look")), Explore=DONE), "SubSessionCreated")
    assert (made["agentType"], made["prompt"]) == ("Explore", "look")
    assert made["subSessionId"] and made["parentSessionId"]


@seed("003", "SubSessionStatusChanged old/new", use="gen -p … --output-format stream-json")
async def test_a_change_of_status_names_both(tmp_path: Path) -> None:
    lines = await wired(tmp_path, asks_for(task("Explore")), Explore=DONE)
    changed = named(lines, "SubSessionStatusChanged")
    assert (changed["oldStatus"], changed["newStatus"]) == ("Pending", "Running")


@seed("003", "SubSessionProgress partType/content", use="gen -p … --output-format stream-json")
async def test_progress_has_a_part_type_and_its_content(tmp_path: Path) -> None:
    turns = [says("I look.", call("Glob", pattern="*.py"), call("Read", file_path="gone.py")), says("None.")]
    lines = await wired(tmp_path, asks_for(task("Explore")), Explore=turns)
    parts = [(each["partType"], each["content"]) for each in lines if each["type"] == "SubSessionProgress"]
    assert ("tool", "Glob(*.py)") in parts
    assert {"text", "tool", "result", "error"} <= {part for part, _ in parts}


@seed("003", "SubSessionCompleted", use="gen -p … --output-format stream-json")
async def test_the_end_of_a_subagent_has_its_result(tmp_path: Path) -> None:
    lines = await wired(tmp_path, asks_for(task("Explore")), Explore=DONE)
    assert named(lines, "SubSessionCompleted")["result"] == "Done."


@seed("003", "SubSessionFailed", use="gen -p … --output-format stream-json")
async def test_a_failure_has_its_error(tmp_path: Path) -> None:
    lines = await wired(tmp_path, asks_for(task("Explore")), Explore=[says("", error="no luck")])
    assert "no luck" in named(lines, "SubSessionFailed")["error"]


@seed("003", "SubSessionCancelled", use="gen task stop ID")
@virtual_time
async def test_a_stopped_subagent_is_cancelled(tmp_path: Path) -> None:
    main = [
        says("", task("Explore", run_in_background=True)),
        says("", call("TaskStop", task_id=FIRST)),
        says("Stopped."),
    ]
    async with on_disk() as store:
        slow = [says("x", delay_ms=600_000)]
        async with scripted(tmp_path, store=store, main=main, Explore=slow) as gencode:
            await gencode.ask("go").outcome()
            last = (await gencode.history.events(FIRST))[-1]
    assert wire(last, Lineage("00000001"))["type"] == "SubSessionCancelled"


@seed("003", "16 ms batches", use="`gen -p … --output-format stream-json`: pieces of a reply come together")
@virtual_time
async def test_pieces_of_a_reply_are_told_together(tmp_path: Path) -> None:
    long = "word " * 2_000
    events = await events_of(tmp_path, asks_for(task("Explore")), Explore=[says(long)])
    pieces = [each.fact.text for each in events if isinstance(each.fact, TextArrived)]
    assert "".join(pieces).startswith(long) and len(pieces) < 20


@seed("003", "Restricted tools; system + user message only", use='Task(subagent_type="explore", prompt="…")')
async def test_a_subagent_begins_with_its_prompt_alone(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore", "look")), prompt="A long story", Explore=DONE)
    (request,) = played.requests_of("Explore")
    (message,) = request.messages
    assert "look" in repr(message) and "A long story" not in repr(request.messages) + request.system


async def tried(folder: Path, call_: dict[str, Any], agent: str = "general", **settings: Any) -> Played:
    """What a subagent gets that makes one call."""
    turns = [says("", call_), says("Refused.")]
    return await play(folder, asks_for(task(agent)), settings=settings, others=turns)


TOUCH = call("Bash", command="touch made")


@seed("003", "Permission denied text", use='gen -p … --deny "bash:*"')
async def test_a_refused_call_says_which_rule_refuses_it(tmp_path: Path) -> None:
    played = await tried(tmp_path, TOUCH, permission_mode="dontAsk", deny=["bash:*"])
    (refused,) = played.results_of(FIRST)
    assert refused.error and "deny bash(*)" in refused.text


@seed(
    "003",
    "ask → deny for subagents",
    use="Where nobody can approve a call it is refused; `permission-mode: unattended` refuses in any case",
)
async def test_what_needs_approval_is_refused_where_nobody_can_give_it(tmp_path: Path) -> None:
    played = await tried(tmp_path, TOUCH, permission_mode="default", allow=["Task"])
    (refused,) = played.results_of(FIRST)
    assert refused.error and not (tmp_path / "made").exists()
    assert [each.tool for each in played.task.evidence.refused] == ["Bash"]


@seed("003", "Parent rules inherited (bash:* deny)", use='deny = ["bash:*"]')
async def test_a_rule_of_the_session_holds_for_an_agent_that_may_do_everything(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home, "coder", "Bash", more="permission-mode: dontAsk\n")
    settings = {"permission_mode": "dontAsk", "deny": ["bash:*"]}
    played = await tried(tmp_path, call("Bash", command="ls"), "coder", **settings)
    assert played.results_of(FIRST)[0].error


@seed("003", "Child never exceeds parent", use='permissions: {allow: ["Bash(touch *)"]}')
async def test_a_file_allows_nothing_that_the_session_does_not(tmp_path: Path, home: Path) -> None:
    write_agent(home, "coder", "Bash", more='permissions: {allow: ["Bash(touch *)"]}\n')
    played = await tried(tmp_path, TOUCH, "coder", permission_mode="default", allow=["Task"])
    assert played.results_of(FIRST)[0].error and not (tmp_path / "made").exists()


@seed(
    "003",
    "TUI progress line: ↳, content cut at 100, colour by part type",
    use="`color: blue` in an agent file; a call that fails is shown red",
)
async def test_the_progress_line_shows_what_an_agent_says_in_its_colour(tmp_path: Path, home: Path) -> None:
    write_agent(home, "painter", "Read", more="color: blue\n")
    turns = [says("I write. " + "x" * 200, call("Read", file_path="gone.py")), says("Done.")]
    events = await events_of(tmp_path, asks_for(task("painter")), painter=turns)
    written = next(at for at, each in enumerate(events) if isinstance(each.fact, TextArrived))
    failed = next(at for at, each in enumerate(events) if isinstance(each.fact, CallFinished))
    live = view_of(events[: written + 1])
    line = drawn(working_agent(live, stamp()), 200)
    assert "x" * 80 in line and "x" * 101 not in line and "\x1b[34m" in line
    after = view_of(events[: failed + 1])
    assert after.failed and "\x1b[31m" in drawn(Text(after.doing, step_style(after, "red", "dim")))


@seed("003", 'TUI completion: ✓, green rounded panel "Subagent Result"', use="gen")
async def test_a_result_is_a_green_panel(tmp_path: Path) -> None:
    agent = view_of(await events_of(tmp_path, asks_for(task("Explore", "look")), Explore=[says("a.py")]))
    shown = drawn(result_panel(agent, stamp(), 80, 3, ""))
    assert "╭─" in shown and "Subagent Result" in shown and "a.py" in shown and "\x1b[32m" in shown
    assert "Launching Subagent" in drawn(launch_panel(agent, 80))
    assert "✓" in drawn(working_agent(agent, stamp()))


@seed("003", "Failure shown red", use="gen -p on a terminal")
async def test_a_failure_is_a_red_panel(tmp_path: Path) -> None:
    events = await events_of(tmp_path, asks_for(task("Explore")), Explore=[says("", error="no luck")])
    shown = drawn(result_panel(view_of(events), stamp(), 80, 3, ""))
    assert "no luck" in shown and "\x1b[31m" in shown


@seed("003", "migrate", use="gen migrate")
async def test_an_old_database_is_brought_up_to_date(tmp_path: Path) -> None:
    made_by_version(6, database())
    async with GenCode.open(tmp_path, model="offline") as gencode:
        assert {each.agent_id for each in await gencode.tasks()} == {"aaaaaaaa", "bbbbbbbb"}


@seed(
    "003",
    "Primary agents may be marked (CanSpawnSubagents)",
    use="`gen --agent lead`, with `Task` or `spawn` among the tools of its file",
)
async def test_an_agent_that_leads_a_conversation_may_start_others(tmp_path: Path, home: Path) -> None:
    write_agent(home, "lead", "[Read, Task]")
    write_agent(home, "coder", "Read")
    script: dict[str, Any] = {"lead": asks_for(task("Explore")), "coder": asks_for(task("Explore"))}
    async with scripted(tmp_path, settings=FREE, main=DONE, Explore=DONE, **script) as gencode:
        for agent in ("lead", "coder"):
            await gencode.ask("go", agent=agent).outcome()
        assert [each.agent for each in await gencode.tasks()] == ["Explore"]


@seed("003", "Cancellation reaches children, no orphans", use="Ctrl-C in `gen -p`, Esc in the app")
@virtual_time
async def test_who_stops_a_conversation_stops_its_subagents(tmp_path: Path) -> None:
    main = [says("", task("Explore"), task("Plan")), says("Done.")]
    async with scripted(tmp_path, main=main, others=[says("x", delay_ms=600_000)]) as gencode:
        turn = await gencode.start_turn("go")
        while len([each for each in await gencode.tasks() if each.status is Status.RUNNING]) < 2:
            await gencode.history.changes.after(gencode.history.changes.count, 1.0)
        await gencode.stop(turn.id, tree=True)
        assert [each.status for each in await gencode.tasks()] == [Status.CANCELLED] * 2


@seed("003", "Failed/cancelled cleaned up when the parent closes", use='failed_tasks = "delete"')
@pytest.mark.parametrize(("setting", "left"), [("keep", ["Explore", "Plan"]), ("delete", ["Explore"])])
async def test_what_failed_is_kept_or_deleted_when_the_session_closes(
    tmp_path: Path, setting: str, left: list[str]
) -> None:
    main = asks_for(task("Explore"), task("Plan"))
    script: dict[str, Any] = {"Explore": DONE, "Plan": [says("", error="no luck")]}
    async with on_disk() as store:
        settings = {"failed_tasks": setting}
        async with scripted(tmp_path, store=store, settings=settings, main=main, **script) as gencode:
            await gencode.ask("go").outcome()
        async with scripted(tmp_path, store=store, main=DONE) as gencode:
            assert [each.agent for each in await gencode.tasks()] == left


@seed("003", "Max iterations end a loop", use="`max-turns: 10` in the file")
async def test_a_loop_ends_at_its_limit_with_a_summary(tmp_path: Path, home: Path) -> None:
    write_agent(home, "looper", "Glob", more="max-turns: 3\n")
    turns = [*(says("", call("Glob", pattern="*")) for _ in range(3)), says("So far: nothing.")]
    played = await play(tmp_path, asks_for(task("looper")), settings=FREE, looper=turns)
    assert (played.task.status, played.task.result) == (Status.LIMIT_REACHED, "So far: nothing.")


@seed("003", "Log lines (spawned, failed)", use="gen -p … --verbose")
async def test_starts_and_failures_are_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gencode")
    main = asks_for(task("Explore", description="find endpoints"))
    made = (await play(tmp_path, main, Explore=[says("", error="no luck")])).task
    lines = [each.getMessage() for each in caplog.records if made.agent_id in each.getMessage()]
    assert any("Explore" in line and "find endpoints" in line for line in lines)
    assert any("failed" in line and "no luck" in line for line in lines)


@seed("003", "Same SQLite for all, minimal history", use="gen task show ID --json")
async def test_every_task_has_a_transcript_of_its_own_in_one_database(tmp_path: Path) -> None:
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, main=asks_for(task("Explore")), Explore=DONE) as gencode,
    ):
        outcome = await gencode.ask("A long story").outcome()
        child = await gencode.show(FIRST)
        whole = await gencode.show(outcome.agent_id)
    assert "A long story" in repr(whole.transcript) and "A long story" not in repr(child.transcript)
    assert [each.name for each in database().parent.glob("*.db")] == [database().name]
