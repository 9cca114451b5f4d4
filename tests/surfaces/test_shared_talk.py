"""One conversation in two terminals: both see everything, and what either says is heard."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gencode.core.messages import UserMessage
from gencode.core.task import transcript_of
from gencode.stores.sqlite import SqliteStore
from gencode.surfaces.talk import Talk
from gencode.testing import says, scripted

TURNS = [says("one"), says("two", delay_ms=1_500), says("three")]


@asynccontextmanager
async def terminal(folder: Path) -> AsyncGenerator[Talk, None]:
    """A GenCode of its own over the database of the folder, listened to."""
    store = await SqliteStore.open(folder / "gen.db")
    async with scripted(folder, store=store, main=TURNS) as gen:
        talk = Talk(gen)
        listening = asyncio.create_task(talk.listen())
        try:
            yield talk
        finally:
            listening.cancel()
            await talk.close()


async def until(what: Callable[[], object]) -> None:
    for _ in range(3_000):
        if what():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come")


async def test_what_is_said_in_one_terminal_is_seen_and_answered_in_the_other(tmp_path: Path) -> None:
    async with terminal(tmp_path) as first, terminal(tmp_path) as second:
        await first.say("hello")
        await until(lambda: first.lead and first.lead.status.ended)
        session = first.session or ""
        await second.open(session)
        await first.say("from the first")
        await until(lambda: second.led_elsewhere)
        await second.say("from the second")
        await until(lambda: first.lead and first.lead.turns == 3 and first.lead.status.ended)
        await until(lambda: second.lead and second.lead.turns == 3 and second.lead.status.ended)
        heard = transcript_of(await first.gen.store.events(session))
        said = [each.text for each in heard if isinstance(each, UserMessage) and each.sender == "user"]
        assert said == ["hello", "from the first", "from the second"]
        assert (second.queued, second.led_elsewhere) == ({}, False)
