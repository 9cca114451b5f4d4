"""Agents that stood in line when their process ended: they go on with all they had, and hear it once."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.interfaces.http.restart import RESUME_NOTICE, SHUT_DOWN
from gencode.testing import says
from tests.interfaces.cli.running import script
from tests.interfaces.http.serving import Client, gen_serve, served
from tests.tasks.repository import repository
from tests.tasks.waiting_line import HOLD, ONE, STOPPED, Patient
from tests.tasks.words import heard, said
from tests.waiting import until

EXPLORE = [says("seen"), says("more seen")]
TOLD_ONCE = [STOPPED.format(why=SHUT_DOWN), RESUME_NOTICE.text]


@pytest.fixture(autouse=True)
def one_at_a_time(home: Path) -> None:
    (home / ".gen").mkdir(exist_ok=True)
    (home / ".gen" / "settings.toml").write_text("max_agents = 1\n")


async def begun(client: Client, agent: str, prompt: str) -> str:
    return (await client.post("/api/tasks", {"agent": agent, "prompt": prompt})).json["agentId"]


async def words(gen: GenCode, task: str) -> list[str]:
    return [each.text for each in heard(await said(gen, task))]


async def in_line(client: Client) -> tuple[str, str, str, str]:
    """One at work, and behind it one that goes on, a new one, and a copy of the first."""
    early = await begun(client, "Explore", "look")
    await client.ended(early)
    hold = await begun(client, "Plan", "hold")
    await client.post(f"/api/tasks/{early}/resume", {"prompt": "more"})
    new = await begun(client, "Explore", "new")
    copy = await client.post(f"/api/tasks/{early}/fork", {"prompt": "another way", "at": 4})
    return hold, early, new, copy.json["agentId"]


async def test_all_that_stood_in_line_goes_on_after_restarts_and_hears_of_them_once(tmp_path: Path) -> None:
    async with gen_serve(tmp_path, Explore=EXPLORE, Plan=[HOLD]) as server:
        hold, early, new, copy = await in_line(server.client)
        await server.stop(signal.SIGTERM)
    for _ in range(2):
        async with gen_serve(tmp_path, Explore=EXPLORE, Plan=[HOLD]) as server:
            places = {hold: 0, early: 1, new: 2, copy: 3}
            await server.client.until("/api/tasks", lambda now, places=places: _places(now) == places)
            await server.stop(signal.SIGTERM)
    async with served(tmp_path, settings=ONE, Explore=EXPLORE, Plan=[HOLD]) as site:
        await site.client.until(f"/api/tasks/{hold}", lambda now: now["status"] == "running")
        await site.client.post(f"/api/tasks/{hold}/stop", {})
        ended = [await site.client.ended(each) for each in (early, new, copy)]
        told = [await words(site.gen, each) for each in (hold, early, new, copy)]
    assert [each["status"] for each in ended] == ["completed"] * 3
    assert told[0] == ["hold", *TOLD_ONCE]
    assert told[1] == ["look", "more", *TOLD_ONCE]
    assert told[2] == ["new"]
    assert told[3] == ["look", "another way"]


def _places(now: dict[str, list[dict[str, Any]]]) -> dict[str, int]:
    """The places in line of all that have not ended; of who is at work, none."""
    there = [each for each in now["tasks"] if each["status"] in ("pending", "running")]
    return {each["agentId"]: each.get("queuePosition", 0) for each in there}


async def test_a_copy_in_line_whose_server_is_killed_goes_on_with_all_it_remembers(tmp_path: Path) -> None:
    async with gen_serve(tmp_path, Explore=EXPLORE, Plan=[HOLD]) as server:
        _, early, _, copy = await in_line(server.client)
        await server.stop(signal.SIGKILL)
    async with GenCode.open(tmp_path, model=script(tmp_path, Explore=EXPLORE, Plan=[HOLD])) as gen:
        cut = await gen.get(copy)
        went_on = await gen.resume(copy, "go on")
        told = await words(gen, copy)
    assert (cut.status, cut.forked_from, cut.turns) == (Status.INTERRUPTED, early, 0)
    assert (went_on.status, told) == (Status.COMPLETED, ["look", "another way", "go on"])


async def test_who_is_stopped_before_it_began_only_hears_what_it_is_to_do(tmp_path: Path) -> None:
    model = Patient()
    async with asyncio.timeout(60), GenCode.open(tmp_path, model=model, settings=ONE) as gen:
        earlier = await gen.task("Explore", "early")
        await gen.task("Explore", "hold", background=True)
        await until(lambda: "hold" in model.asked, "one is at work")
        new = await gen.task("Explore", "new", background=True)
        await gen.stop(new.id)
        model.let_go.set()
        went_on = await gen.resume(new.id, "after all")
        with pytest.raises(UserMistake, match="The prompt is empty"):
            await gen.resume(earlier.agent_id, "")
    assert went_on.result == "new / after all"


async def test_what_is_said_to_one_in_line_that_gets_a_process_of_its_own_is_heard_first(
    tmp_path: Path,
) -> None:
    model = script(tmp_path, Explore=EXPLORE, Plan=[says("held", delay_ms=1_500)])
    async with GenCode.open(tmp_path, model=model, settings=ONE) as gen:
        await gen.task("Plan", "hold", background=True)
        apart = await gen.task("Explore", "look", background=True, isolation="process")
        await gen.send(apart.id, "and this")
        ended = await gen.history.ended(apart.id, 60)
        told = await words(gen, apart.id)
    assert (ended.status, told) == (Status.COMPLETED, ["look", "and this"])


@pytest.mark.needs("git")
@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_one_in_line_for_a_worktree_is_told_of_that_when_it_begins_after_all(
    tmp_path: Path, how: str
) -> None:
    folder = repository(tmp_path / "project")
    async with gen_serve(folder, Explore=EXPLORE, Plan=[HOLD]) as server:
        await begun(server.client, "Plan", "hold")
        order = {"agent": "Explore", "prompt": "look", "isolation": "worktree"}
        task = (await server.client.post("/api/tasks", order)).json["agentId"]
        if how == "stopped":
            await server.client.post(f"/api/tasks/{task}/stop", {})
        await server.stop(signal.SIGKILL)
    async with GenCode.open(folder, model=script(folder, Explore=EXPLORE)) as gen:
        went_on = await gen.resume(task, "")
        told = await words(gen, task)
        tree = (await gen.find(task)).created.worktree
    assert (went_on.status, told[0], len(told)) == (Status.COMPLETED, "look", 2)
    assert str(tree) in told[1] and f"gencode/{task}" in told[1]
