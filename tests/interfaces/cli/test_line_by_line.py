"""The conversation line by line, for screen readers and pipes."""

from pathlib import Path
from subprocess import PIPE, Popen

from tests.interfaces.cli.running import GEN, command_in_terminal, gen, script, send


def test_every_step_is_a_line_and_nothing_is_drawn(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        main=[{"text": "I send one.", "calls": send("alpha")}, {"text": "It is \x1b[2Jhere."}],
        Explore=[{"calls": [{"name": "Glob", "input": {"pattern": "*.py"}}]}, {"text": "found"}],
    )
    ended = gen("--plain", "--model", model, cwd=tmp_path, piped="where is it?\n")
    assert (ended.code, ended.err) == (0, "")
    assert "main says: I send one." in ended.out
    assert "started: alpha" in ended.out
    assert "Explore: Glob(*.py)" in ended.out
    assert "main says: It is \\x1b[2Jhere." in ended.out
    assert "\x1b" not in ended.out and "╭" not in ended.out


def test_commands_work_and_mistakes_are_lines(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "ok"}])
    typed = "/mode\n/stpo\n/cost\n/mode plan\n"
    ended = gen("--plain", "--model", model, cwd=tmp_path, piped=typed)
    assert "→ default" in ended.out
    assert "Problem: Unknown command /stpo." in ended.out
    assert "No cost yet" in ended.out
    assert "All agents of this session now run in plan mode." in ended.out


def test_a_question_is_answered_by_the_next_line(tmp_path: Path) -> None:
    write = {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    model = script(tmp_path, main=[{"calls": [write]}, {"text": "written"}])
    ended = command_in_terminal(
        [*GEN, "--plain", "--model", model],
        cwd=tmp_path,
        typed=(b"/quit leaves", b"go\n"),
        answers=(b"y\n\x04",),
    )
    assert "main needs approval to use Write" in ended.out and "main says: written" in ended.out
    assert (tmp_path / "new.txt").read_text() == "x"


def test_where_nothing_more_can_be_read_a_question_is_answered_with_no(tmp_path: Path) -> None:
    write = {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    model = script(tmp_path, main=[{"calls": [write]}, {"text": "not written"}])
    ended = gen("--plain", "--model", model, cwd=tmp_path, piped="go\n")
    assert "main says: not written" in ended.out
    assert not (tmp_path / "new.txt").exists()


def test_the_last_conversation_is_gone_on_with(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "first"}, {"text": "second"}])
    gen("--plain", "--model", model, cwd=tmp_path, piped="one\n")
    ended = gen("--plain", "--continue", "--model", model, cwd=tmp_path, piped="two\n")
    assert "first" in ended.out and "main says: second" in ended.out


def test_commands_are_done_while_a_question_waits_which_is_then_said_again(tmp_path: Path) -> None:
    write = {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    model = script(tmp_path, main=[{"calls": [write]}, {"text": "written"}])
    ended = command_in_terminal(
        [*GEN, "--plain", "--model", model],
        cwd=tmp_path,
        typed=(b"/quit leaves", b"go\n"),
        answers=(b"/mode\n", b"/task-status nobody\n", b"y\n\x04"),
    )
    assert "not one of the answers" not in ended.out
    assert "→ default" in ended.out and "Problem: " in ended.out
    assert ended.out.count("This question is still waiting:") == 2
    assert "main says: written" in ended.out
    assert (tmp_path / "new.txt").read_text() == "x"


def test_one_can_leave_while_a_question_waits(tmp_path: Path) -> None:
    write = {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    model = script(tmp_path, main=[{"calls": [write]}, {"text": "not written"}])
    ended = command_in_terminal(
        [*GEN, "--plain", "--model", model],
        cwd=tmp_path,
        typed=(b"/quit leaves", b"go\n"),
        answers=(b"/quit\n",),
    )
    assert (ended.code, "not one of the answers" in ended.out) == (0, False)
    assert not (tmp_path / "new.txt").exists()


def test_what_asks_can_be_stopped_and_the_yes_to_that_answers_no_question(tmp_path: Path) -> None:
    asks = {"question": "Which one?", "header": "Pick", "options": [{"label": "A"}, {"label": "B"}]}
    calls = [{"name": "AskUserQuestion", "input": {"questions": [asks]}}]
    model = script(tmp_path, main=[{"calls": calls}, {"text": "so be it"}])
    with Popen(
        [*GEN, "--plain", "--model", model], cwd=tmp_path, stdin=PIPE, stdout=PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        said: list[str] = []
        for cue, typed in (
            ("/quit leaves", "go"),
            ("an answer of your own", "/stop-tree"),
            ("Type y to do it.", "y"),
            ("main: cancelled", "/quit"),
        ):
            while cue not in (line := process.stdout.readline()):
                said.append(line)
                assert line, f"{cue!r} was not said:\n{''.join(said)}"
            process.stdin.write(f"{typed}\n")
            process.stdin.flush()
        assert "so be it" not in process.stdout.read()
    assert process.returncode == 0
