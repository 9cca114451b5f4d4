"""What a call changed, as lines of a diff."""

from gencode.interfaces.render.transcript import MOST_LINES, diff_of, kind_of


def test_an_edit_shows_what_goes_and_what_comes() -> None:
    lines = diff_of("Edit", {"file_path": "a", "old_string": "one\ntwo", "new_string": "one\n2"})
    assert lines == ["@@ -1,2 +1,2 @@", " one", "-two", "+2"]
    assert [kind_of(line) for line in lines] == ["place", "kept", "removed", "added"]


def test_several_edits_follow_each_other() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}, "no edit"]
    assert [line for line in diff_of("Edit", {"edits": edits}) if line[0] in "+-"] == ["-a", "+b", "-c", "+d"]


def test_a_new_file_is_all_added_and_a_long_one_is_cut() -> None:
    assert diff_of("Write", {"content": "x\ny\n"}) == ["+x", "+y"]
    long = diff_of("Write", {"content": "x\n" * 1_000})
    assert (len(long), long[-1]) == (MOST_LINES + 1, "… 600 more lines")


def test_other_tools_and_odd_arguments_have_none() -> None:
    odd = [
        diff_of("Read", {"old_string": "a"}),
        diff_of("Write", {"content": 3}),
        diff_of("Edit", {"edits": [1]}),
    ]
    assert odd == [[], [], []]
