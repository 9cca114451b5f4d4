"""`gen mcp` as a program of its own: the SDK's client over stdio, garbage, and an end in order."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.extras import installing
from gencode.core.status import Status
from gencode.interfaces.cli import mcp
from gencode.interfaces.cli.main import build_parser
from gencode.interfaces.mcp_server.workspaces import CLIENT_GONE
from gencode.sandbox.processes.environment import INSIDE_MARK
from gencode.testing import call, reported, says
from mcp import Client
from tests.interfaces.cli.running import script
from tests.interfaces.mcp_server.offices import program, report, task_of, text
from tests.waiting import until

SECONDS = 120
PRINTS = "import os, sys; print('stray'); os.system('echo stray'); os.write(1, b'stray')"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Raw:
    """A client that writes what it likes and keeps every line it reads."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[bytes] = []
        assert process.stdin and process.stdout and process.stderr
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

    @classmethod
    async def start(cls, folder: Path, *words: str) -> "Raw":
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        command = [sys.executable, "-m", "gencode", "mcp", *words]
        env = {"PYTHONWARNINGS": "error", **os.environ}
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env=env, limit=10_000_000, **streams
        )
        return cls(process)

    def say(self, number: int | None, method: str, params: dict[str, Any]) -> None:
        asked = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(asked if number is None else {**asked, "id": number}).encode() + b"\n")

    def write(self, content: bytes) -> None:
        self._stdin.write(content)

    async def read(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._stdout.readline(), SECONDS)
        self.lines.append(line)
        assert line, (await self._stderr.read()).decode()
        return json.loads(line)

    async def hello(self) -> None:
        self.say(0, "initialize", HELLO)
        assert (await self.read())["result"]["serverInfo"]["name"] == "gencode"
        self.say(None, "notifications/initialized", {})

    async def leave(self) -> tuple[int, str]:
        """Close stdin; the exit code, and what was said on stderr."""
        self._stdin.close()
        return await self.ended()

    async def ended(self) -> tuple[int, str]:
        self.lines += (await asyncio.wait_for(self._stdout.read(), SECONDS)).splitlines()
        said = (await asyncio.wait_for(self._stderr.read(), SECONDS)).decode()
        return await asyncio.wait_for(self.process.wait(), SECONDS), said


async def test_a_client_starts_a_background_task_gets_progress_and_stops_it(tmp_path: Path) -> None:
    turns = [says("", call("Glob", pattern="*")), says("…", delay_ms=60_000)]
    model = script(tmp_path, others=turns, Explore=[says("Found it.")])
    steps: asyncio.Queue[str] = asyncio.Queue()

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.put_nowait(message or "")

    async with Client(program(tmp_path, "--model", model)) as client:
        assert (
            report(await client.call_tool("Task", {"subagent_type": "Explore", "prompt": "x"})) == "Found it."
        )
        begun = await client.call_tool(
            "Task", {"subagent_type": "Plan", "prompt": "Plan", "run_in_background": True}
        )
        task = task_of(begun)
        looking = asyncio.create_task(
            client.call_tool("TaskOutput", {"task_id": task, "timeout": 60_000}, progress_callback=told)
        )
        assert (await steps.get()).startswith(f"Plan (task {task}), ")
        stopped = await client.call_tool("TaskStop", {"task_id": task})
        assert f"Task {task} of Plan was stopped" in text(stopped)
        assert "Status: cancelled" in text(await looking)


async def test_garbage_and_a_hundred_calls_at_once_and_nothing_but_the_protocol_on_stdout(
    tmp_path: Path,
) -> None:
    model = script(
        tmp_path,
        others=[says("", call("Bash", command=f'{sys.executable} -c "{PRINTS}"')), says("Done.")],
        Plan=[says("…", delay_ms=60_000)],
    )
    rules = ("--permission-mode", "dontAsk")
    raw = await Raw.start(tmp_path, "--model", model, *rules)
    await raw.hello()
    raw.write(b"garbage\n\xff\xfe\n[1]\n" + b"x" * 5_000_000 + b"\n")
    assert [(await raw.read())["error"]["code"] for _ in range(4)] == [-32700, -32700, -32600, -32600]
    arguments = {"subagent_type": "Bash", "prompt": "Print"}
    calls = {number: {**arguments, "subagent_type": "Explore"} for number in range(2, 102)}
    for number, wish in {1: arguments, **calls}.items():
        raw.say(number, "tools/call", {"name": "Task", "arguments": wish})
    answers = [await raw.read() for _ in range(101)]
    assert sorted(each["id"] for each in answers) == list(range(1, 102))
    assert {reported(each["result"]["content"][0]["text"]) for each in answers} == {"Done."}
    assert len({each["result"]["_meta"]["gencode/taskId"] for each in answers}) == 101
    wish = {"subagent_type": "Plan", "prompt": "Stay", "run_in_background": True}
    raw.say(200, "tools/call", {"name": "Task", "arguments": wish})
    task = (await raw.read())["result"]["_meta"]["gencode/taskId"]
    code, said = await raw.leave()
    assert code == 0
    assert f"Stopping {task} (Plan)" in said
    assert [json.loads(line)["jsonrpc"] for line in raw.lines] == ["2.0"] * len(raw.lines)
    async with GenCode.open(tmp_path, model="offline") as gen:
        left = await gen.get(task)
        assert (left.status, left.error) == (Status.CANCELLED, str(CLIENT_GONE))


async def delegates(raw: Raw, folder: Path) -> None:
    """Have it start an agent that takes long, and wait until it runs."""
    raw.say(1, "tools/call", {"name": "Task", "arguments": {"subagent_type": "Plan", "prompt": "x"}})
    async with GenCode.open(folder, model="offline") as gen:

        async def runs() -> bool:
            return [each.status for each in await gen.tasks()] == [Status.RUNNING]

        await until(runs, "the agent runs")


async def test_it_ends_in_order_when_it_is_told_to(tmp_path: Path) -> None:
    model = script(tmp_path, others=[says("…", delay_ms=60_000)])
    raw = await Raw.start(tmp_path, "--model", model)
    await raw.hello()
    await delegates(raw, tmp_path)
    raw.process.send_signal(signal.SIGTERM)
    code, said = await raw.ended()
    assert code == 128 + signal.SIGTERM
    assert "Stopping " in said
    answers = [json.loads(line) for line in raw.lines]
    assert [each["error"]["message"] for each in answers if each["id"] == 1] == ["Connection closed"]


async def test_nothing_is_written_to_a_client_that_has_closed_its_end(tmp_path: Path) -> None:
    model = script(tmp_path, others=[says("…", delay_ms=60_000)])
    raw = await Raw.start(tmp_path, "--model", model)
    await raw.hello()
    await delegates(raw, tmp_path)
    before = len(raw.lines)
    code, said = await raw.leave()
    assert (code, raw.lines[before:]) == (0, [])
    async with GenCode.open(tmp_path, model="offline") as gen:
        (left,) = await gen.tasks()
        assert f"Stopping {left.agent_id} (Plan)" in said
        assert (left.status, left.error) == (Status.CANCELLED, str(CLIENT_GONE))


def test_without_the_package_a_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UserMistake, match=re.escape(installing("mcp"))):
        mcp.run(build_parser().parse_args(["mcp"]))


def test_a_server_below_a_server_does_not_start_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE_MARK, "1")
    with pytest.raises(UserMistake, match=r"\.mcp\.json"):
        mcp.run(build_parser().parse_args(["mcp"]))


def test_whatever_is_printed_later_goes_to_stderr_and_children_read_nothing() -> None:
    program = (
        "import os, sys; from gencode.interfaces.json_rpc import take_stdio; "
        "incoming, outgoing = take_stdio(); print('stray', flush=True); os.system('echo stray; cat'); "
        "os.write(outgoing, os.read(incoming, 100))"
    )
    ended = subprocess.run([sys.executable, "-c", program], input=b"hello", capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"hello", b"stray\nstray\n")


def test_an_option_of_the_address_needs_one() -> None:
    before = os.fstat(1)
    with pytest.raises(UserMistake, match="--port needs --http"):
        mcp.run(build_parser().parse_args(["mcp", "--port", "1"]))
    assert os.path.samestat(before, os.fstat(1))
