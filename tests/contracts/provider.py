"""The promises of the `Provider` port. A test file of a provider imports all of it and gives `staged`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from gencode.agent.ports import Provider, Request, ToolSchema
from gencode.core.errors import ProviderError
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall, UserMessage

KEY = "sk-never-shown-4711"
LOOKUP = ToolSchema("lookup", "Look a key up.", {"type": "object", "properties": {"key": {"type": "string"}}})


@dataclass(frozen=True)
class Play:
    """A reply that a provider shall give."""

    texts: tuple[str, ...] = ()
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    breaks: bool = False
    """It goes wrong after the text."""
    waits: bool = False
    """It never gets to its end."""


@dataclass(frozen=True)
class Stage:
    """A provider that will give the reply, its name in errors, and a way to see that it let go."""

    provider: Provider
    name: str
    let_go: Callable[[], Awaitable[bool]]


class Staged(Protocol):
    """Sets the stage for one play."""

    def __call__(self, play: Play) -> Awaitable[Stage]:
        """The stage; it is cleared after the test."""
        ...


def request(*texts: str) -> Request:
    """A plain question with one tool."""
    return Request("model", "You help.", [UserMessage(text) for text in texts or ("Go.",)], (LOOKUP,))


async def parts_of(provider: Provider) -> list[Part]:
    """Everything a provider gives."""
    return [part async for part in provider.stream(request())]


def told(parts: list[Part]) -> str:
    """The text among parts."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))


async def test_text_comes_in_order_and_the_end_comes_last(staged: Staged) -> None:
    stage = await staged(Play(("Where ", "auth errors ", "are: über ", "here.")))
    parts = await parts_of(stage.provider)
    assert told(parts) == "Where auth errors are: über here."
    assert [type(part) for part in parts].count(EndPart) == 1
    end = parts[-1]
    assert isinstance(end, EndPart)
    assert (end.stop, bool(end.model)) == ("end_turn", True)


async def test_calls_come_whole_and_in_order_after_the_text(staged: Staged) -> None:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("lookup", {"key": "a", "deep": [1, {"b": None}]}),
        ("lookup", {"key": "ü"}),
        ("lookup", {}),
    )
    stage = await staged(Play(("I look.",), calls))
    parts = await parts_of(stage.provider)
    heard = [part.call for part in parts if isinstance(part, CallPart)]
    assert heard == [ToolCall(call.id, name, given) for call, (name, given) in zip(heard, calls, strict=True)]
    assert len({call.id for call in heard}) == len(calls)
    assert told(parts) == "I look."
    assert isinstance(parts[-1], EndPart)
    assert parts[-1].stop == "tool_use"


async def test_what_came_before_an_error_is_given_and_the_error_names_the_model(staged: Staged) -> None:
    stage = await staged(Play(("half ", "an answer "), breaks=True))
    heard: list[Part] = []
    with pytest.raises(ProviderError) as raised:
        async for part in stage.provider.stream(request()):
            heard.append(part)
    assert told(heard) == "half an answer "
    assert not any(isinstance(part, EndPart) for part in heard)
    assert stage.name in str(raised.value)
    assert KEY not in str(raised.value)


async def test_a_reply_that_is_cancelled_in_the_middle_lets_go_at_once(staged: Staged) -> None:
    stage = await staged(Play(("some words ",), waits=True))
    begun = asyncio.Event()

    async def listen() -> None:
        async with aclosing(stage.provider.stream(request())) as parts:
            begun.set()
            async for _ in parts:
                pass

    listening = asyncio.create_task(listen())
    await begun.wait()
    await asyncio.sleep(0.05)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert await stage.let_go()


async def test_many_can_be_answered_side_by_side(staged: Staged) -> None:
    stage = await staged(Play(("one ", "answer"), (("lookup", {"key": "a"}),)))
    alone = await parts_of(stage.provider)
    assert await asyncio.gather(*(parts_of(stage.provider) for _ in range(5))) == [alone] * 5
