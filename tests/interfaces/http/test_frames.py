"""Frames and cursors: what is said of a place is understood again, and a frame is one frame."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gencode.core.events import Event, MessageAdded, TextArrived
from gencode.core.messages import AssistantMessage
from gencode.core.subsession_events import ALONE
from gencode.interfaces.http.hub import Cursor, frame, read_cursor, shortened

IDS = st.text("0123456789abcdef", min_size=8, max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(IDS, st.integers(1, 10**14))
def test_a_cursor_is_read_as_it_was_written(task: str, seq: int) -> None:
    assert read_cursor(str(Cursor(task, seq))) == Cursor(task, seq)
    assert read_cursor(str(Cursor())) == Cursor()


@given(st.text(max_size=30))
def test_whatever_else_is_said_is_no_cursor(text: str) -> None:
    found = read_cursor(text)
    assert found is None or str(found).partition(":")[0] == text.partition(":")[0]


@given(IDS, st.one_of(st.none(), st.integers(1, 1000)), TEXTS, st.booleans())
def test_no_text_breaks_out_of_its_frame(task: str, seq: int | None, text: str, brief: bool) -> None:
    fact = TextArrived(text) if seq is None else MessageAdded(AssistantMessage(text))
    made = frame(Event(task, seq, "2026-11-15T02:32:00.123456Z", fact), ALONE, brief=brief)
    lines = made.decode().split("\n")
    assert lines[-2:] == ["", ""]
    names = [line.partition(": ")[0] for line in lines[:-2]]
    assert names == (["event", "data"] if seq is None else ["id", "event", "data"])
    told: dict[str, Any] = json.loads(lines[-3].removeprefix("data: "))
    said = told["content"] if seq is None else told["message"]["text"]
    assert said == (shortened(text) if brief else text)
