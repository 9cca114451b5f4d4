"""Nothing an agent prints may act on the terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.text import exact, exact_line, open_end, safe_json, visible, visible_line
from tests.interfaces.cli.hostile_text import HOSTILE, JOINED, STRAY


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


MIXED = st.text(
    st.sampled_from(
        "ab1 #👩💻🏽❤♀🏴مخ۵क्ष葛ᠠ\x1b\r\n\u200b\u200c\u200d\u202e\ufe00\ufe0f\u20e3\u180b"
        "\U000e0067\U000e0100\U000e007f"
    )
    | st.characters(),
    max_size=12,
)


@pytest.mark.parametrize("text", JOINED)
def test_joiners_and_signs_stay_where_they_have_an_effect(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(("text", "shown"), STRAY)
def test_joiners_and_signs_that_have_no_effect_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", JOINED)
def test_where_a_person_decides_joiners_are_shown_everywhere(text: str) -> None:
    assert not {each for each in exact(text) if unicodedata.category(each) == "Cf"}
    assert json.loads(safe_json(json.dumps(text, ensure_ascii=False))) == text
    assert not {each for each in safe_json(text) if unicodedata.category(each) == "Cf"}


@given(MIXED)
def test_an_invisible_character_that_is_left_stands_alone_between_others_that_are_seen(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    for at, each in enumerate(shown):
        if each in "\u200c\u200d":
            beside = shown[max(at - 1, 0) : at] + shown[at + 1 : at + 2]
            assert any(ord(other) > 0x600 and other not in "\u200c\u200d" for other in beside)
            assert not set(beside) & {"\u200c", "\u200d"}
        elif unicodedata.category(each) == "Cf":
            assert each == "\u180e" or "🏴" in shown[max(at - 6, 0) : at]


@given(MIXED, MIXED)
def test_all_but_the_open_end_of_a_text_is_shown_as_it_will_be_when_it_goes_on(text: str, more: str) -> None:
    done = text.removesuffix(open_end(text))
    assert visible(text + more).startswith(visible(done))


def test_a_line_is_not_cut_behind_a_joiner() -> None:
    assert visible_line("👩‍💻 and more", 3) == "👩…"
    assert visible_line(JOINED[-1], 5) == "🏴…"


def test_where_a_person_decides_odd_spaces_and_private_signs_are_shown_too() -> None:
    text = "git\u00a0push\u3000\ue000\u0378\ttab\nline\r\n"
    assert exact(text) == "git\\xa0push\\u3000\\ue000\\u0378\ttab\nline\\x0d\n"
    assert exact_line("a\tb\nc") == "a\\x09b\\x0ac"
    assert exact("你好, größer 👍") == "你好, größer 👍"


@given(st.text())
def test_exact_text_can_be_seen_as_a_whole(text: str) -> None:
    assert exact_line(text).isprintable()
    assert visible(exact(text)) == exact(text)
