"""`/rewind` in the app, in a small terminal: a prompt is chosen, what would change is seen, files go back."""

from pathlib import Path

from gencode.interfaces.tui.dialogs import ChoiceScreen, PickScreen
from gencode.testing import call, says
from tests.interfaces.tui.driving import seated, turns

READ = says("", call("Read", file_path="a.txt"), call("Read", file_path="b.txt"))
EDITS = says(
    "",
    call("Edit", file_path="a.txt", old_string="one", new_string="two"),
    call("Edit", file_path="b.txt", old_string="one", new_string="two"),
)


async def test_a_prompt_is_taken_back_with_the_files_that_nobody_else_changed(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\n")
    settings = {"permission_mode": "acceptEdits"}
    main = [says("hello"), READ, EDITS, says("changed")]
    async with seated(tmp_path, size=(80, 24), settings=settings, script=turns(main=main)) as setup:
        for prompt in ("greet me", "change them"):
            await setup.type(prompt)
            await setup.rests()
        (tmp_path / "b.txt").write_text("mine\n")
        await setup.type("/rewind")
        await setup.until(lambda: isinstance(setup.app.screen, PickScreen))
        await setup.press("enter")
        await setup.until(lambda: isinstance(setup.app.screen, ChoiceScreen))
        await setup.assert_sees("b.txt")
        first = setup.app.screen
        await setup.press("enter")
        await setup.until(lambda: isinstance(setup.app.screen, ChoiceScreen) and setup.app.screen != first)
        await setup.press("enter")
        await setup.until(lambda: setup.app.main.composer.text == "change them")
        assert [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")] == ["one\n", "mine\n"]
        await setup.assert_sees("hello")
        await setup.assert_sees("greet me")
