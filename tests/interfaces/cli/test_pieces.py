"""Markdown that is still being spoken, cut where it cannot change any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.interfaces.render.text_layout import code_parts, cut


def test_paragraphs_are_pieces() -> None:
    assert cut("one\n\ntwo\nthree\n\nfo") == ["one\n\n", "two\nthree\n\n", "fo"]


def test_a_fence_is_one_piece_whatever_is_in_it() -> None:
    code = "```python\na\n\nb\n```\n\n"
    assert cut(f"{code}then") == [code, "then"]
    assert cut("```\na\n\nb") == ["```\na\n\nb"]
    assert cut("````\n```\n\nb\n````\n\nend") == ["````\n```\n\nb\n````\n\n", "end"]


def test_a_list_goes_on_behind_an_empty_line() -> None:
    text = "- one\n\n- two\n\n  more\n\nend"
    assert cut(text) == ["- one\n\n- two\n\n  more\n\n", "end"]


@given(st.text(alphabet="ab`~-1. \n", max_size=200))
def test_the_pieces_are_the_text(text: str) -> None:
    assert "".join(cut(text)) == text


@given(st.text(alphabet="ab` \n", max_size=120), st.text(alphabet="ab \n", max_size=40))
def test_what_was_cut_off_stays_as_it_was(said: str, more: str) -> None:
    """Only the last two pieces may change when more is said: the open one and the empty line before it."""
    before = cut(said)
    after = cut(said + more)
    assert after[: max(len(before) - 2, 0)] == before[: max(len(before) - 2, 0)]


def code(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


@pytest.mark.parametrize("end", ["\n```\n", "\n```", "", "\n"])
def test_long_code_is_drawn_in_parts_that_are_all_of_it(end: str) -> None:
    parts = code_parts("```python\n" + "\n".join(code(100)) + end)
    assert [part.splitlines()[0] for part in parts] == ["```python"] * 5
    assert [part.splitlines()[-1] for part in parts] == ["```"] * 5
    assert [line for part in parts for line in part.splitlines()[1:-1]] == code(100)


@pytest.mark.parametrize(
    "text",
    ["\n".join(code(100)), "```\n" + "\n".join(code(10)), "```\n" + "\n".join(code(60)) + "\n```\nmore"],
)
def test_what_is_short_or_no_code_alone_has_no_parts(text: str) -> None:
    assert code_parts(text) == []
