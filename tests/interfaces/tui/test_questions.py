"""Questions of agents at any depth: one dialog at a time, exact, answered by scope, never by accident."""

from pathlib import Path

import pytest
from textual.widgets import OptionList

from gencode.core.events import MessageAdded
from gencode.core.messages import ToolCall, ToolMessage
from gencode.core.questions import Question
from gencode.core.rules import Action, Decision
from gencode.interfaces.tui import keyboard, question_dialogs
from gencode.interfaces.tui.dialogs import ConfirmScreen, PageScreen, PickScreen
from gencode.interfaces.tui.question_dialogs import ApprovalScreen, InquiryScreen
from gencode.journal.store import TaskQuery
from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated, turns


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyboard, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(question_dialogs, "DOUBLE_ENTER_SECONDS", 0.0)


def write(name: str = "new.txt") -> dict[str, object]:
    return call("Write", file_path=name, content="one\ntwo\n")


async def results(setup: Seat) -> list[str]:
    events = (await setup.chat.gen.journal(setup.chat.session or "")).events
    facts = [event.fact for event in events]
    return [
        result.text
        for fact in facts
        if isinstance(fact, MessageAdded) and isinstance(fact.message, ToolMessage)
        for result in fact.message.results
    ]


async def test_a_question_shows_who_wants_what_why_and_the_difference(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("", write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        assert "+ one" in setup.screen and "new.txt" in setup.screen
        assert " y  approve once" in setup.screen and " n  decline" in setup.screen
        await setup.press("y", "enter")
        await setup.rests()
    assert (tmp_path / "new.txt").read_text() == "one\ntwo\n"


async def test_escape_is_a_no(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("", write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        await setup.press("escape")
        await setup.rests()
        assert ["The user declined this call." in text for text in await results(setup)] == [True]
    assert not (tmp_path / "new.txt").exists()


async def test_a_no_may_say_what_to_do_instead(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("", write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("i  decline, and say what to do instead")
        await setup.press("i")
        await setup.assert_sees("What should it do instead?")
        await setup.press(*"yes", "enter")
        await setup.rests()
        await setup.assert_sees("You declined this: yes")
        (said,) = await results(setup)
    assert said.startswith("The user declined this call. They wrote: yes\n")
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.parametrize("approved", [True, False])
async def test_enter_gives_the_answer_that_is_marked(tmp_path: Path, approved: bool) -> None:
    async with seated(tmp_path, script=turns(main=[says("", write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        answers = setup.app.screen.query_one(OptionList)
        decline = answers.option_count - 2  # the last one also says what to do instead
        await setup.press(*([] if approved else ["down"] * decline), "enter")
        await setup.rests()
    assert (tmp_path / "new.txt").exists() is approved


async def test_a_command_that_is_run_again_and_again_can_be_approved_with_any_arguments(
    tmp_path: Path,
) -> None:
    commands = [call("Bash", command=f"make check {part}") for part in ("one", "two")]
    (tmp_path / "Makefile").write_text("check one two:\n\t@echo made\n")
    async with seated(tmp_path, script=turns(main=[says("", *commands), says("ok")])) as setup:
        await setup.type("run")
        await setup.assert_sees("p  always approve, in every folder, with any arguments: Bash(make check:*)")
        await setup.press("p", "enter")
        await setup.rests()
        assert len(await results(setup)) == 2
    saved = (Path.home() / ".gen" / "answers.toml").read_text()
    assert "Bash(make check:*)" in saved


async def test_the_conversation_scrolls_behind_a_question(tmp_path: Path) -> None:
    words = "\n\n".join(f"paragraph {number}" for number in range(60))
    async with seated(tmp_path, script=turns(main=[says(words, write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        assert "paragraph 30" not in setup.screen
        for _ in range(6):
            await setup.press("pageup")
        await setup.until(lambda: "paragraph 59" not in setup.screen and "paragraph 3" in setup.screen)
        await setup.press("n", "enter")
        await setup.rests()


@pytest.mark.parametrize(
    "keys", [["y", "y", "enter"], ["enter"] * 2, ["escape", "escape", "n"], ["y", "enter"]]
)
async def test_a_key_pressed_twice_answers_once(tmp_path: Path, keys: list[str]) -> None:
    async with seated(tmp_path, script=turns(main=[says("", write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        await setup.burst(*keys)
        await setup.rests()
        assert setup.app.screen is setup.app.main
        assert setup.app.main.composer.text == ""
    assert (tmp_path / "new.txt").exists() is (keys[0] != "escape")


async def test_a_page_and_a_list_close_once(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        for screen in (
            PageScreen("a page", "text"),
            PickScreen("a list", [("a", "a")]),
            ConfirmScreen("do it?"),
        ):
            await setup.app.push_screen(screen)
            await setup.burst("escape", "escape", "enter", "enter")
            await setup.until(lambda: setup.app.screen is setup.app.main, "the conversation")
            assert len(setup.app.screen_stack) == 1


async def test_a_question_that_is_no_longer_asked_goes_although_another_dialog_lies_on_it(
    tmp_path: Path,
) -> None:
    async with seated(tmp_path, script=turns(main=[says("", write()), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        await setup.app.push_screen(PageScreen("a page", "on top"))
        await setup.chat.interrupt()
        await setup.until(lambda: not setup.app.desk.waiting(), "the end of the question")
        assert isinstance(setup.app.screen, PageScreen)
        await setup.press("escape")
        await setup.until(lambda: setup.app.screen is setup.app.main, "the conversation")


async def test_an_answer_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    commands = [call("Bash", command="touch one.txt"), call("Bash", command="touch one.txt")]
    async with seated(
        tmp_path, script=turns(main=[says("", commands[0]), says("", commands[1]), says("ok")])
    ) as setup:
        await setup.type("run")
        await setup.assert_sees("main needs approval to use Bash")
        await setup.assert_sees("Approving more than once will allow:")
        await setup.press("s", "enter")
        await setup.rests()
        assert (tmp_path / "one.txt").exists()
        assert len(await results(setup)) == 2


@pytest.mark.parametrize(("key", "again"), [("s", True), ("!", False)])
async def test_an_answer_for_the_session_is_asked_again_in_the_next_one(
    tmp_path: Path, key: str, again: bool
) -> None:
    script = turns(main=[says("", call("Bash", command="touch one.txt")), says("ok")])
    async with seated(tmp_path, script=script) as setup:
        await setup.type("run")
        await setup.assert_sees("Approving more than once will allow:")
        await setup.press(key, "enter")
        await setup.rests()
        first = setup.chat.session
        await setup.type("/new")
        await setup.until(lambda: not setup.app.main.task_id, "the new conversation")
        await setup.type("run")
        await setup.until(lambda: setup.chat.session not in (None, first), "the second session")
        if again:
            await setup.assert_sees("Approving more than once will allow:")
            await setup.press("n", "enter")
        await setup.rests()
        assert len(await results(setup)) == 1
        assert setup.chat.session != first


async def test_what_is_asked_once_in_a_session_is_asked_once_in_each(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="general-purpose", prompt="look", description="look")
    main = [says("", sent), says("", sent), says("ok"), says("", sent), says("ok")]
    script = {"main": main, "general-purpose": [says("seen")]}
    async with seated(tmp_path, script=script) as setup:
        for _ in range(2):
            await setup.type("go")
            await setup.assert_sees("main needs approval to use Task")
            await setup.press("y", "enter")
            await setup.rests()
            await setup.type("/new")
            await setup.until(lambda: not setup.app.main.task_id, "a new conversation")
        found = await setup.chat.gen.history.tasks(TaskQuery(conversations=True))
        first = min(found, key=lambda each: each.created_at)
        await setup.type(f"/resume {first.id}")
        await setup.until(lambda: setup.app.main.task_id == first.id, "the first conversation")
        await setup.type("go on")
        await setup.rests()
        assert len(await setup.chat.gen.history.tasks(TaskQuery(parent=first.id))) == 3


async def test_questions_of_agents_come_one_at_a_time_with_their_path(tmp_path: Path) -> None:
    sent = [
        call("Task", subagent_type="general-purpose", prompt=f"write {name}", description=name)
        for name in ("a", "b")
    ]
    script = {
        "main": [says("", *sent), says("ok")],
        "general-purpose": [says("", write("child.txt")), says("written")],
    }
    async with seated(tmp_path, settings={"allow": ["Task"]}, script=script) as setup:
        await setup.type("go")
        await setup.assert_sees("main › general-purpose needs approval to use Write")
        await setup.until(lambda: len(setup.app.desk.waiting()) == 2)
        assert sum(isinstance(each, ApprovalScreen) for each in setup.app.screen_stack) == 1
        await setup.press("n", "enter")
        await setup.until(lambda: len(setup.app.desk.waiting()) == 1)
        await setup.assert_sees("main › general-purpose needs approval to use Write")
        await setup.press("n", "enter")
        await setup.rests()


async def test_an_agent_asks_what_it_wants_to_know(tmp_path: Path) -> None:
    asked = call(
        "AskUserQuestion",
        questions=[
            {"question": "Which one?", "header": "Pick", "options": [{"label": "A"}, {"label": "B"}]},
            {"question": "And why?", "header": "Why", "options": [{"label": "x"}, {"label": "y"}]},
        ],
    )
    async with seated(tmp_path, script=turns(main=[says("", asked), says("ok")])) as setup:
        await setup.type("ask me")
        await setup.until(lambda: isinstance(setup.app.screen, InquiryScreen), "the inquiry")
        await setup.assert_sees("Which one?")
        await setup.burst("down", "enter")
        await setup.assert_sees("And why?")
        await setup.press("tab", *"because")
        await setup.burst("enter", "enter")
        await setup.rests()
        (text,) = await results(setup)
        assert "B" in text and "because" in text


async def test_a_wider_mode_at_a_spawn_says_what_the_agent_may_then_do(tmp_path: Path) -> None:
    folder = Path.home() / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "editor.md").write_text(
        "---\nname: editor\ndescription: edits\npermissionMode: acceptEdits\n---\nEdit."
    )
    sent = call("Task", subagent_type="editor", prompt="edit", description="edit")
    async with seated(
        tmp_path, script={"main": [says("", sent), says("ok")], "editor": [says("done")]}
    ) as setup:
        await setup.type("go")
        await setup.assert_sees("main needs approval to use Task")
        assert "wider mode acceptEdits" in setup.screen
        await setup.press("n", "enter")
        await setup.rests()


async def test_every_answer_is_in_sight_on_a_small_screen(tmp_path: Path) -> None:
    long = call("Write", file_path="long.txt", content="".join(f"line {number}\n" for number in range(99)))
    async with seated(tmp_path, size=(80, 24), script=turns(main=[says("", long), says("ok")])) as setup:
        await setup.type("write")
        await setup.assert_sees("main needs approval to use Write")
        for shown in ("y  approve once", "n  decline", "1 + line 0", "edits need approval in "):
            await setup.assert_sees(shown)
        assert "+ line 50" not in setup.screen
        for _ in range(24):
            await setup.press("pagedown")
        await setup.assert_sees("+ line 98")
        assert "edits need approval in " in setup.screen
        await setup.press("n", "enter")
        await setup.rests()


async def test_what_a_wider_yes_allows_is_in_sight_however_long_the_command_is(tmp_path: Path) -> None:
    command = "\n".join(f"touch file{number}.txt" for number in range(30))
    question = Question(
        *("t", "main", ToolCall("c", "Bash", {"command": command})),
        Decision(Action.ASK, "commands are asked in this mode"),
        rules=tuple(f"Bash(touch file{number}.txt)" for number in range(20)),
    )
    async with seated(tmp_path, size=(80, 24), script=turns(main=[says("ok")])) as setup:
        await setup.app.push_screen(ApprovalScreen(question, setup.app.renderer))
        await setup.assert_sees("main needs approval to use Bash")
        assert "Approving more than once will allow: Bash(touch file0.txt)" in setup.screen
        assert " y  approve once" in setup.screen and " n  decline" in setup.screen
        for _ in range(12):
            await setup.press("pagedown")
        await setup.assert_sees("file19.txt)")
        assert (
            "touch file29.txt" in setup.screen
            and " s  approve for all agents in this session" in setup.screen
        )
