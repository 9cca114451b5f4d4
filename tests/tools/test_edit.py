"""Edit: exact replacements, what is told when they do not fit, and what stays as it was."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError
from gencode.core.messages import FileChange, FileSeen, ToolCall, Trace
from gencode.tools.edit import EDIT
from gencode.tools.read import READ
from gencode.tools.text_files import LARGEST
from tests.tools.desk import Desk

TEN = "".join(f"line {n}\n" for n in range(1, 11))


async def put_and_read(desk: Desk, content: str | bytes, name: str = "a.txt") -> Path:
    desk.put(name, content)
    await desk.use(READ, file_path=name)
    return desk.root / name


def once(old: str, new: str, *, replace_all: bool = False) -> dict[str, Any]:
    return {"old_string": old, "new_string": new, "replace_all": replace_all}


async def refused(desk: Desk, **arguments: Any) -> str:
    before = {path: path.read_bytes() for path in desk.root.rglob("*") if path.is_file()}
    with pytest.raises(ToolError) as caught:
        await desk.use(EDIT, file_path="a.txt", **arguments)
    assert {path: path.read_bytes() for path in desk.root.rglob("*") if path.is_file()} == before
    return str(caught.value)


async def test_one_place_is_replaced_and_shown_with_the_lines_around_it(desk: Desk) -> None:
    path = await put_and_read(desk, TEN)
    output = await desk.output(EDIT, file_path="a.txt", **once("line 5\n", "five\nand a half\n"))
    text = TEN.replace("line 5\n", "five\nand a half\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert output == ToolOutput(
        "Edited a.txt: 1 place changed.\n3\tline 3\n4\tline 4\n5\tfive\n6\tand a half\n7\tline 6\n8\tline 7",
        Trace(changed=(FileChange("a.txt", digest),), seen=(FileSeen("a.txt", digest),), lines=(5,)),
    )
    assert path.read_text() == text


async def test_after_an_edit_the_file_need_not_be_read_again(desk: Desk) -> None:
    path = await put_and_read(desk, "a b")
    await desk.use(EDIT, file_path="a.txt", **once("a", "c"))
    await desk.use(EDIT, file_path="a.txt", **once("b", "d"))
    assert path.read_text() == "c d"


async def test_every_place_is_replaced_when_asked(desk: Desk) -> None:
    path = await put_and_read(desk, TEN)
    text = await desk.use(EDIT, file_path="a.txt", **once("line", "row", replace_all=True))
    assert (path.read_text(), text.split("\n")[0]) == (
        TEN.replace("line", "row"),
        "Edited a.txt: 10 places changed.",
    )
    assert text.split("\n")[-1] == "10\trow 10"


async def test_very_many_places_are_changed_and_a_few_are_shown(desk: Desk) -> None:
    path = await put_and_read(desk, "x\n\n\n\n\n\n" * 1_000)
    text = await desk.use(EDIT, file_path="a.txt", **once("x", "y", replace_all=True))
    assert path.read_text() == "y\n\n\n\n\n\n" * 1_000
    assert text.startswith("Edited a.txt: 1,000 places changed.\n1\ty\n")
    assert (text.count("\ty"), text.split("\n")[-1]) == (8, "[… and more places]")


async def test_several_edits_are_made_in_order_and_shown_where_they_ended_up(desk: Desk) -> None:
    path = await put_and_read(desk, TEN)
    edits = [once("line 9", "nine"), once("line 2\n", ""), once("nine", "NINE"), once("line 1\n", "0\n1\n")]
    text = await desk.use(EDIT, file_path="a.txt", edits=edits)
    assert path.read_text() == "0\n1\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nNINE\nline 10\n"
    assert text.split("\n") == [
        "Edited a.txt: 4 places changed.",
        "1\t0",
        "2\t1",
        "3\tline 3",
        "4\tline 4",
        "5\tline 5",
        "7\tline 7",
        "8\tline 8",
        "9\tNINE",
        "10\tline 10",
    ]


async def test_one_edit_that_does_not_fit_undoes_them_all(desk: Desk) -> None:
    await put_and_read(desk, "a b c")
    edits = [once("a", "x"), once("nowhere", "y"), once("c", "z")]
    assert await refused(desk, edits=edits) == (
        "Edit 2 of 3: old_string is not in a.txt. Read the file again and copy the text exactly.\n"
        "Nothing was changed."
    )


async def test_a_text_that_is_there_twice_is_not_guessed(desk: Desk) -> None:
    await put_and_read(desk, "x = 1\ny = 2\nx = 1\n")
    assert await refused(desk, **once("x = 1", "x = 3")) == (
        "old_string is in a.txt 2 times (lines 1, 3). Give more of the text around the one you mean, "
        "or set replace_all.\nNothing was changed."
    )


async def test_places_that_overlap_are_two_places(desk: Desk) -> None:
    path = await put_and_read(desk, "aaa\n" * 15)
    assert "15 times (lines 1, 2, 3, 4, 5 and more)" in await refused(desk, **once("aa", "b"))
    await desk.use(EDIT, file_path="a.txt", **once("aa", "b", replace_all=True))
    assert path.read_text() == "ba\n" * 15


@pytest.mark.parametrize(
    ("content", "old", "hint"),
    [
        (
            "\tif x:\n\t\treturn 1\n",
            "    if x:\n        return 1",
            "Only whitespace differs; the file has:\n",
        ),
        (
            "a = 1 \nb = 2\n",
            "a = 1\nb = 2",
            "Only whitespace differs; the file has:\n1\ta = 1 \n2\tb = 2",
        ),
        (
            "one\r\ntwo\nthree\n",
            "one\ntwo",
            "Only the line endings differ: some lines of the file end with CR LF",
        ),
        ("one\ntwo\n", "one\r\ntwo", "Only the line endings differ: the file has LF alone"),
        ("one\ntwo\n", "1\tone\n2\ttwo", "Leave out the line numbers that Read puts before"),
        ("def replaced():\n", "def old():", "new_string is already in line 1"),
        (
            "x\ndef compute(a, b):\n",
            "def compute(a, c):",
            "The nearest lines are:\n2\tdef compute(a, b):",
        ),
        ("x\n", "something else", "Read the file again and copy the text exactly."),
        ("x\n", "\n\n\n", "Read the file again and copy the text exactly."),
        ("", "x", "Read the file again and copy the text exactly."),
    ],
)
async def test_a_text_that_is_not_there_is_answered_with_what_differs(
    desk: Desk, content: str, old: str, hint: str
) -> None:
    await put_and_read(desk, content)
    told = await refused(desk, **once(old, "def replaced():"))
    assert told.startswith(f"old_string is not in a.txt. {hint}")
    assert told.endswith("\nNothing was changed.")


@pytest.mark.parametrize("line", ["a\n", "abbaab" * 30 + "\n", "\n", "x" * 1_000])
async def test_a_file_that_is_hard_to_compare_with_is_answered_too(desk: Desk, line: str) -> None:
    numbered = "".join(f"{n:b}{line}" for n in range(4_000))
    await put_and_read(desk, numbered + line * (2_000_000 // len(line)))
    told = await refused(desk, **once("abaabb" * 30 + "\n0" * 150, "c"))
    assert told.startswith("old_string is not in a.txt. ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (once("one", "one"), "old_string and new_string are the same.\nNothing was changed."),
        (once("", "x"), "old_string is empty, but a.txt is not; say which text to replace, or use Write."),
        ({"old_string": "one"}, "Give old_string and new_string (an empty new_string deletes), or edits."),
        ({}, "Give old_string and new_string"),
        ({"edits": []}, "Give old_string and new_string"),
        (
            {**once("one", "x"), "edits": [once("one", "x")]},
            "Give either old_string and new_string, or edits",
        ),
        (once("\udc80", "x"), "old_string contains a lone surrogate (U+DC80"),
        (once("one", "\ud800"), "new_string contains a lone surrogate (U+D800"),
        ({"edits": [{"old_string": "one"}]}, "Edit: Object missing required field `new_string`"),
    ],
)
async def test_mistakes_are_told_and_change_nothing(desk: Desk, arguments: dict[str, Any], said: str) -> None:
    await put_and_read(desk, "one\n")
    assert (await refused(desk, **arguments)).startswith(said)


async def test_an_empty_old_string_makes_a_new_file_or_fills_an_empty_one(desk: Desk) -> None:
    new = await desk.use(EDIT, file_path="new/b.txt", edits=[once("", "a\nb\n"), once("b", "c")])
    assert new == "Created new/b.txt.\n1\ta\n2\tc"
    empty = await put_and_read(desk, "")
    await desk.use(EDIT, file_path="a.txt", **once("", "filled"))
    assert ((desk.root / "new/b.txt").read_text(), empty.read_text()) == ("a\nc\n", "filled")


async def test_a_file_that_is_not_there_is_answered_with_the_nearest_name(desk: Desk) -> None:
    desk.put("config.py", "x")
    with pytest.raises(ToolError, match="^confg.py does not exist; did you mean config.py?"):
        await desk.use(EDIT, file_path="confg.py", **once("x", "y"))


async def test_a_file_that_was_not_read_or_has_changed_since_is_not_edited(desk: Desk) -> None:
    desk.put("a.txt", "one two")
    assert await refused(desk, **once("one", "1")) == (
        "a.txt exists and was not read in this task; Read it first, then change it."
    )
    await desk.use(READ, file_path="a.txt")
    desk.put("a.txt", "one and two")
    assert await refused(desk, **once("one", "1")) == "a.txt changed since it was read; Read it again first."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x89PNG\r\n\x1a\nold", "a.txt is not text and cannot be edited: PNG image."),
        (b"what\0old", "a.txt is not text and cannot be edited: binary file."),
        (b"\xff\xfeo\0l\0d\0x", "a.txt begins like UTF-16-LE but is not; it cannot be edited."),
        (b"old" + b"x" * LARGEST, "a.txt is larger than 8.0 MB, the limit for edits."),
    ],
)
async def test_what_is_no_text_or_too_big_is_not_edited(desk: Desk, content: bytes, said: str) -> None:
    await put_and_read(desk, content)
    assert await refused(desk, **once("old", "new")) == said


async def test_an_edit_cannot_blow_a_file_up(desk: Desk) -> None:
    await put_and_read(desk, "a" * 100_000)
    assert await refused(desk, **once("a", "b" * 1_000, replace_all=True)) == (
        "a.txt would become larger than 8.0 MB.\nNothing was changed."
    )


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"\xef\xbb\xbfcaf\xc3\xa9\n", "café", "thé", b"\xef\xbb\xbfth\xc3\xa9\n"),
        ("a\r\nb\r\n".encode("utf-16"), "a\nb", "ä\nc", "ä\r\nc\r\n".encode("utf-16")),
        (b"\xfe\xff" + "größe".encode("utf-16-be"), "ß", "ss", b"\xfe\xff" + "grösse".encode("utf-16-be")),
        (b"\xff\xfe\x00\xd8x\0", "x", "y", b"\xff\xfe\x00\xd8y\0"),
        ("é".encode("utf-32"), "é", "e", "e".encode("utf-32")),
        (b"caf\xe9\nth\xe9\n", "café", "cafés à", b"caf\xe9s \xe0\nth\xe9\n"),
        (b"na\xefve\ncaf\xc3\xa9\n", "café", "→", b"na\xefve\n\xe2\x86\x92\n"),
        (b"\xef\xbb\xbfna\xefve\n", "v", "V", b"\xef\xbb\xbfna\xefVe\n"),
    ],
)
async def test_the_encoding_is_kept(desk: Desk, before: bytes, old: str, new: str, after: bytes) -> None:
    path = await put_and_read(desk, before)
    await desk.use(EDIT, file_path="a.txt", **once(old, new))
    assert path.read_bytes() == after


async def test_a_character_that_the_encoding_does_not_have_is_refused(desk: Desk) -> None:
    await put_and_read(desk, b"caf\xe9\n")
    assert (await refused(desk, **once("café", "→"))).startswith(
        "The file is not UTF-8 but Latin-1, which has no '→'; do without it."
    )


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny\nz", b"x\r\ny\r\nz\r\n"),
        (b"a\nb\r\nc\n", "a", "x\ny", b"x\ny\nb\r\nc\n"),
        (b"a\nb\r\nc\n", "b\r\nc", "b\r\nd", b"a\nb\r\nd\n"),
        (b"a\nb\n", "b", "b\r\nc", b"a\nb\r\nc\n"),
        (b"a\rb\r", "a\rb", "c\rd", b"c\rd\r"),
    ],
)
async def test_line_ends_are_kept(desk: Desk, before: bytes, old: str, new: str, after: bytes) -> None:
    path = await put_and_read(desk, before)
    await desk.use(EDIT, file_path="a.txt", **once(old, new))
    assert path.read_bytes() == after


async def test_rights_are_kept(desk: Desk) -> None:
    path = await put_and_read(desk, "#!/bin/sh\nold\n")
    path.chmod(0o755)
    await desk.use(EDIT, file_path="a.txt", **once("old", "new"))
    assert (path.stat().st_mode & 0o777, path.read_text()) == (0o755, "#!/bin/sh\nnew\n")


async def test_a_link_is_followed_to_the_file_it_names(desk: Desk) -> None:
    path = await put_and_read(desk, "old", "real/a.txt")
    (desk.root / "link.txt").symlink_to("real/a.txt")
    output = await desk.output(EDIT, file_path="link.txt", **once("old", "new"))
    assert [each.path for each in output.trace.changed] == ["real/a.txt"]
    assert (path.read_text(), (desk.root / "link.txt").is_symlink()) == ("new", True)


async def test_the_preview_shows_the_difference_or_why_the_edit_cannot_succeed(desk: Desk) -> None:
    desk.put("a.txt", "a\r\nb\r\nc\r\n")
    arguments = EDIT.parse(ToolCall("1", "Edit", {"file_path": "a.txt", **once("b", "B\nb")}))
    with pytest.raises(ToolError, match="was not read in this task"):
        await EDIT.shown(desk.ctx, arguments)
    desk.know("a.txt")
    assert await EDIT.shown(desk.ctx, arguments) == "@@ -1,3 +1,4 @@\n a\n+B\n b\n c"
    lost = EDIT.parse(ToolCall("1", "Edit", {"file_path": "a.txt", **once("x", "y")}))
    with pytest.raises(ToolError, match=r"old_string is not in a\.txt"):
        await EDIT.shown(desk.ctx, lost)
    fresh = EDIT.parse(ToolCall("1", "Edit", {"file_path": "b.txt", **once("", "y\n")}))
    assert await EDIT.shown(desk.ctx, fresh) == "@@ -0,0 +1,1 @@\n+y"
    assert [(path.name, path.read_bytes()) for path in desk.root.iterdir()] == [("a.txt", b"a\r\nb\r\nc\r\n")]


def test_its_names_and_its_effect() -> None:
    assert (EDIT.name, EDIT.aliases, EDIT.effect) == ("Edit", ("edit_file", "MultiEdit"), "write")
    assert list(EDIT.schema["properties"]) == [
        "file_path",
        "old_string",
        "new_string",
        "replace_all",
        "edits",
    ]
    assert EDIT.schema["required"] == ["file_path"]
