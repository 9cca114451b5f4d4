"""Waits for changes: who waits is woken by a change that it has not seen, and by nothing else."""

import asyncio

from gencode.journal.change_notifier import SPACING_SECONDS, ChangeNotifier


async def test_a_change_that_was_seen_wakes_nobody_who_waits_for_the_next_one() -> None:
    """It came just when somebody was being woken, so that who waits next was to be told of it, too."""
    changes = ChangeNotifier()
    first = asyncio.ensure_future(changes.after(0))
    await asyncio.sleep(0)
    changes.note()
    changes.note()
    seen = await first
    assert seen == 2
    asyncio.get_running_loop().call_later(3 * SPACING_SECONDS, changes.note)
    assert await changes.after(seen) == 3
