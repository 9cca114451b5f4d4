"""One conversation in two terminals: both see everything, and what either says is heard."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gencode.core.messages import UserMessage
from gencode.core.task import transcript_of
from gencode.stores.sqlite import SqliteStore
from gencode.surfaces.talk import Talk
from gencode.testing import call, says, scripted

Turns = Sequence[dict[str, Any]]
TURNS = [says("one"), says("two", delay_ms=1_500), says("three")]


@asynccontextmanager
async def terminal(
    folder: Path, main: Turns = TURNS, explore: Turns = (), others: Turns = ()
) -> AsyncGenerator[Talk, None]:
    """A GenCode of its own over the database of the folder, listened to."""
    store = await SqliteStore.open(folder / "gen.db")
    async with scripted(folder, store=store, main=main, Explore=explore, others=others) as gen:
        talk = Talk(gen)
        listening = asyncio.create_task(talk.listen())
        try:
            yield talk
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await talk.close()
    await store.close()


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


async def test_a_turn_that_waits_for_others_hears_what_somebody_woke_elsewhere(tmp_path: Path) -> None:
    slow = call("Task", subagent_type="general-purpose", prompt="wait", run_in_background=True)
    sent = call("Task", subagent_type="Explore", prompt="look")
    main = [says("", sent), says("one"), says("", slow), says("two"), says("three")]
    script = (main, [says("first"), says("second")], [says("never", delay_ms=600_000)])
    async with terminal(tmp_path, *script) as here, terminal(tmp_path, *script) as there:
        await here.say("hello")
        await until(lambda: here.lead and here.lead.status.ended)
        (child,) = here.view.launched(here.session or "")
        await here.say("and another one")
        await until(lambda: here.lead and here.lead.turns == 4)
        assert (await there.gen.send(child, "and now?"))[1]
        await until(lambda: here.lead and here.lead.turns == 5)
        heard = transcript_of(await here.gen.store.events(here.session or ""))
        told = [each for each in heard if isinstance(each, UserMessage) and each.delivers]
        assert [(each.delivers, each.text.rpartition("\n")[2]) for each in told] == [((child,), "second")]
        assert here.running and not here.working
        await here.interrupt()
