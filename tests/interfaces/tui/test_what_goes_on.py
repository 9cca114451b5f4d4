"""What goes on is in sight: the turn, running commands and how they ended, steps, context, refusals."""

from pathlib import Path

from gencode.core.messages import Usage
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says
from tests.interfaces.tui.driving import seated, turns
from tests.waiting import Gate

OPEN = {"permission_mode": "dontAsk"}


async def test_a_turn_at_work_shows_its_time_and_how_to_interrupt_it(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    async with seated(tmp_path, script=turns(main=[says("", gate.call), says("ok")])) as setup:
        await setup.type("go")
        await setup.assert_sees("Running Bash")
        await setup.assert_sees(" s · Esc interrupts")
        await setup.until(gate.opened)
        await setup.rests()
        assert "Esc interrupts" not in setup.screen


async def test_a_running_command_shows_its_last_lines_and_then_how_it_ended(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    command = "echo first line; cat gate; echo last line; exit 3"
    main = [says("", call("Bash", command=command)), says("ok")]
    async with seated(tmp_path, settings=OPEN, script=turns(main=main)) as setup:
        await setup.type("run")
        await setup.assert_sees("│ first line")
        assert "│ last line" not in setup.screen
        await setup.until(gate.opened)
        await setup.rests()
        assert "· exit 3" in setup.screen and "│ last line" in setup.screen


async def test_the_steps_of_the_agent_are_above_the_input_while_it_works(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    steps = [
        {"content": "read the cart", "status": "completed"},
        {"content": "add up in cents", "status": "in_progress"},
        {"content": "run the tests", "status": "pending"},
    ]
    main = [says("", call("TodoWrite", todos=steps), gate.call), says("ok")]
    async with seated(tmp_path, script=turns(main=main)) as setup:
        await setup.type("go")
        for step in ("✓ read the cart", "▸ add up in cents", "○ run the tests"):
            await setup.assert_sees(step)
        assert "TodoWrite 1 of 3 steps done" in setup.screen
        await setup.until(gate.opened)
        await setup.rests()
        assert "○ run the tests" not in setup.screen
        await setup.press("ctrl+o")
        await setup.assert_sees("○ run the tests")


async def test_how_full_the_context_is_stands_in_the_title(tmp_path: Path) -> None:
    main = [says("ok", usage=Usage(30_000, 2_000))]
    async with seated(tmp_path, settings={"context_tokens": 64_000}, script=turns(main=main)) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.assert_sees("· 50% context · 32.0k tokens")


async def test_how_full_the_context_is_is_known_of_a_resumed_conversation(tmp_path: Path) -> None:
    store = MemoryStore()
    script = turns(main=[says("ok", usage=Usage(30_000, 2_000))])
    settings = {"context_tokens": 64_000}
    async with seated(tmp_path, settings=settings, store=store, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        session = setup.chat.session or ""
    async with seated(
        tmp_path, settings=settings, store=store, begin=lambda chat: chat.open(session), script=script
    ) as setup:
        await setup.assert_sees("· 50% context")


async def test_notes_for_the_model_are_shown_with_all_details_only(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says(""), says("ok")])) as setup:
        await setup.type("go")
        await setup.rests()
        assert "Your reply was empty" not in setup.screen
        await setup.press("ctrl+o")
        await setup.assert_sees("Your reply was empty")


async def test_why_a_long_command_was_refused_is_on_a_line_of_its_own(tmp_path: Path) -> None:
    command = f"git push origin {'x' * 90}"
    main = [says("", call("Bash", command=command)), says("ok")]
    settings = {"deny": ["Bash(git push:*)"]}
    async with seated(tmp_path, size=(80, 24), settings=settings, script=turns(main=main)) as setup:
        await setup.type("push")
        await setup.rests()
        assert "⊘ Bash git push origin" in setup.screen
        assert any(line.startswith("    └ ") and "git push" in line for line in setup.screen.splitlines())


async def test_the_diff_of_an_edit_has_the_numbers_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 30)))
    edit = call("Edit", file_path="a.py", old_string="line 18\nline 19\n", new_string="line 18\nnew 19\n")
    main = [says("", call("Read", file_path="a.py")), says("", edit), says("ok")]
    async with seated(
        tmp_path, settings={"permission_mode": "acceptEdits"}, script=turns(main=main)
    ) as setup:
        await setup.type("edit")
        await setup.rests()
        for line in ("● Edit a.py +1 -1", "18   line 18", "19 - line 19", "19 + new 19"):
            assert line in setup.screen


async def test_a_long_diff_opens_on_a_screen_of_its_own(tmp_path: Path) -> None:
    write = call("Write", file_path="long.py", content="".join(f"x{number} = 1\n" for number in range(20)))
    settings = {"permission_mode": "acceptEdits"}
    async with seated(
        tmp_path, size=(80, 40), settings=settings, script=turns(main=[says("", write), says("ok")])
    ) as setup:
        await setup.type("write")
        await setup.rests()
        assert "… 8 more lines (Enter opens)" in setup.screen
        await setup.press("tab", "enter")
        await setup.assert_sees("Write long.py +20   (Esc closes)")
        await setup.assert_sees("20 + x19 = 1")
        await setup.press("escape")
        await setup.assert_sees("… 8 more lines (Enter opens)")
