"""Bars: what is drawn the quick way looks as Rich would draw it, and nothing is left in our environment."""

import os
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from textual.strip import Strip

from gencode.interfaces.tui.strip_renderer import StripRenderer

PAPER = StripRenderer(dark=True)
PIECES = st.tuples(st.text("ab ·日ü●", max_size=12), st.sampled_from(["", "busy", "faint", "bold"]))


def cells(strip: Strip, width: int) -> list[tuple[str, object]]:
    """What is in each place of a line, as long as the screen is wide."""
    filled = strip.crop_extend(0, width, None)
    return [(sign, segment.style or None) for segment in filled for sign in segment.text]


@given(st.sampled_from(["", "busy"]), st.lists(PIECES, max_size=5), st.integers(1, 30))
def test_a_line_is_drawn_as_rich_would_draw_it(style: str, pieces: list[tuple[str, str]], width: int) -> None:
    line = Text("", style)
    for text, how in pieces:
        line.append(text, how)
    before = line.copy()
    quick = PAPER.line(line, width)
    slow = line.copy()
    slow.no_wrap, slow.overflow = True, "ellipsis"
    assert cells(quick, width) == cells(PAPER.lines(slow, width)[0], width)
    assert line == before


def test_textual_looks_often_for_what_is_to_be_drawn_and_what_we_start_is_not_told() -> None:
    code = (
        "import os, gencode.interfaces.tui.app; from textual import constants\n"
        "print(constants.MAX_FPS, 'TEXTUAL_FPS' in os.environ)"
    )
    usual = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"}
    for env, said in ((usual, "120 False\n"), ({**usual, "TEXTUAL_FPS": "24"}, "24 True\n")):
        told = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert told.stdout == said
