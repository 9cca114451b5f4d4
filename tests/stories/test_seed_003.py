"""Seed 003, OpenFork: its events on the wire, its rows, and children that get no more than their parent."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.interfaces.cli.running import gen, script
from tests.stories.seeds import on_disk, results, started, transcript

from gencode.app import components
from gencode.core.status import Status
from gencode.core.subsession_events import Lineage, wire
from gencode.places import database
from gencode.testing import call, says, scripted

OPENFORK = (
    *("SubSessionCreated", "SubSessionStatusChanged", "SubSessionProgress"),
    *("SubSessionCompleted", "SubSessionFailed", "SubSessionCancelled"),
)


def only(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: line[name] for name in names}


def send(agent: str, prompt: str, **more: Any) -> dict[str, Any]:
    return call("Task", subagent_type=agent, prompt=prompt, description=prompt, **more)


def test_the_life_of_a_child_is_on_the_wire_in_openforks_words(tmp_path: Path) -> None:
    (tmp_path / "api_objects.py").write_text("def endpoint(): ...\n")
    model = script(
        tmp_path,
        main=[says("", send("explore", "Find all API endpoints")), says("Found.")],
        Explore=[says("I look.", call("Grep", pattern="endpoint")), says("api_objects.py:1")],
    )
    done = gen("-p", "go", "--model", model, "--output-format", "stream-json", cwd=tmp_path)
    *lines, answer = done.lines
    child, root = answer["tasks"][0]["agentId"], answer["sessionId"]
    mine = [line for line in lines if line["task"] == child and line["type"] in OPENFORK]
    durable = [line for line in mine if line["seq"] is not None]
    assert [line["type"] for line in durable] == [
        "SubSessionCreated",
        "SubSessionStatusChanged",
        "SubSessionCompleted",
    ]
    created, changed, completed = durable
    assert only(created, "subSessionId", "parentSessionId", "agentType") == {
        "subSessionId": child,
        "parentSessionId": root,
        "agentType": "Explore",
    }
    assert only(changed, "subSessionId", "oldStatus", "newStatus") == {
        "subSessionId": child,
        "oldStatus": "Pending",
        "newStatus": "Running",
    }
    assert only(completed, "subSessionId", "parentSessionId", "result", "error") == {
        "subSessionId": child,
        "parentSessionId": root,
        "result": "api_objects.py:1",
        "error": None,
    }
    progress = [(line["partType"], line["content"]) for line in mine if line["type"] == "SubSessionProgress"]
    assert ("tool", "Grep(endpoint)") in progress
    assert {line["parentSessionId"] for line in mine} == {root}
    assert "".join(text for part, text in progress if part == "text") == "I look.api_objects.py:1"
    numbers = [line["seq"] for line in lines if line["task"] == child and line["seq"] is not None]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_child_that_fails_and_one_that_is_stopped_say_so_in_events_and_rows(tmp_path: Path) -> None:
    main = [
        says("", send("explore", "breaks"), send("planner", "never ends", run_in_background=True)),
        says("", call("TaskStop", task_id="00000003")),
        says("ok"),
    ]
    explore, plan = [says("half", call("LS")), says("", error="out of order")], [says("x", delay_ms=600_000)]
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, main=main, Explore=explore, Plan=plan) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        ends = [
            wire((await store.events(task))[-1], Lineage(outcome.agent_id))
            for task in ("00000002", "00000003")
        ]
        refused = results(await transcript(gen, outcome.agent_id))[0]
    assert [(end["type"], end["status"]) for end in ends] == [
        ("SubSessionFailed", "failed"),
        ("SubSessionCancelled", "cancelled"),
    ]
    assert "out of order" in ends[0]["error"] and ends[0]["result"] == "half"
    assert refused.error and "out of order" in refused.text
    with closing(sqlite3.connect(database())) as file:
        rows = file.execute(
            "SELECT Id, ParentSessionId, AgentType, Status, Prompt, CompletedAt IS NOT NULL "
            "FROM SubSessions ORDER BY Id"
        ).fetchall()
        (stored,) = file.execute(
            "SELECT EffectivePermissionsJson FROM SubSessions WHERE Id = '00000002'"
        ).fetchone()
    assert rows == [
        ("00000002", outcome.agent_id, "Explore", "failed", "breaks", 1),
        ("00000003", outcome.agent_id, "Plan", "cancelled", "never ends", 1),
    ]
    assert [policy["mode"] for policy in json.loads(stored)] == ["default", "plan"]


async def test_a_child_inherits_what_its_parent_is_denied_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    tries = [call("Bash", command="touch made"), call("Write", file_path="made", content="x")]
    main = [says("", send("general", "try")), says("ok")]
    for settings, why in (
        ({"permission_mode": "dontAsk", "deny": ["Bash", "Write"]}, "the rule"),
        ({"permission_mode": "default"}, "nobody can approve it in this run"),
    ):
        async with scripted(
            tmp_path, settings=settings, main=main, general_purpose=[says("", *tries), says("Refused.")]
        ) as gen:
            outcome = await gen.ask("go").outcome()
            (child,) = await gen.tasks(parent=outcome.agent_id)
            found = results(await transcript(gen, child.agent_id))
        assert [result.error for result in found] == [True, True]
        assert all(why in result.text for result in found)
        assert child.status is Status.COMPLETED and not (tmp_path / "made").exists()


async def test_no_child_has_a_way_to_make_children_of_its_own(tmp_path: Path) -> None:
    main = [
        says("", *(send(name, "go") for name in ("general", "explore", "planner", "researcher"))),
        says("ok"),
    ]
    async with on_disk() as store, scripted(tmp_path, store=store, main=main, others=[says("Done.")]) as gen:
        outcome = await gen.ask("go").outcome()
        children = await gen.tasks(parent=outcome.agent_id)
        tools = {child.agent: set((await started(gen, child.agent_id)).tools) for child in children}
    assert sorted(tools) == ["Explore", "Plan", "general-purpose", "researcher"]
    senders = {"Task", "TaskOutput", "TaskStop", "spawn", "spawn_subagent"}
    assert [name for name, given in tools.items() if given & senders] == []
    assert tools["researcher"] == {"WebFetch", "WebSearch", "Read"}


async def test_children_go_with_their_parent_when_that_is_deleted(tmp_path: Path) -> None:
    main = [says("", send("explore", "one"), send("explore", "two")), says("ok")]
    async with on_disk() as store, scripted(tmp_path, store=store, main=main, Explore=[says("Done.")]) as gen:
        outcome = await gen.ask("go").outcome()
        gone = await components(gen).tasks.records.delete(await gen.find(outcome.agent_id))
        left = await gen.tasks()
    assert (sorted(gone), left) == (["00000001", "00000002", "00000003"], [])
