"""Differences as numbered lines."""

from hypothesis import given
from hypothesis import strategies as st

from gencode.interfaces.render.file_diff import (
    MOST_LINES,
    DiffLine,
    change_counts,
    diff_of_call,
    unified_lines,
)
from gencode.interfaces.render.transcript import Step, todos_of
from gencode.tools.file_changes import difference

LINES = st.lists(st.sampled_from(["", "a", "b", "c = 1", "+x", "-y"]), max_size=30)


def test_an_edit_is_numbered_as_in_the_file() -> None:
    edit = {"file_path": "a.py", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree"}
    assert diff_of_call("Edit", edit, (18,)) == [
        DiffLine("kept", "one", 18),
        DiffLine("removed", "two", 19),
        DiffLine("added", "2", 19),
        DiffLine("kept", "three", 20),
    ]
    assert [line.number for line in diff_of_call("Edit", edit, ())] == [0, 0, 0, 0]


def test_of_several_edits_only_lines_of_the_new_file_are_numbered() -> None:
    edits = [{"old_string": "a", "new_string": "b\nc"}, {"old_string": "x", "new_string": "y"}]
    assert diff_of_call("Edit", {"edits": edits}, (3, 9)) == [
        DiffLine("removed", "a"),
        DiffLine("added", "b", 3),
        DiffLine("added", "c", 4),
        DiffLine("removed", "x"),
        DiffLine("added", "y", 9),
    ]


def test_a_written_file_is_numbered_from_its_first_line() -> None:
    lines = diff_of_call("Write", {"file_path": "a", "content": "one\ntwo\n"}, ())
    assert lines == [DiffLine("added", "one", 1), DiffLine("added", "two", 2)]
    assert change_counts(lines) == "+2"


@given(LINES, LINES)
def test_the_lines_of_a_unified_diff_have_the_numbers_of_the_files(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    for line in unified_lines(difference(before, after).splitlines()):
        if line.kind != "note":
            file = old if line.kind == "removed" else new
            assert file[line.number - 1] == line.text


def test_a_long_file_is_cut_and_every_spelling_is_known() -> None:
    long = diff_of_call("Write", {"content": "x\n" * 1_000}, ())
    assert (len(long), long[-1]) == (MOST_LINES + 1, DiffLine("note", "… 600 more lines"))
    far = "\n".join(str(number) for number in range(20))
    lines = diff_of_call("Edit", {"old_str": f"a\n{far}\nb", "new_str": f"c\n{far}\nd"}, ())
    shown = [f"{line.sign}{line.text}" for line in lines if line.kind != "kept"]
    assert shown == ["-a", "+c", " …", "-b", "+d"]


def test_other_tools_and_odd_arguments_have_none() -> None:
    odd = [("Read", {"old_string": "a"}), ("Write", {"content": 3}), ("Edit", {"edits": [1]})]
    assert [diff_of_call(tool, given, ()) for tool, given in odd] == [[], [], []]


def test_steps_are_listed_with_how_they_stand() -> None:
    steps = [("read", "completed"), ("fix", "in_progress"), ("check", "pending")]
    todos = [{"content": content, "status": status} for content, status in steps]
    assert todos_of("TodoWrite", {"todos": todos}) == [
        Step("read", done=True),
        Step("fix", active=True),
        Step("check"),
    ]
    assert todos_of("TodoWrite", {"todos": [3]}) == [Step("")] and todos_of("Read", {"todos": todos}) == []
