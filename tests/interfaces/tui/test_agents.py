"""Every agent in sight and in hand: the tree, live transcripts, steering, the five verbs."""

from pathlib import Path

import pytest
from textual import events

from gencode.core.status import Status
from gencode.interfaces.tui.screens import AgentScreen
from gencode.permissions.trust import standing
from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated, turns
from tests.waiting import Gate

SLOW = [says("", call("Glob", pattern="*.py"), delay_ms=50), says("done", delay_ms=60_000), says("after")]


def send(title: str, agent: str = "Explore", **more: object) -> dict[str, object]:
    return call("Task", subagent_type=agent, prompt=f"look for {title}", description=title, **more)


async def one_slow(setup: Seat) -> str:
    """Ask, and wait until the one agent is at its second turn; its id."""
    await setup.type("go")
    await setup.until(lambda: any(each.turns for each in setup.chat.foreground_agents()))
    return setup.chat.foreground_agents()[0].id


async def test_the_tree_shows_every_agent_and_enter_opens_its_live_transcript(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    async with seated(
        tmp_path, script=turns(main=[says("", send("alpha")), says("ok")], explore=SLOW)
    ) as setup:
        task = await one_slow(setup)
        await setup.press("ctrl+t")
        await setup.assert_sees(f"└─● Explore {task} alpha running")
        await setup.press("down", "enter")
        await setup.assert_sees(f"main › Explore · {task}")
        await setup.assert_sees("● Glob *.py · a.py")
        assert "Enter sends Explore a message" in setup.screen
        await setup.press("escape", "escape")
        await setup.assert_sees("› go")


async def test_typing_in_an_agents_transcript_steers_it(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    quick = [says("", call("Glob", pattern="*")), says("", gate.call), says("done", delay_ms=300)]
    sent = send("alpha", "general-purpose")
    script = {"main": [says("", sent), says("ok")], "general-purpose": quick}
    async with seated(tmp_path, script=script, settings={"allow": ["Task(general-purpose)"]}) as setup:
        task = await one_slow(setup)
        await setup.type(f"/open {task}")
        await setup.until(lambda: isinstance(setup.app.top_transcript, AgentScreen))
        await setup.type("leave the tests out")
        await setup.until(lambda: "Message queued for" in setup.screen, "the letter")
        await setup.until(gate.opened)
        await setup.assert_sees("› leave the tests out")
        await setup.rests()
        events = (await setup.chat.gen.journal(task)).events
        assert "leave the tests out" in str(events)


async def test_an_agent_that_has_ended_is_woken_by_typing(tmp_path: Path) -> None:
    script = {"main": [says("", send("alpha")), says("ok")], "Explore": [says("first"), says("second")]}
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        task = next(each.id for each in setup.chat.view.agents.values() if each.parent)
        await setup.type(f"/open {task}")
        await setup.assert_sees("Finished · Enter resumes it")
        await setup.type("and now?")
        await setup.assert_sees("second")


@pytest.mark.parametrize(
    ("action", "will", "did", "status"),
    [
        ("stop:", "This will stop 1 agent", "Stopped", Status.CANCELLED),
        ("stop tree", "This will stop 1 agent", "Stopped", Status.CANCELLED),
        ("interrupt", "This will interrupt 1 agent", "Interrupted", Status.RUNNING),
    ],
)
async def test_verbs_say_what_they_hit_before_and_after(
    tmp_path: Path, action: str, will: str, did: str, status: Status
) -> None:
    script = turns(main=[says("", send("alpha")), says("ok")], explore=SLOW)
    async with seated(tmp_path, script=script) as setup:
        task = await one_slow(setup)
        await setup.press("ctrl+t", "down", "right", *action, "enter")
        await setup.assert_sees(f"{will}: {task} (Explore)")
        await setup.press("y")
        await setup.assert_sees(f"{did}: {task} (Explore).")
        await setup.until(lambda: setup.chat.view.agents[task].status is status)


async def test_a_verb_that_is_not_confirmed_hits_nothing(tmp_path: Path) -> None:
    async with seated(
        tmp_path, script=turns(main=[says("", send("alpha")), says("ok")], explore=SLOW)
    ) as setup:
        task = await one_slow(setup)
        await setup.type(f"/stop {task}")
        await setup.assert_sees("This will stop 1 agent")
        await setup.press("enter")  # it begins at no
        await setup.pilot.pause(0.2)
        assert setup.chat.view.agents[task].status is Status.RUNNING


async def test_stop_and_keep_gives_a_last_word(tmp_path: Path) -> None:
    played = [SLOW[0], says("never", delay_ms=60_000), says("never")]
    script = {"main": [says("", send("alpha")), says("ok")], "Explore": played}
    async with seated(tmp_path, script=script) as setup:
        task = await one_slow(setup)
        await setup.type(f"/keep {task}")
        await setup.assert_sees("This will stop 1 agent after a last report")
        await setup.press("escape")
        await setup.until(lambda: "after a last report" not in setup.screen)


async def test_a_queue_and_a_budget_are_in_the_tree(tmp_path: Path) -> None:
    sent = [send(str(number), budget={"turns": 4}) for number in range(3)]
    script = {"main": [says("", *sent), says("ok")], "Explore": SLOW}
    async with seated(tmp_path, settings={"max_agents": 2}, size=(140, 30), script=script) as setup:
        await setup.type("go")
        await setup.press("ctrl+t")
        await setup.assert_sees("queued (1st)")
        await setup.assert_sees("1/4 turns")
        await setup.press("escape", "escape")


async def test_task_status_and_the_other_pages_are_shown(tmp_path: Path) -> None:
    script = {"main": [says("", send("alpha")), says("ok")], "Explore": [says("in a.py:1")]}
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        task = next(each.id for each in setup.chat.view.agents.values() if each.parent)
        for command, said in (
            (f"/task-status {task}", "Result:"),
            ("/cost", "Total:"),
            ("/budget tokens 5000", "/5.0k tokens"),
            ("/permissions", "mode default"),
            ("/help", "/stop-tree [ID]"),
            ("/mcp", "No MCP servers"),
            ("/mode", "→ default"),
        ):
            await setup.type(command)
            await setup.assert_sees(said)
            await setup.press("escape")
            await setup.until(lambda: len(setup.app.screen_stack) == 1)


async def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("/stpo")
        await setup.assert_sees("Unknown command /stpo. Did you mean /stop")
        await setup.type("/open 12345678")
        await setup.assert_sees("There is no task '12345678'")


async def test_agents_are_browsed_and_the_folder_is_trusted_after_it_was_shown(tmp_path: Path) -> None:
    (tmp_path / ".gen" / "agents").mkdir(parents=True)
    (tmp_path / ".gen" / "agents" / "tester.md").write_text(
        "---\nname: tester\ndescription: Runs the tests.\n---\nRun them."
    )
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("/agents")
        await setup.assert_sees("Available agents")
        await setup.press(*"expl", "enter")
        await setup.assert_sees("gen agents show Explore")
        await setup.press("escape")
        await setup.type("/agents trust")
        await setup.assert_sees("y  trust this folder as it is now")
        assert "tester" in setup.screen
        await setup.press("y")
        await setup.assert_sees("Folder trusted.")
    assert standing(tmp_path, Path.home() / ".gen").state == "trusted"


async def test_the_tree_asks_before_it_moves_an_agent_to_the_background(tmp_path: Path) -> None:
    async with seated(
        tmp_path, script=turns(main=[says("", send("alpha")), says("ok")], explore=SLOW)
    ) as setup:
        task = await one_slow(setup)
        await setup.press("ctrl+t", "down", "right", *"background:", "enter")
        await setup.assert_sees("will continue in the background")
        await setup.press("n")
        assert not setup.chat.view.agents[task].background
        await setup.press("right", *"background:", "enter")
        await setup.assert_sees("will continue in the background")
        await setup.press("y")
        await setup.until(lambda: setup.chat.view.agents[task].background, "the background")


async def test_what_is_typed_in_the_transcript_goes_to_the_text(tmp_path: Path) -> None:
    words = "\n\n".join(f"paragraph {number}" for number in range(60))
    async with seated(tmp_path, script=turns(main=[says(words)])) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press("tab")
        await setup.assert_sees("Transcript · Up and Down")
        for _ in range(30):
            await setup.press("up")
        assert "paragraph 59" not in setup.screen
        await setup.press(*"hi", "space", "x")
        assert setup.app.main.composer.text == "hi x"
        await setup.press("tab")
        setup.app.post_message(events.Paste(" and more"))
        await setup.until(lambda: setup.app.main.composer.text == "hi x and more", "the paste")
        assert setup.app.main.composer.editor.has_focus


async def test_an_agent_that_is_woken_is_said_to_go_on_without_questions(tmp_path: Path) -> None:
    script = turns(main=[says("", send("alpha")), says("ok")], explore=[says("found"), says("more")])
    async with seated(
        tmp_path, size=(120, 30), script=script, settings={"background_questions": False}
    ) as setup:
        await setup.type("go")
        await setup.rests()
        (task,) = setup.chat.view.launched(setup.chat.session or "")
        await setup.type(f"/open {task}")
        await setup.assert_sees("Finished · Enter resumes it in the background, without questions")
        await setup.type("and more?")
        await setup.assert_sees("it cannot ask you there")


async def test_the_pages_of_the_tree_are_turned_in_the_tree(tmp_path: Path) -> None:
    sent = [send(f"job{number}") for number in range(12)]
    async with seated(
        tmp_path, script=turns(main=[says("", *sent), says("ok")], explore=[says("found")])
    ) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press("ctrl+t", "pagedown")
        assert setup.app.main.agent_tree.selected_line == 10
        await setup.press("pageup")
        assert setup.app.main.agent_tree.selected_line == 0


async def test_control_c_puts_the_tree_away_and_leaves_what_is_typed(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("a draft", "ctrl+t")
        await setup.assert_sees("Enter opens")
        await setup.press("ctrl+c")
        await setup.until(lambda: not setup.app.main.agent_tree.display, "the end of the tree")
        assert setup.app.main.composer.text == "a draft"
