"""Tasks over HTTP: started, listed, looked at, spoken to, cut, copied and ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode.core.outcome import PAGE
from gencode.journal.store import TaskQuery
from gencode.testing import call, says
from tests.interfaces.http.serving import Client, served
from tests.waiting import Gate, until

LOOK = [says("", call("LS", path=".")), says("I have looked.")]
NAP = call("Bash", command="sleep 60")
NAPS = {"allow": ["Bash(sleep:*)"]}
LONG = says("late", delay_ms=60_000)


async def start(client: Client, agent: str = "Explore", **more: Any) -> str:
    answer = await client.post("/api/tasks", {"agent": agent, "prompt": "look", **more})
    assert answer.status == 201, answer.json
    return answer.json["agentId"]


async def running(client: Client, task: str, turns: int = 0) -> Any:
    return await client.until(
        f"/api/tasks/{task}", lambda told: told["status"] == "running" and told["turns"] >= turns
    )


async def test_a_task_is_started_and_ends_in_the_shape_of_the_contract(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        task = await start(site.client, description="a look", maxTurns=5)
        ended = await site.client.ended(task)
        assert (ended["success"], ended["status"], ended["result"]) == (True, "completed", "I have looked.")
        assert (ended["agent"], ended["description"], ended["cwd"]) == ("Explore", "a look", str(tmp_path))
        assert ended["evidence"]["toolCalls"] == 1
        assert (await site.client.get(f"/api/tasks/{task[:5]}")).json["agentId"] == task


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        for body, said in (
            ({"agent": "Exploer", "prompt": "x"}, "Explore"),
            ({"agent": "Explore", "prompt": " "}, "prompt is empty"),
            ({"agent": "Explore", "prompt": "x", "model": "nobody/nothing"}, "nobody"),
            ({"agent": "Explore", "prompt": "x", "model": "scripted:/etc/passwd"}, "over HTTP"),
            ({"agent": "Explore", "prompt": "x", "outputSchema": {"type": 5}}, "JSON Schema at $.type"),
        ):
            answer = await site.client.post("/api/tasks", body)
            assert answer.status in (400, 404) and said in answer.json["error"]
        assert (await site.client.get("/api/tasks")).json["tasks"] == []


async def test_a_list_comes_in_pages_and_every_task_is_on_one_of_them(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("done")], Plan=[says("plan")]) as site:
        made = [await start(site.client, "Plan" if number % 5 == 0 else "Explore") for number in range(12)]
        for task in made:
            await site.client.ended(task)
        pages: list[list[str]] = []
        before: dict[str, str] = {}
        while True:
            page = (await site.client.get("/api/tasks", limit=5, **before)).json
            pages.append([task["agentId"] for task in page["tasks"]])
            if page["next"] is None:
                break
            before = {"before": page["next"]}
        assert [len(page) for page in pages] == [5, 5, 2]
        assert [task for page in pages for task in page] == made[::-1]
        plans = (await site.client.get("/api/tasks", agent="plan", status="completed")).json["tasks"]
        assert [task["agentId"] for task in plans] == [made[10], made[5], made[0]]
        both = await site.client.ask("GET", "/api/tasks?status=running&status=pending")
        assert both.json["tasks"] == []


async def test_a_tree_has_everything_below_a_conversation(tmp_path: Path) -> None:
    sends = says(
        "",
        call("Task", subagent_type="Explore", prompt="one", description="one"),
        call("Task", subagent_type="Plan", prompt="two", description="two"),
    )
    async with served(tmp_path, main=[sends, says("both done")], Explore=LOOK, Plan=[says("a plan")]) as site:
        begun = await site.client.post("/api/conversations/web/tree", {"text": "go"})
        session = begun.json["sessionId"]
        ended = await site.client.ended(session)
        assert ended["result"] == "both done"
        family = (await site.client.get(f"/api/tasks/{session}/tree")).json
        assert [(task["agent"], task["parentId"]) for task in family["tasks"]] == [
            ("main", None),
            ("Explore", session),
            ("Plan", session),
        ]
        children = (await site.client.get("/api/tasks", parent=session)).json["tasks"]
        assert sorted(task["agent"] for task in children) == ["Explore", "Plan"]
        roots = (await site.client.get("/api/tasks", roots="true")).json["tasks"]
        assert [task["agentId"] for task in roots] == [session]


async def test_a_long_result_is_paged(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(6000)).strip()
    async with served(tmp_path, Explore=[says(text)]) as site:
        task = await start(site.client)
        whole = await site.client.ended(task)
        assert (whole["result"], whole["page"], whole["pages"]) == (text, 1, 1)
        pages = -(-len(text) // PAGE)
        parts = [
            (await site.client.get(f"/api/tasks/{task}/output", page=page)).json
            for page in range(1, pages + 1)
        ]
        assert "".join(part["result"] for part in parts) == text
        assert [(part["page"], part["pages"]) for part in parts] == [
            (page, pages) for page in range(1, pages + 1)
        ]
        beyond = await site.client.get(f"/api/tasks/{task}/output", page=pages + 1)
        assert beyond.status == 404 and str(pages) in beyond.json["error"]


async def test_a_transcript_and_facts_come_in_windows(tmp_path: Path) -> None:
    looks = [says("", call("Glob", pattern=f"{number}*")) for number in range(4)]
    async with served(tmp_path, Explore=[*looks, says("done")]) as site:
        task = await start(site.client)
        await site.client.ended(task)
        whole = (await site.client.get(f"/api/tasks/{task}/transcript")).json
        assert (whole["start"], whole["total"]) == (0, len(whole["transcript"])) == (0, 10)
        assert [each["tool"] for each in whole["decisions"]] == ["Glob"] * 4
        part = (await site.client.get(f"/api/tasks/{task}/transcript", start=1, limit=2)).json
        assert part["transcript"] == whole["transcript"][1:3]
        assert len(part["decisions"]) == 1
        last = (await site.client.get(f"/api/tasks/{task}/transcript", limit=1)).json
        assert last["transcript"] == whole["transcript"][-1:]
        facts = (await site.client.get(f"/api/tasks/{task}/events", after=3, limit=2)).json
        assert [event["seq"] for event in facts["events"]] == [4, 5]
        older = (await site.client.get(f"/api/tasks/{task}/events", before=4, limit=2)).json
        assert [event["seq"] for event in older["events"]] == [2, 3]


@pytest.mark.parametrize(("how", "result"), [("abort", "first words"), ("keep", "so far")])
async def test_a_task_is_stopped(tmp_path: Path, how: str, result: str) -> None:
    turns = [says("first words", NAP), says("so far")]
    async with served(tmp_path, settings=NAPS, general_purpose=turns) as site:
        task = await start(site.client, "general-purpose")
        await running(site.client, task, turns=1)
        stopped = await site.client.post(f"/api/tasks/{task}/stop", {"how": how})
        assert stopped.status == 200
        assert (stopped.json["status"], stopped.json["stopped"]) == ("cancelled", [task])
        assert (stopped.json["result"], stopped.json["error"]) == (result, "the user stopped it")
        again = await site.client.post(f"/api/tasks/{task}/stop")
        assert (again.status, again.json["stopped"]) == (200, [])


async def test_a_tree_is_stopped_as_a_whole(tmp_path: Path) -> None:
    sends = call("Task", subagent_type="Explore", prompt="x", description="x", run_in_background=True)
    async with served(tmp_path, main=[says("", sends), says("sent"), says("told")], Explore=[LONG]) as site:
        begun = await site.client.post("/api/conversations/web/x", {"text": "go"})
        session = begun.json["sessionId"]
        await site.client.until("/api/tasks?agent=Explore&status=running", lambda told: bool(told["tasks"]))
        hits = (await site.client.get(f"/api/tasks/{session}/hits", verb="tree")).json["tasks"]
        stopped = await site.client.post(f"/api/tasks/{session}/stop", {"how": "tree"})
        assert len(stopped.json["stopped"]) == 2
        assert set(stopped.json["stopped"]) == {task["agentId"] for task in hits}
        assert (await site.client.get("/api/tasks", status="running")).json["tasks"] == []


async def test_a_running_task_hears_what_is_said_and_an_ended_one_is_woken(tmp_path: Path) -> None:
    turns = [LOOK[0], says("", call("Bash", command="sleep 0.3")), says("first"), says("second")]
    async with served(tmp_path, settings=NAPS, general_purpose=turns) as site:
        task = await start(site.client, "general-purpose")
        await running(site.client, task, turns=1)
        steered = await site.client.post(f"/api/tasks/{task}/send", {"message": "leave the tests out"})
        assert (steered.status, steered.json["woken"]) == (200, False)
        assert (await site.client.ended(task))["result"] == "first"
        woken = await site.client.post(f"/api/tasks/{task}/send", {"message": "go on"})
        assert (woken.status, woken.json["woken"]) == (200, True)
        assert (await site.client.ended(task))["result"] == "second"
        said = (await site.client.get(f"/api/tasks/{task}/transcript")).json["transcript"]
        heard = [each["text"] for each in said if each["role"] == "user" and "notice" not in each]
        assert heard == ["look", "leave the tests out", "go on"]


async def test_what_is_refused_to_an_ended_task_is_not_heard_later(tmp_path: Path, home: Path) -> None:
    file = home / ".gen" / "agents" / "tester.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("---\nname: tester\ndescription: Tests.\n---\nTest.\n")
    async with served(tmp_path, tester=[*LOOK, says("again")]) as site:
        task = await start(site.client, "tester")
        await site.client.ended(task)
        file.rename(home / "tester.md")
        refused = await site.client.post(f"/api/tasks/{task}/send", {"message": "refused"})
        assert 400 <= refused.status < 500
        (home / "tester.md").rename(file)
        woken = await site.client.post(f"/api/tasks/{task}/send", {"message": "go on"})
        assert (woken.status, woken.json["woken"]) == (200, True)
        assert (await site.client.ended(task))["result"] == "again"
        assert await site.client.heard(task) == ["look", "go on"]


async def test_a_task_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    turns = [says("", NAP), says("went another way")]
    async with served(tmp_path, settings=NAPS, general_purpose=turns) as site:
        task = await start(site.client, "general-purpose")
        await running(site.client, task, turns=1)
        cut = await site.client.post(f"/api/tasks/{task}/interrupt", {"message": "not that"})
        assert (cut.status, cut.json["interrupted"]) == (200, [task])
        assert (await site.client.ended(task))["result"] == "went another way"


async def test_a_task_is_resumed_and_forked(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[*LOOK, says("and more")]) as site:
        task = await start(site.client)
        await site.client.ended(task)
        resumed = await site.client.post(f"/api/tasks/{task}/resume", {"prompt": "more"})
        assert (resumed.status, resumed.json["agentId"], resumed.json["status"]) == (200, task, "running")
        assert (await site.client.ended(task))["result"] == "and more"
        forked = await site.client.post(f"/api/tasks/{task}/fork", {"prompt": "else", "at": 4})
        assert forked.status == 201 and forked.json["agentId"] != task
        copy = await site.client.ended(forked.json["agentId"])
        assert copy["success"]
        beyond = await site.client.post(f"/api/tasks/{task}/fork", {"prompt": "else", "at": 4000})
        assert beyond.status == 400


async def test_a_replay_tells_the_stored_state_and_where_another_run_differs(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK, Plan=[says("a plan")]) as site:
        one, other = await start(site.client), await start(site.client, "Plan")
        for task in (one, other):
            await site.client.ended(task)
        told = (await site.client.get(f"/api/tasks/{one}/replay", against=other)).json
        assert told["same"] and told["total"] == len(told["events"])
        assert (told["compared"]["other"], told["compared"]["same"]) == (other, False)
        part = (await site.client.get(f"/api/tasks/{one}/replay", start=1, limit=2)).json
        assert part["events"] == told["events"][1:3]


async def test_a_task_that_somebody_waits_for_goes_to_the_background(tmp_path: Path) -> None:
    sends = call("Task", subagent_type="Explore", prompt="x", description="x")
    async with served(
        tmp_path, main=[says("", sends), says("it goes on"), says("told")], Explore=[LONG]
    ) as site:
        await site.client.post("/api/conversations/web/x", {"text": "go"})
        found = await site.client.until(
            "/api/tasks?agent=Explore&status=running", lambda told: bool(told["tasks"])
        )
        task = found["tasks"][0]["agentId"]
        sent = await site.client.post(f"/api/tasks/{task}/background")
        assert (sent.status, sent.json["background"]) == (200, True)


async def test_a_task_that_has_ended_or_is_at_work_is_a_conflict(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    async with served(tmp_path, Explore=LOOK, general_purpose=[says("", gate.call), says("x")]) as site:
        ended, works = await start(site.client), await start(site.client, "general-purpose")
        await site.client.ended(ended)
        sent = await site.client.post(f"/api/tasks/{ended}/background")
        resumed = await site.client.post(f"/api/tasks/{works}/resume", {"prompt": "more"})
        assert (sent.status, resumed.status) == (409, 409)
        await until(gate.opened)


async def test_a_whole_number_may_be_written_with_a_point(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        wish = {"agent": "Explore", "prompt": "look", "outputSchema": {"multipleOf": 0.5}}
        for number, status in (
            (1569.0, 201),
            (2e3, 201),
            (1569.5, 400),
            ("1569", 400),
            (True, 400),
            (1e300, 400),
        ):
            begun = await site.client.post(
                "/api/tasks", {**wish, "maxTurns": number, "budget": {"turns": number}}
            )
            assert begun.status == status, number


async def test_a_detached_task_has_a_process_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        task = await start(site.client, detached=True)
        assert site.gen.running.find(task) is None
        assert (await site.client.ended(task))["result"] == "I have looked."


async def test_two_servers_never_run_one_task_twice(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    turns = [*LOOK, says("", gate.call), says("again")]
    async with served(tmp_path, others=turns) as one, served(tmp_path, others=turns) as other:
        task = await start(one.client, "general-purpose")
        await one.client.ended(task)
        answers = await asyncio.gather(
            *(site.client.post(f"/api/tasks/{task}/resume", {"prompt": "more"}) for site in (one, other) * 3)
        )
        assert sorted({answer.status for answer in answers}) == [200, 409]
        assert [answer.status for answer in answers].count(200) == 1
        await until(gate.opened)
        assert (await other.client.ended(task))["result"] == "again"
        stopped = await other.client.post(f"/api/tasks/{task}/stop")
        assert stopped.json["stopped"] == []
        assert len(await one.gen.history.tasks(TaskQuery())) == 1


async def test_unknown_and_ambiguous_ids_are_told_apart(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("x")]) as site:
        for _ in range(17):
            await site.client.ended(await start(site.client))
        ids = [task["agentId"] for task in (await site.client.get("/api/tasks")).json["tasks"]]
        first = next(each[0] for each in ids if sum(other[0] == each[0] for other in ids) > 1)
        assert (await site.client.get(f"/api/tasks/{first}")).status == 409
        for unknown in ("zzzz", "%00", "..", "9f3a1c2e9", "a b"):
            assert (await site.client.get(f"/api/tasks/{unknown}")).status == 404
