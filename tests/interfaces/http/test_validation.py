"""Validation messages name the field, what is allowed, and what was sent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode.testing import call, says
from tests.interfaces.http.serving import served
from tests.workspaces.worktrees.yard import repository

TASK = {"agent": "Explore", "prompt": "look"}
STATUSES = "pending, running, completed, empty, limit_reached, timed_out, failed, cancelled, interrupted"
BODIES: list[tuple[Any, str]] = [
    (
        {**TASK, "budget": {"turns": 0}},
        "budget.turns must be a whole number from 1 to 9,007,199,254,740,992, or null, not 0.",
    ),
    (
        {**TASK, "budget": {"usd": -0.5}},
        "budget.usd must be a number greater than 0 and at most 1,000,000,000, or null, not -0.5.",
    ),
    (
        {**TASK, "budget": {"token": 5}},
        "Unknown field token in budget. Known fields: turns, tokens, usd, seconds, spawns.",
    ),
    ({**TASK, "budget": 5}, "budget must be an object, not 5."),
    (
        {**TASK, "maxTurns": "3"},
        'maxTurns must be a whole number from 1 to 1,000,000, or null, not "3".',
    ),
    ({**TASK, "isolation": "foo"}, 'isolation must be one of "", "process", "worktree", not "foo".'),
    ({**TASK, "isolation": 5}, 'isolation must be one of "", "process", "worktree", not 5.'),
    ({**TASK, "background": "yes"}, 'background must be true or false, not "yes".'),
    ({**TASK, "outputSchema": ["x"]}, 'outputSchema must be an object, or null, not ["x"].'),
    ({"agent": "Explore"}, "The field prompt is missing; it must be a text of at most 1,000,000 characters."),
    (
        {"agent": "E" * 201, "prompt": "x"},
        f'agent must be a text of at most 200 characters, not "{"E" * 78}….',
    ),
    (
        {**TASK, "zonk": 5},
        "Unknown field zonk. Known fields: prompt, model, maxTurns, budget, agent, description, isolation, "
        "outputSchema, background, detached.",
    ),
    ([TASK], 'The request must be an object, not [{"agent":"Explore","prompt":"look"}].'),
]
QUERIES: list[tuple[dict[str, str], str]] = [
    ({"limit": "0"}, 'limit must be a whole number from 1 to 500, not "0".'),
    ({"limit": "many"}, 'limit must be a whole number from 1 to 500, not "many".'),
    ({"status": "foo"}, f'status must be one of {STATUSES}, not "foo".'),
    ({"roots": "maybe"}, 'roots must be true or false, not "maybe".'),
    (
        {"zonk": "1"},
        "Unknown field zonk. Known fields: status, parent, roots, agent, conversation, all, before, limit.",
    ),
]


async def test_what_is_wrong_with_a_body_is_told_with_what_may_stand_there(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("x")]) as site:
        for body, sentence in BODIES:
            answer = await site.client.post("/api/tasks", body)
            assert (answer.status, answer.json["error"]) == (400, sentence)
        assert (await site.client.get("/api/tasks")).json["tasks"] == []


async def test_what_is_wrong_behind_the_question_mark_is_told_alike(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("x")]) as site:
        for query, sentence in QUERIES:
            answer = await site.client.get("/api/tasks", **query)
            assert (answer.status, answer.json["error"]) == (400, sentence)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"agent":"x"', "it is incomplete"),
        (b"", "it is incomplete"),
        (b"{agent", "object keys must be strings (byte 1)"),
        (b'{"agent": "\xff"}', "it is not UTF-8"),
        (b"[" * 5000, "it is nested too deeply"),
    ],
)
async def test_what_is_no_json_is_told_as_that(tmp_path: Path, body: bytes, why: str) -> None:
    async with served(tmp_path, Explore=[says("x")]) as site:
        kind = {"Content-Type": "application/json"}
        answer = await site.client.ask("POST", "/api/tasks", data=body, headers=kind)
        assert (answer.status, answer.json["error"]) == (400, f"The request is not JSON: {why}.")


async def test_to_abort_is_to_stop_wherever_a_verb_is_named(tmp_path: Path) -> None:
    slow = says("late", delay_ms=60_000)
    async with served(tmp_path, Explore=[slow]) as site:
        for how in ("abort", "stop"):
            begun = await site.client.post("/api/tasks", TASK)
            task = begun.json["agentId"]
            await site.client.until(f"/api/tasks/{task}", lambda told: told["status"] == "running")
            hits = await site.client.get(f"/api/tasks/{task}/hits", verb=how)
            assert [each["agentId"] for each in hits.json["tasks"]] == [task]
            stopped = await site.client.post(f"/api/tasks/{task}/stop", {"how": how})
            assert (stopped.status, stopped.json["stopped"]) == (200, [task])
        steered = await site.client.get(f"/api/tasks/{task}/hits", verb="steer")
        assert [each["agentId"] for each in steered.json["tasks"]] == [task]


@pytest.mark.needs("git")
async def test_a_fork_gets_a_worktree_of_its_own_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    writes = [says("one"), says("", call("Write", file_path="new.txt", content="new\n")), says("two")]
    async with served(folder, settings={"permission_mode": "dontAsk"}, general_purpose=writes) as site:
        begun = await site.client.post("/api/tasks", {**TASK, "agent": "general-purpose"})
        await site.client.ended(begun.json["agentId"])
        path = f"/api/tasks/{begun.json['agentId']}/fork"
        odd = await site.client.post(path, {"prompt": "write", "isolation": "process"})
        assert odd.json["error"] == 'isolation must be one of "", "worktree", not "process".'
        fork = await site.client.post(path, {"prompt": "write", "isolation": "worktree"})
        ended = await site.client.ended(fork.json["agentId"])
        assert (fork.status, ended["status"]) == (201, "completed")
        assert f"gencode/{ended['agentId']}" in ended["result"]
        assert not await asyncio.to_thread((folder / "new.txt").exists)
