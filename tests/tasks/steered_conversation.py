"""A conversation that gets messages while it runs."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from gencode.agent.ports import Request
from gencode.app import GenCode, components
from gencode.core.errors import ProviderError
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from tests.tasks.agent_file import write_agent
from tests.waiting import until

MAIN, CHILD = "00000001", "00000002"


class Steered:
    """A model that says one thing after the other; it is spoken to in the middle of a reply."""

    def __init__(self, *replies: str, calls: tuple[ToolCall, ...] = (), spoken: int = 1) -> None:
        self.replies = replies
        self.calls = calls
        self.spoken = spoken
        self.turns = 0
        self.there = asyncio.Event()
        self.free = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        turn, self.turns = self.turns, self.turns + 1
        if turn < self.spoken:
            self.there.set()
            await self.free.wait()
            self.free.clear()
        if turn == len(self.replies) == self.spoken:
            raise ProviderError("it is gone")
        yield TextPart(self.replies[min(turn, len(self.replies) - 1)])
        for each in self.calls if not turn else ():
            yield CallPart(each)
        yield EndPart("steered")

    async def hears(self, gen: GenCode, task: str) -> None:
        """Say something to its agent in the middle of a reply, as often as it is to be."""
        for _ in range(self.spoken):
            await self.there.wait()
            self.there.clear()
            await gen.send(task, "thanks")
            self.free.set()

    async def outcome(self, folder: Path) -> Outcome:
        """What a turn came to in which it was spoken to."""
        async with GenCode.open(folder, model=self, store=MemoryStore()) as gen:
            turn = gen.ask("go")
            await self.hears(gen, (await turn.start()).id)
            return await turn.outcome()


def talker(home: Path) -> None:
    write_agent(home / ".gen" / "agents", "Talker", tools="SendMessage, LS, AskUserQuestion")


async def speak_to_the_conversation(folder: Path, text: str) -> None:
    """Say something to the conversation that another process leads in a folder, once it does."""
    at_work = TaskQuery(statuses=(Status.RUNNING,))
    async with GenCode.open(folder, model="offline") as gen:
        await until(lambda: gen.history.tasks(at_work), "a conversation began")
        [found] = await gen.history.tasks(at_work)
        await components(gen).store.post(found.id, text, "user")
