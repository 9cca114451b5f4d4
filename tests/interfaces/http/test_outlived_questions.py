"""A question is gone with its task, however that ended, and whoever answers it then is told so."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gencode.interfaces.http.question_endpoints import GONE
from gencode.testing import call, says
from tests.interfaces.cli.running import gen, script
from tests.interfaces.http.serving import Process, gen_serve
from tests.stories.detached_agent import WITH_BASH, begun, worker_of
from tests.stories.process_end import NEEDS_PROC, is_gone
from tests.suspending import suspend
from tests.waiting import until

ASKS = (says("", call("Bash", command="touch x")), says("done"))


@pytest.fixture
def model(tmp_path: Path, home: Path) -> str:
    """A model whose agent asks; agents in the background may do so, too."""
    (home / ".gen").mkdir(exist_ok=True)
    (home / ".gen" / "settings.toml").write_text("background_questions = true\n")
    return script(tmp_path, others=ASKS)


async def asked(server: Process, task: str) -> int:
    """The number of the one question that waits, which is that of a task."""
    [question] = (await server.client.until("/api/questions", lambda told: told["questions"]))["questions"]
    assert (question["task"], question["input"]) == (task, {"command": "touch x"})
    return question["number"]


async def answered(server: Process, number: int) -> tuple[int, Any]:
    answer = await server.client.post(f"/api/questions/{number}", {"allow": True})
    return answer.status, answer.json


async def stopped(folder: Path, task: str) -> None:
    assert (await asyncio.to_thread(gen, "task", "stop", task, cwd=folder)).code == 0


@NEEDS_PROC
@pytest.mark.parametrize("how", ["killed", "stopped", "suspended and stopped"])
async def test_a_question_of_a_detached_agent_ends_with_it(
    tmp_path: Path, home: Path, model: str, how: str
) -> None:
    async with gen_serve(tmp_path, "--model", "offline") as server:
        task = (await asyncio.to_thread(begun, tmp_path, model, agent=WITH_BASH))["agentId"]
        number, process = await asked(server, task), worker_of(home, task)
        if how == "killed":
            os.kill(process, signal.SIGKILL)
            await until(lambda: is_gone(process), "its process has ended")
        if how.startswith("suspended"):
            suspend(process)
        if how.endswith("stopped"):
            await stopped(tmp_path, task)
        told = await answered(server, number)
        await server.client.until("/api/questions", lambda each: not each["questions"])
    assert told == (404, {"error": GONE})
    assert not (tmp_path / "x").exists()


@NEEDS_PROC
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_server_that_hung_asks_no_more_for_a_task_that_was_stopped_meanwhile(
    tmp_path: Path, home: Path, model: str, at_once: bool
) -> None:
    async with gen_serve(tmp_path, "--model", model) as server:
        begun = await server.client.post("/api/tasks", {"agent": WITH_BASH, "prompt": "do it"})
        task = begun.json["agentId"]
        number, process = await asked(server, task), worker_of(home, task)
        suspend(process)
        await stopped(tmp_path, task)
        os.kill(process, signal.SIGCONT)
        if not at_once:
            await server.client.until("/api/questions", lambda each: not each["questions"])
        told = await answered(server, number)
        await server.client.until("/api/questions", lambda each: not each["questions"])
        ended = (await server.client.get(f"/api/tasks/{task}")).json
    assert told == (404, {"error": GONE})
    assert (ended["status"], (tmp_path / "x").exists()) == ("interrupted", False)
