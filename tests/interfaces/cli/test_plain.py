"""Plain output: tables, durations, numbers."""

import pytest

from gencode.interfaces.render.number_format import seconds, turns
from gencode.interfaces.render.plain_text import table


def test_columns_stand_under_their_heads() -> None:
    shown = table(("ID", "TASK"), [("1", "look\nhere"), ("22", "  deeper \x1b")], width=80)
    assert shown == "ID  TASK\n1   look here\n22    deeper \\x1b"


def test_a_table_is_cut_at_the_edge() -> None:
    assert table(("A", "B"), [("x" * 5, "y" * 20)], width=12) == "A      B\nxxxxx  yyyy…"
    assert table(("A",), [("y" * 20,)], width=12) == "A\nyyyyyyyyyyy…"


def test_long_columns_are_cut_where_the_last_one_would_have_no_room() -> None:
    shown = table(("NAME", "TOOLS", "DESCRIPTION"), [("Explore", "Read " * 9, "Finds files")], width=40)
    assert shown.splitlines()[1].split("  ") == ["Explore", "Read Read Read Re…", "Finds files"]


@pytest.mark.parametrize(("elapsed", "shown"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61.5, "1 min 1 s")])
def test_a_duration_is_told_as_a_person_reads_it(elapsed: float, shown: str) -> None:
    assert seconds(elapsed) == shown


def test_one_turn_is_not_several() -> None:
    assert [turns(number) for number in range(3)] == ["0 turns", "1 turn", "2 turns"]


def test_columns_that_can_be_spared_make_room_for_the_last_one() -> None:
    head, rows = ("ID", "TURNS", "TIME", "TASK"), [("9f3a", "12", "3.5 s", "find the parser of dates")]
    wide, middle, narrow = (table(head, rows, width, ("TURNS", "TIME")) for width in (60, 40, 24))
    assert wide.splitlines()[0].split() == [*head]
    assert middle.splitlines()[0].split() == ["ID", "TIME", "TASK"]
    assert narrow.splitlines()[0].split() == ["ID", "TASK"] and "find the parser" in narrow
