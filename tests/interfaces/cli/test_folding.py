"""Long lines of a page go on below the column they were in."""

from hypothesis import given
from hypothesis import strategies as st

from gencode.interfaces.render.text_layout import folded


def test_a_column_stays_a_column() -> None:
    text = "/tasks   all agents of this session, as a tree\n/quit    leave"
    assert folded(text, 30) == ("/tasks   all agents of this\n         session, as a tree\n/quit    leave")


def test_a_paragraph_keeps_its_indent() -> None:
    assert folded("  one two three four", 12) == "  one two\n  three four"


def test_what_fits_stays_as_it_is() -> None:
    assert folded("a   b\n\n  c", 20) == "a   b\n\n  c"


@given(st.text(st.sampled_from("ab 漢-\n"), max_size=200), st.integers(8, 60))
def test_no_word_is_lost_and_no_line_is_too_long(text: str, width: int) -> None:
    shown = folded(text, width)
    assert "".join(shown.split()) == "".join(text.split())
    assert all(len(line) <= width for line in shown.splitlines())
