"""Earlier prompts, in all sessions."""

import stat
from pathlib import Path

from gencode.interfaces.chat.prompt_history import MOST, PromptHistory


def test_one_goes_back_and_forth_and_what_was_typed_is_kept() -> None:
    history = PromptHistory()
    for prompt in ("one", "two", "two"):
        history.add(prompt)
    assert [history.earlier("draft"), history.earlier(""), history.earlier("")] == ["two", "one", None]
    assert [history.later(), history.later(), history.later()] == ["two", "draft", None]


def test_another_session_finds_what_was_typed(tmp_path: Path) -> None:
    file = tmp_path / "home" / "history.jsonl"
    PromptHistory(file).add("first\nof two lines")
    again = PromptHistory(file)
    again.add("second")
    assert PromptHistory(file).prompts == ("first\nof two lines", "second")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(b'"one"\n{"no": 1}\n\xff\xfe\n"two"\n')
    assert PromptHistory(file).prompts == ("one", "two")


def test_a_file_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    history = PromptHistory(tmp_path / "home" / "history.jsonl")
    history.add("still here")
    assert history.prompts == ("still here",)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("".join(f'"{number}"\n' for number in range(3 * MOST)))
    assert PromptHistory(file).prompts[0] == str(2 * MOST)
    assert len(file.read_text().splitlines()) == MOST
