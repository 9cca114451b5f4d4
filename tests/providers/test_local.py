"""A GGUF file run by xllamacpp, for real: the models are tiny, and made so that what they say is known."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gencode.providers.local import LocalProvider
from tests.contracts import provider as contract
from tests.contracts.provider import KEY, LOOKUP, Play, Stage, Staged, parts_of, request, told
from tests.providers.tiny_gguf import write_model

pytestmark = pytest.mark.skipif(
    find_spec("xllamacpp") is None or shutil.which("ps") is None,
    reason="the package of the experimental local models is not installed",
)

LONG = 60

# The promises of the port that a model on this machine can be staged for; the others are tested below.
test_text_comes_in_order = contract.test_text_comes_in_order_and_the_end_comes_last
test_a_cancelled_reply_lets_go = contract.test_a_reply_that_is_cancelled_in_the_middle_lets_go_at_once


def model(folder: Path, play: Play, name: str = "tiny.gguf") -> str:
    """The file of a model that gives a reply."""
    said = list(play.texts)
    for place, (tool, given) in enumerate(play.calls):
        call = f'{{"name": "{tool}", "arguments": {json.dumps(given, ensure_ascii=False)}}}\n</tool_call>'
        said += ["<tool_call>", f"\n{call}"] if place == 0 else [f"\n<tool_call>\n{call}"]
    write_model(folder / name, said, endless=play.waits)
    return str(folder / name)


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    async def set_stage(play: Play) -> Stage:
        provider = LocalProvider(model(tmp_path, play), at_once=1)

        async def answers_somebody_else() -> bool:
            """The only place is free again, long before the endless reply could be at its end."""
            short = Request("m", "", [UserMessage("Go.")], (), max_tokens=1)
            async with asyncio.timeout(LONG):
                return [type(part) async for part in provider.stream(short)][-1] is EndPart

        return Stage(provider, "local/", answers_somebody_else)

    return set_stage


async def test_calls_come_whole_and_in_order_after_the_text(tmp_path: Path) -> None:
    """A model on this machine can only write calls that fit the tool's schema."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = (("lookup", {"key": "a"}), ("lookup", {"key": "ü"}))
    parts = await parts_of(LocalProvider(model(tmp_path, Play(("I look.",), (*calls, ("lookup", {}))))))
    heard = [part.call for part in parts if isinstance(part, CallPart)]
    assert [(call.name, call.input, call.broken) for call in heard] == [
        ("lookup", {"key": "a"}, ""),
        ("lookup", {"key": "ü"}, ""),
        ("lookup", {}, ""),
    ]
    assert len({call.id for call in heard}) == 3
    assert (told(parts), getattr(parts[-1], "stop", "")) == ("I look.", "tool_use")


async def test_what_came_before_an_error_is_given_and_the_error_names_the_model(tmp_path: Path) -> None:
    """The process is killed in the middle of a reply; the next request starts another one."""
    file = model(tmp_path, Play(("some ", "words "), waits=True))
    provider = LocalProvider(file)
    heard: list[Part] = []
    with pytest.raises(ProviderError) as raised:
        async for part in provider.stream(request()):
            heard.append(part)
            for child in children(os.getpid()):
                os.kill(child, signal.SIGKILL)
    assert told(heard).startswith("some ")
    assert str(raised.value).startswith(f"local/{file} crashed")
    assert not raised.value.retryable
    async with aclosing(provider.stream(request())) as parts:
        assert await anext(parts) == TextPart("some ")


async def test_a_reply_that_nobody_hears_any_more_makes_room_for_the_next(staged: Staged) -> None:
    stage = await staged(Play(("some ", "words "), waits=True))
    async with aclosing(stage.provider.stream(request())) as parts:
        assert await anext(parts) == TextPart("some ")
    assert await stage.let_go()


async def test_many_can_be_answered_side_by_side(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path, Play(("one ", "answer"))))
    answers = await asyncio.gather(*(parts_of(provider) for _ in range(6)))
    assert [told(parts) for parts in answers] == ["one answer"] * 6
    assert len(children(os.getpid())) == 1


async def test_a_reply_is_counted_and_the_second_one_is_cached(tmp_path: Path) -> None:
    file = model(tmp_path, Play(("Hi.",)))
    provider = LocalProvider(file)
    ends = [(await parts_of(provider))[-1] for _ in range(2)]
    assert all(
        isinstance(end, EndPart) and (end.model, end.stop) == (f"local/{file}", "end_turn") for end in ends
    )
    first, second = (end.usage for end in ends if isinstance(end, EndPart) and end.usage is not None)
    assert (first.output_tokens, first.cached_tokens) == (2, 0)
    assert second == Usage(first.input_tokens, 2, first.input_tokens - 1)


async def test_a_conversation_with_calls_is_understood(tmp_path: Path) -> None:
    call = ToolCall("c1", "lookup", {"key": "a"})
    history = [
        UserMessage("Go."),
        AssistantMessage("I look.", (call,)),
        ToolMessage((ToolResult("c1", "lookup", "row"),)),
    ]
    provider = LocalProvider(model(tmp_path, Play(("Done.",))))
    parts = [part async for part in provider.stream(Request("m", "You help.", history, (LOOKUP,)))]
    assert told(parts) == "Done."


async def test_a_conversation_that_is_too_long_is_refused_in_a_sentence(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path, Play(("Hi.",))))
    with pytest.raises(ProviderError, match=r"refused the request \(HTTP 400: .*context") as raised:
        async for _ in provider.stream(Request("m", "", [UserMessage("x" * 40_000)], ())):
            pass
    assert not raised.value.retryable


@pytest.mark.parametrize("content", [b"", b"GG", b"<html>", bytes(5000)])
def test_a_file_that_is_no_model_is_the_users_mistake(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(UserMistake, match="is not a GGUF file"):
        LocalProvider(str(tmp_path / "m.gguf"))


@pytest.mark.parametrize("name", ["none.gguf", ".", "a\0b"])
def test_a_file_that_is_not_there_is_the_users_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserMistake, match="cannot be read: "):
        LocalProvider(str(tmp_path / name))


async def test_a_broken_model_is_told_with_the_reason(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", ["Hi."], architecture="nomad")
    with pytest.raises(ProviderError, match="cannot be loaded: unknown model architecture: 'nomad'"):
        await parts_of(LocalProvider(str(tmp_path / "m.gguf")))
    write_model(tmp_path / "m.gguf", ["Hi."])
    whole = (tmp_path / "m.gguf").read_bytes()
    for size in (4, 24, 60_000, len(whole) - 1000):
        (tmp_path / "m.gguf").write_bytes(whole[:size])
        with pytest.raises(ProviderError, match=f"^local/{tmp_path}/m.gguf cannot be loaded: ") as raised:
            await parts_of(LocalProvider(str(tmp_path / "m.gguf")))
        assert not raised.value.retryable
    assert children(os.getpid()) == []


def test_a_missing_package_is_told_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UserMistake, match=r"pip install 'gencode-ai\[local\]'"):
        LocalProvider("m.gguf")


def test_the_process_gets_no_key_and_ends_with_us_however_we_end(tmp_path: Path) -> None:
    code = """
import asyncio, os, signal, sys
from tests.contracts.provider import parts_of
from tests.providers.test_local import children, environment
from gencode.providers.local import LocalProvider

async def main():
    await parts_of(LocalProvider(sys.argv[1]))
    (child,) = children(os.getpid())
    print(child, "never-shown" in environment(child), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, model(tmp_path, Play(("Hi.",)))],
        env={**os.environ, "ANTHROPIC_API_KEY": KEY},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    child, leaked = ended.stdout.split()
    assert leaked == "False"
    deadline = time.monotonic() + LONG
    while int(child) in children(None):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_heavy_is_imported_before_the_first_request() -> None:
    code = "import sys, gencode.providers.local; print(sorted({'xllamacpp', 'aiohttp'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def children(parent: int | None) -> list[int]:
    """The processes that run a model, below a process or anywhere, zombies left out."""
    shown = ["ps", "-ww", "-A", "-o", "pid=,ppid=,stat=,command="]
    lines = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split(None, 3) for line in lines if "gencode.providers.local" in line]
    return [
        int(pid)
        for pid, above, state, command in rows
        if command.endswith("-m gencode.providers.local")
        and parent in (None, int(above))
        and not state.startswith("Z")
    ]


def environment(process: int) -> str:
    """The environment of a process, as far as the system shows it."""
    shown = ["ps", "eww", "-o", "command=", "-p", str(process)]
    return subprocess.run(shown, capture_output=True, text=True, check=True).stdout
