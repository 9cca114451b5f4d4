"""Nothing an agent prints may act on the terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.surfaces.visible import exact, exact_line, safe_json, visible, visible_line

HOSTILE = [
    ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    ("\x9b2J", "\\x9b2J"),
    ("abc\rxyz", "abc\\x0dxyz"),
    ("back\x08space\x7f", "back\\x08space\\x7f"),
    ("user\u202egnp.exe", "user\\u202egnp.exe"),
    ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
    ("line\u2028end", "line\\u2028end"),
    ("tag\U000e0041", "tag\\U000e0041"),
    ("half\ud83d", "half\\ud83d"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_what_would_act_on_a_terminal_is_shown_instead(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_ordinary_text_of_any_script_stays_as_it_is() -> None:
    text = "tab\tand\nnewline, größer, 你好, עברית, नमस्ते, 👍"
    assert visible(text) == text


def test_line_ends_of_windows_become_ordinary_ones() -> None:
    assert visible("one\r\ntwo\r\n") == "one\ntwo\n"


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    left = {char for char in visible(text) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")}
    assert left <= {"\n", "\t"}


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_json_means_the_same_after_its_characters_are_escaped(text: str) -> None:
    encoded = json.dumps({"text": text}, ensure_ascii=False)
    safe = safe_json(encoded)
    assert json.loads(safe) == {"text": text}
    assert visible(safe) == safe


def test_a_long_text_becomes_one_short_line() -> None:
    assert visible_line("  many\n\n words \x1b here ", 12) == "many words …"


@pytest.mark.parametrize("text", ["❤️ and 1️⃣", "©️", "👍🏽"])
def test_pictures_keep_the_one_sign_that_says_how_to_draw_them(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"), [("a\ufe0f", "a\\ufe0f"), ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"), ("1\ufe0f", "1\\ufe0f")]
)
def test_signs_that_draw_nothing_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_where_a_person_decides_odd_spaces_and_private_signs_are_shown_too() -> None:
    text = "git\u00a0push\u3000\ue000\u0378\ttab\nline\r\n"
    assert exact(text) == "git\\xa0push\\u3000\\ue000\\u0378\ttab\nline\\x0d\n"
    assert exact_line("a\tb\nc") == "a\\x09b\\x0ac"
    assert exact("你好, größer 👍") == "你好, größer 👍"


@given(st.text())
def test_exact_text_can_be_seen_as_a_whole(text: str) -> None:
    assert exact_line(text).isprintable()
    assert visible(exact(text)) == exact(text)
