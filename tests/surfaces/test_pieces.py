"""Markdown that is still being spoken, cut where it cannot change any more."""

from hypothesis import given
from hypothesis import strategies as st

from gencode.surfaces.pieces import cut


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
