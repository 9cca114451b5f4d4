"""The conversation: asked, streamed, folded, opened, queued, interrupted, sent to the background."""

from pathlib import Path

from gencode.core.events import Event, TextArrived
from gencode.core.ids import stamp
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.interfaces.render.transcript import NOT_SUMMED_UP
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says
from tests.interfaces.tui.driving import seated, turns
from tests.waiting import Gate

WITH_BASH = "general-purpose"
ALLOWED = {"allow": [f"Task({WITH_BASH})"]}


def send(title: str, agent: str = "Explore", **more: object) -> dict[str, object]:
    return call("Task", subagent_type=agent, prompt=f"look for {title}", description=title, **more)


async def test_a_question_is_answered_in_markdown(tmp_path: Path) -> None:
    answer = "# Found\n\nIt is in **a.py**:\n\n- one\n\n```python\nx = 1\n```"
    async with seated(tmp_path, script=turns(main=[says(answer)])) as setup:
        await setup.type("where is it?")
        await setup.assert_sees("x = 1")
        await setup.rests()
        assert "› where is it?" in setup.screen
        assert "It is in a.py:" in setup.screen and "• one" in setup.screen
        assert "```" not in setup.screen and "**" not in setup.screen


async def test_agents_stand_side_by_side_and_their_results_come_back(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    script = {
        "main": [says("I send two.", send("alpha"), send("beta")), says("Both were found.")],
        "Explore": [says("", gate.call), says("found it")],
    }
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.assert_sees("● 2 Explore agents in parallel")
        await setup.assert_sees("● Explore  alpha")
        await setup.until(lambda: (gate.opened(), not setup.chat.running)[1], "the end of both agents")
        await setup.rests()
        await setup.assert_sees("Both were found.")
        assert "✓ Explore  alpha" in setup.screen and "✓ Explore  beta" in setup.screen
        assert setup.screen.count("└ found it") == 2


async def test_one_agent_is_a_row_with_its_result(tmp_path: Path) -> None:
    script = {"main": [says("", send("alpha")), says("ok")], "Explore": [says("in a.py:1")]}
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        assert "✓ Explore  alpha · 1 turn" in setup.screen and "└ in a.py:1" in setup.screen


async def test_results_that_a_spent_budget_leaves_unanswered_are_shown_in_full(tmp_path: Path) -> None:
    costs = Usage(30_000, 1_000)
    script = {
        "main": [says("I send two.", send("alpha"), send("beta"), usage=Usage(100)), says("never said")],
        "Explore": [says("It is in a.py:\nline 7\nand 9", usage=costs)],
    }
    async with seated(tmp_path, script=script, settings={"max_tokens_total": 50_000}) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.assert_sees(NOT_SUMMED_UP)
        assert "Limit reached: The budget of 50,000 tokens of the session is spent." in setup.screen
        assert (setup.screen.count("line 7"), setup.screen.count("✓ Explore  beta")) == (2, 2)


async def test_calls_are_one_line_and_open(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("first\nsecond\nthird\n")
    async with seated(
        tmp_path, script=turns(main=[says("", call("Read", file_path="a.py")), says("read it")])
    ) as setup:
        await setup.type("read")
        await setup.rests()
        assert "● Read a.py · 3 lines" in setup.screen and "second" not in setup.screen
        await setup.press("tab", "enter")
        await setup.assert_sees("second")
        await setup.press("enter")
        await setup.until(lambda: "second" not in setup.screen)
        await setup.press("ctrl+o")
        await setup.assert_sees("second")


async def test_a_change_is_shown_as_a_diff(tmp_path: Path) -> None:
    write = call("Write", file_path="new.txt", content="one\ntwo\n")
    async with seated(
        tmp_path,
        settings={"permission_mode": "acceptEdits"},
        script=turns(main=[says("", write), says("ok")]),
    ) as setup:
        await setup.type("write")
        await setup.rests()
        assert "● Write new.txt +2" in setup.screen
        assert "1 + one" in setup.screen and "2 + two" in setup.screen
    assert (tmp_path / "new.txt").read_text() == "one\ntwo\n"


async def test_what_is_typed_while_the_agent_works_is_heard_before_its_next_reply(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    played = [says("", gate.call), says("heard", delay_ms=50), says("again")]
    async with seated(tmp_path, script=turns(main=played)) as setup:
        await setup.type("begin")
        await setup.until(lambda: setup.chat.working, "the turn")
        await setup.type("leave the tests out")
        await setup.assert_sees("leave the tests out")
        await setup.until(gate.opened)
        await setup.rests()
        events = (await setup.chat.gen.journal(setup.chat.session or "")).events
        assert setup.chat.queued == {}
        assert "leave the tests out" in str(events)
        assert "(queued)" not in setup.screen


async def test_a_queued_message_is_read_before_one_that_was_sent_after_escape(tmp_path: Path) -> None:
    script = turns(main=[says("", Gate(tmp_path).call), says("both read")])
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.until(lambda: setup.chat.working)
        await setup.type("leave the tests out")
        await setup.assert_sees("(queued)")
        await setup.press("escape")
        await setup.assert_sees("The turn has ended.")
        await setup.type("begin with a.py")
        await setup.assert_sees("both read")
        shown = setup.screen
        assert shown.index("› leave the tests out") < shown.index("› begin with a.py")


async def test_escape_interrupts_the_turn_and_leaves_the_background_alone(tmp_path: Path) -> None:
    script = {
        "main": [says("", send("slow", run_in_background=True)), says("", send("front")), says("never")],
        "Explore": [says("done", delay_ms=60_000)],
    }
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.until(lambda: len(setup.chat.foreground_agents()) == 1)
        await setup.press("escape")
        await setup.assert_sees("The turn has ended.")
        await setup.assert_sees("Still running in")
        agents = {each.title: each.status for each in setup.chat.view.agents.values() if each.parent}
        assert agents == {"slow": Status.RUNNING, "front": Status.CANCELLED}


async def test_a_foreground_agent_goes_to_the_background_and_its_result_is_told(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    script = {
        "main": [says("", send("long", WITH_BASH)), says("It runs beside us."), says("It found a.py.")],
        WITH_BASH: [says("", gate.call), says("a.py")],
    }
    async with seated(tmp_path, script=script, settings=ALLOWED) as setup:
        await setup.type("go")
        await setup.until(lambda: len(setup.chat.foreground_agents()) == 1)
        await setup.press("ctrl+b")
        await setup.assert_sees("moved to the background")
        await setup.assert_sees("Background task running")
        await setup.until(gate.opened)
        await setup.assert_sees("It found a.py.")
        assert "It runs beside us." in setup.screen


async def test_a_result_that_comes_at_rest_begins_a_turn(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    sent = send("slow", WITH_BASH, run_in_background=True)
    script = {
        "main": [says("", sent), says("waiting"), says("It is here now.")],
        WITH_BASH: [says("", gate.call), says("found")],
    }
    async with seated(tmp_path, script=script, settings=ALLOWED) as setup:
        await setup.type("go")
        await setup.assert_sees("waiting")
        await setup.press("escape")
        await setup.assert_sees("The turn has ended.")
        await setup.until(gate.opened)
        await setup.assert_sees("It is here now.")
        await setup.rests()
        events = (await setup.chat.gen.journal(setup.chat.session or "")).events
        assert str(events).count("[The background task") == 1


async def test_the_mode_is_switched_for_everybody(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        seen: list[str] = []
        for _ in range(3):
            await setup.press("shift+tab")
            seen.append(str(setup.chat.gen.policy.mode))
        assert seen == ["acceptEdits", "plan", "default"]
        await setup.type("/mode dontAsk")
        await setup.assert_sees("dontAsk mode")


async def test_a_budget_of_an_earlier_process_is_shown_and_kept(tmp_path: Path) -> None:
    store = MemoryStore()
    script = turns(main=[says("ok"), says("again")])
    async with seated(tmp_path, store=store, script=script) as setup:
        await setup.type("/budget tokens 70000")
        await setup.press("escape")
        await setup.type("go")
        await setup.rests()
        session = setup.chat.session or ""
    async with seated(tmp_path, store=store, begin=lambda chat: chat.open(session), script=script) as setup:
        await setup.type("/budget")
        await setup.assert_sees("70.0k tokens")
        assert "Nothing bounds" not in setup.screen
        await setup.press("escape")
        await setup.type("/budget spawns 3")
        await setup.assert_sees("Set one with /budget")
        budget = await setup.chat.gen.budgets.of_conversation(session)
        assert (budget.tokens, budget.spawns) == (70_000, 3)


async def test_a_fork_of_an_agent_is_in_the_tree_and_in_the_cost(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", description="alpha")
    script = turns(
        main=[says("", sent), says("ok"), says("told")], explore=[says("found"), says("elsewhere")]
    )
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        (first,) = setup.chat.view.launched(setup.chat.session or "")
        await setup.type(f"/fork {first} look elsewhere")
        await setup.assert_sees("Forked from")
        copies = setup.chat.view.launched(setup.chat.session or "")[1:]
        assert len(copies) == 1
        await setup.press("escape", "ctrl+t")
        await setup.assert_sees(f"Explore {copies[0]}")
        await setup.type("/cost")
        await setup.until(lambda: setup.screen.count("Explore ") >= 2)
        await setup.assert_sees(copies[0])


async def test_pieces_that_come_after_the_end_are_not_shown_a_second_time(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard you")])) as setup:
        await setup.type("hello")
        await setup.rests()
        setup.chat.receive(Event(setup.chat.session or "", None, stamp(), TextArrived("heard you")))
        setup.app.main.paint()
        await setup.pilot.pause()
        assert setup.screen.count("heard you") == 1
