"""A model behind HTTP that reads what it was told before it answers: it can name tasks that it hears of."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contracts.provider import Play
from tests.providers.dialects import chat
from tests.providers.fake_server import Exchange, FakeServer, fake_server, streamed

MODEL = "openai/some-model"
_ASKS = re.compile(r"\(task ([0-9a-f]{8})\) asks\]")
_REPLIES = re.compile(r"the answer is the message after this one|\(no answer; |The user answered")


class Told:
    """What an agent has heard and said so far."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.system = next((_text(each) for each in messages if each["role"] == "system"), "")
        self.prompt = next(_text(each) for each in messages if each["role"] == "user")
        self.turns = sum(each["role"] == "assistant" for each in messages)
        self.heard = "\n".join(_text(each) for each in messages if each["role"] != "system")

    @property
    def askers(self) -> list[str]:
        """The tasks that have asked it something."""
        return _ASKS.findall(self.heard)

    @property
    def has_answered(self) -> bool:
        """Whether it has said something to one of them."""
        return "gets the message" in self.heard or "got the message" in self.heard

    @property
    def replies(self) -> int:
        """How often it was answered, or told that nobody does."""
        return len(_REPLIES.findall(self.heard))


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


Think = Callable[[Told], Play | Awaitable[Play]]


def say(text: str, *calls: tuple[str, dict[str, Any]]) -> Play:
    """A reply."""
    return Play((text,), calls)


def inquiry(*labels: str) -> tuple[str, dict[str, Any]]:
    """A call that asks which of these it should be."""
    options = [{"label": each} for each in labels]
    return "AskUserQuestion", {"questions": [{"question": "Which one?", "options": options}]}


def answer(told: Told, words: str) -> tuple[str, dict[str, Any]]:
    """A call that answers whoever asked last."""
    return "SendMessage", {"task_id": told.askers[-1], "message": words}


@asynccontextmanager
async def thinking(think: Think, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[FakeServer, None]:
    """A server whose model answers every agent by what that has been told, also those of other processes."""

    async def act(exchange: Exchange) -> bool | None:
        thought = think(Told(exchange.asked.body["messages"]))
        return await streamed(*chat(thought if isinstance(thought, Play) else await thought))(exchange)

    async with fake_server(act) as server:
        for name, value in (("OPENAI_API_KEY", "sk-none"), ("OPENAI_BASE_URL", server.url)):
            monkeypatch.setenv(name, value)
        yield server
