"""Completing files behind `@` and words behind commands."""

from pathlib import Path

from gencode.interfaces.chat.input_completion import Completion, Words, files_below, matching, offers

FILES = ["README.md", "src/app.py", "src/core/task.py", "tests/test_task.py"]


def test_files_are_offered_behind_an_at_sign() -> None:
    assert offers("look at @task", FILES) == [
        Completion("src/core/task.py", "", "look at @src/core/task.py "),
        Completion("tests/test_task.py", "", "look at @tests/test_task.py "),
    ]


def test_an_address_is_no_file() -> None:
    assert offers("mail me@task", FILES) == []


def test_letters_in_order_find_a_file_too() -> None:
    assert matching("sct", FILES) == ["src/core/task.py"]
    assert matching("", FILES) == ["README.md"]


def test_commands_and_their_words_are_offered() -> None:
    words = Words(tasks=[("9f3a1c2e", "Explore running"), ("51c0ffee", "Plan")], modes=["plan", "default"])
    assert [offer.text for offer in offers("/task-s", FILES, words)] == ["/task-status "]
    assert offers("/stop 9", FILES, words) == [Completion("9f3a1c2e", "Explore running", "/stop 9f3a1c2e ")]
    assert [offer.text for offer in offers("/mode ", FILES, words)] == ["/mode plan ", "/mode default "]
    assert offers("/stop 9f3a1c2e now", FILES, words) == []


def test_files_are_found_without_what_nobody_looks_at(tmp_path: Path) -> None:
    for name in ("b.py", "src/a.py", ".git/config", "node_modules/x.js", "bad\x1bname"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    assert files_below(tmp_path) == ["b.py", "loop", "src/a.py"]
    assert files_below(tmp_path, most=1) == ["b.py"]
