"""An agent that another process wakes while the app is open: seen at work, and its end is told once."""

from pathlib import Path

from gencode.stores.sqlite import SqliteStore
from gencode.testing import call, says, scripted
from tests.interfaces.tui.driving import seated

SEND = call("Task", subagent_type="Explore", prompt="look", description="alpha")
SCRIPT = {
    "main": [says("", SEND), says("ok"), says("I heard of it")],
    "Explore": [says("first"), says("never", delay_ms=600_000)],
}


async def test_the_tree_the_header_and_the_lines_follow_an_agent_that_was_woken_elsewhere(
    tmp_path: Path,
) -> None:
    here, there = [await SqliteStore.open(tmp_path / "gen.db") for _ in range(2)]
    async with (
        seated(tmp_path, size=(120, 30), store=here, script=SCRIPT) as setup,
        scripted(tmp_path, store=there, main=SCRIPT["main"], Explore=SCRIPT["Explore"]) as other,
    ):
        await setup.type("go")
        await setup.rests()
        (task,) = setup.chat.view.launched(setup.chat.session or "")
        await setup.type(f"/open {task}")
        await setup.assert_sees("completed · 1 turn")
        await other.send(task, "and now?")
        await setup.assert_sees("running · background · 1 turn")
        await setup.press("escape")
        await setup.assert_sees(f"Explore: alpha ({task}) was resumed in another process")
        await setup.press("ctrl+t")
        await setup.assert_sees(f"Explore {task} alpha running · background · 1 turn")
        await other.stop(task)
        await setup.assert_sees("cancelled · background · 1 turn")
        await setup.press("escape")
        await setup.assert_sees(f"Explore: alpha ({task}) cancelled")
        await setup.type("and?")
        await setup.assert_sees("I heard of it")
        await setup.rests()
        assert setup.screen.count(f"Explore: alpha ({task}) cancelled") == 1
    for store in (here, there):
        await store.close()
