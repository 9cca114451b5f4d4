"""A main agent and its child on a real wire: keys, addresses, retries and prices, over HTTP on 127.0.0.1."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.provider import Play
from tests.providers.dialects import chat, messages
from tests.providers.fake_server import Act, FakeServer, fake_server, in_json, streamed

from gencode import GenCode, UserMistake
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore

KEY = "sk-canary-0123456789"
SEND: tuple[str, dict[str, Any]] = ("Task", {"subagent_type": "Explore", "prompt": "Find the pool"})
BUSY = in_json({"error": {"message": "slow down"}}, "429 Too Many Requests", retry_after="0")


def variables(vendor: str, server: FakeServer) -> dict[str, str]:
    return {f"{vendor.upper()}_API_KEY": KEY, f"{vendor.upper()}_BASE_URL": server.url}


def acts(vendor: str) -> list[Act]:
    """Main sends an agent; the agent is refused once, then answers; main answers."""
    speak = {"openai": chat, "anthropic": messages}[vendor]
    plays = (Play(("I send one.",), (SEND,)), Play(("It is in pool.py:1.",)), Play(("See pool.py:1.",)))
    first, *others = (streamed(*speak(play)) for play in plays)
    return [first, BUSY, *others]


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_a_question_is_answered_by_a_model_behind_http(
    vendor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_server(*acts(vendor)) as server:
        for name, value in variables(vendor, server).items():
            monkeypatch.setenv(name, value)
        settings: dict[str, Any] = {"prices": {f"{vendor}/some-model": {"input": 1.0, "output": 2.0}}}
        async with GenCode.open(
            tmp_path, model=f"{vendor}/some-model", settings=settings, store=MemoryStore()
        ) as gen:
            outcome = await gen.ask("Where is the pool?").outcome()
            (child,) = await gen.tasks(parent=outcome.agent_id)
            journal = repr([await gen.history.events(task) for task in (outcome.agent_id, child.agent_id)])
    assert (outcome.status, outcome.result, outcome.turns) == (Status.COMPLETED, "See pool.py:1.", 2)
    assert (child.status, child.result) == (Status.COMPLETED, "It is in pool.py:1.")
    assert outcome.model.startswith(f"{vendor}/")
    own, tree = outcome.usage, outcome.usage.tree
    below = child.usage
    assert tree.input_tokens == own.input_tokens + below.input_tokens > 0
    assert tree.usd == pytest.approx((tree.input_tokens + 2 * tree.output_tokens) / 1_000_000)
    assert below.tree == Usage(below.input_tokens, below.output_tokens, below.cached_tokens, below.usd)
    assert len(server.asked) == 4
    assert KEY not in journal


async def test_a_key_chooses_the_model_and_never_shows(tmp_path: Path) -> None:
    """The whole program: the key is in no output and in no file it writes."""
    async with fake_server(in_json({"error": {"message": f"bad key {KEY}"}}, "401 Unauthorized")) as server:
        environ = {**os.environ, **variables("anthropic", server), "GEN_HOME": str(tmp_path / "home")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gencode", "-p", "Where is the pool?", "--json", "--verbose"),
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
    told = json.loads(out)
    assert (process.returncode, told["status"], told["model"]) == (1, "failed", "anthropic/claude-sonnet-5")
    assert server.asked[0].body["model"] == "claude-sonnet-5"
    assert server.asked[0].headers["x-api-key"] == KEY
    written = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"refused the API key" in written
    assert KEY.encode() not in out + err + written


async def test_whoever_waits_for_a_busy_model_is_told(tmp_path: Path) -> None:
    busy = in_json({"error": {"message": "slow down"}}, "429 Too Many Requests", retry_after="4")
    async with fake_server(busy, streamed(*chat(Play(("At last.",))))) as server:
        environ = {**os.environ, **variables("openai", server), "GEN_HOME": str(tmp_path / "home")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gencode", "-p", "go", "--model", "openai/some-model"),
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
    assert (process.returncode, out.decode()) == (0, "At last.\n")
    [told] = err.decode().splitlines()
    assert told.startswith("[main] waits for the model (openai/some-model ")
    assert "slow down" in told


async def test_a_provider_that_fails_is_an_error_and_never_a_change_of_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    async with GenCode.open(tmp_path, model="openai/some-model", store=MemoryStore()) as gen:
        outcome = await gen.ask("Where is the pool?").outcome()
    assert (outcome.status, outcome.model) == (Status.FAILED, "openai/some-model")
    assert "openai/some-model cannot be reached" in (outcome.error or "")


async def test_without_a_key_the_vendor_says_which_one_it_needs(tmp_path: Path) -> None:
    async with GenCode.open(tmp_path, model="openai/some-model", store=MemoryStore()) as gen:
        with pytest.raises(UserMistake, match="openai needs a key: set OPENAI_API_KEY"):
            await gen.ask("Where is the pool?").outcome()
