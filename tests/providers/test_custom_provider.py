"""Providers that a program brought along: whatever they raise or forget is told as their failure."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart
from gencode.core.outcome import Outcome
from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted

Reply = Callable[[], AsyncGenerator[Part, None]]


class Mine:
    """A provider of one's own that plays one reply after the other, and then the last one."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = [*replies]

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The next reply."""
        return (self._replies.pop(0) if len(self._replies) > 1 else self._replies[0])()


def raising(error: Exception, *before: object) -> Reply:
    """A reply that breaks off."""

    async def reply() -> AsyncGenerator[Part, None]:
        for part in before:
            yield cast("Part", part)
        raise error

    return reply


def saying(*parts: Any) -> Reply:
    """A reply of these parts."""

    async def reply() -> AsyncGenerator[Part, None]:
        for part in parts:
            yield part

    return reply


FINE = saying(TextPart("fine"), EndPart("mine"))


async def asked(folder: Path, *replies: Reply) -> Outcome:
    """What came of a turn with such a provider."""
    async with GenCode.open(folder, model=Mine(*replies), store=MemoryStore()) as gen:
        return await gen.ask("go").outcome()


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError("gone"), ConnectionError()])
async def test_a_time_that_ran_out_and_a_connection_that_broke_are_asked_again(
    tmp_path: Path, error: Exception
) -> None:
    outcome = await asked(tmp_path, raising(error, TextPart("half")), FINE)
    assert (outcome.status, outcome.result, outcome.error) == (Status.COMPLETED, "fine", None)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (raising(ValueError("no voice")), "the provider Mine failed: ValueError: no voice"),
        (raising(KeyError("choices"), TextPart("half")), "the provider Mine failed: KeyError: 'choices'"),
        (raising(ProviderError("it said so")), "it said so"),
        (
            saying(TextPart("half")),
            "the reply of the provider Mine ended without an EndPart; yield one last",
        ),
        (
            saying("text", EndPart("mine")),
            "the provider Mine yielded a str, not a part of a reply (TextPart, …)",
        ),
    ],
)
async def test_any_other_failure_ends_the_task_at_once_in_its_own_words(
    tmp_path: Path, reply: Reply, why: str
) -> None:
    outcome = await asked(tmp_path, reply)
    assert (outcome.status, outcome.error) == (Status.FAILED, why)


async def test_the_agents_it_answers_for_tell_it_likewise(tmp_path: Path) -> None:
    async with GenCode.open(tmp_path, model=Mine(raising(OSError("no disk"))), store=MemoryStore()) as gen:
        outcome = await gen.task("Explore", "look")
    assert (outcome.status, outcome.error) == (Status.FAILED, "the provider Mine failed: OSError: no disk")


class Moody:
    """An asker that does not answer but raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def ask(self, question: Question) -> Answer:
        """No answer."""
        raise self._error


WRITE = call("Write", file_path="a.txt", content="a")


@pytest.mark.parametrize("calls", [[WRITE], [call("Read", file_path="/etc/hostname"), WRITE]])
@pytest.mark.parametrize("error", [RuntimeError("no window"), TimeoutError("no window")])
async def test_an_asker_that_raises_is_told_as_its_failure(
    tmp_path: Path, error: Exception, calls: list[dict[str, Any]]
) -> None:
    async with scripted(tmp_path, asker=Moody(error), main=[says("", *calls), says("never")]) as gen:
        outcome = await gen.ask("go").outcome()
    assert not (tmp_path / "a.txt").exists()
    assert (outcome.status, outcome.error) == (
        Status.FAILED,
        f"the asker Moody failed: {type(error).__name__}: no window",
    )
