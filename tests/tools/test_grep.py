"""Grep as the model calls it."""

from pathlib import Path

import pytest

from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall
from gencode.core.text import CLIP
from gencode.tools.grep import GREP
from tests.tools.desk import Desk
from tests.tools.searching import by_file


async def test_the_default_gives_paths_and_no_trace(desk: Desk) -> None:
    desk.write(b_py="import os\n", a_py="import os\n", c_py="nothing\n")
    assert await desk.output(GREP, pattern="import") == ToolOutput("a.py\nb.py")


async def test_the_well_known_options_are_understood(desk: Desk) -> None:
    desk.put("a.py", "one\ntwo\nTHREE\nfour\nfive\n")
    options = {"output_mode": "content", "pattern": "three", "-i": True}
    assert await desk.use(GREP, **options, **{"-C": 1}) == "a.py\n2-two\n3:THREE\n4-four"
    assert await desk.use(GREP, **options, **{"-C": 1, "-A": 0}) == "a.py\n2-two\n3:THREE"
    assert await desk.use(GREP, **options, **{"-B": 1, "-n": False}) == "a.py\n2-two\n3:THREE"
    assert await desk.use(GREP, pattern="e", output_mode="count", type="python") == "a.py:2"
    assert await desk.use(GREP, pattern="two.THREE", multiline=True) == "a.py"
    assert await desk.use(GREP, pattern="f(?=ive)", output_mode="content") == "a.py\n5:five"


async def test_what_may_not_be_read_is_passed_over_without_a_trace_of_it(desk: Desk) -> None:
    for name in ("a.txt", ".env", "b.txt", "z.txt"):
        desk.put(name, "KEY=1\n")
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return not path.endswith((".env", "z.txt"))

    desk.may_read = may_read
    assert await desk.use(GREP, pattern="KEY") == "a.txt\nb.txt"
    assert asked == [str(desk.root), *(str(desk.root / name) for name in (".env", "a.txt", "b.txt", "z.txt"))]
    assert await desk.use(GREP, pattern="KEY", head_limit=1) == "a.txt\n[… 1 more; go on with offset=1]"
    assert (
        await desk.use(GREP, pattern="KEY", glob=".env") == "No matches for 'KEY' in the working directory."
    )


async def test_a_named_file_was_judged_already(desk: Desk) -> None:
    desk.put(".env", "KEY=1\n")
    desk.may_read = lambda path: path == str(desk.root)
    assert await desk.use(GREP, pattern="KEY", path=".env", output_mode="content") == ".env\n1:KEY=1"


async def test_a_folder_that_needs_asking_says_how_to_go_on(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/a.txt").write_text("needle")
    desk.may_read = lambda path: path == str(desk.root)
    assert await desk.use(GREP, pattern="needle", path=str(tmp_path / "far")) == (
        f"No matches for 'needle' in {tmp_path}/far.\n"
        "[files here may only be read one by one; give the path of a single file]"
    )


async def test_outside_of_the_working_directory_paths_are_absolute(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/a.txt").write_text("needle")
    assert await desk.use(GREP, pattern="needle", path=str(tmp_path / "far")) == str(tmp_path / "far/a.txt")


async def test_output_is_bounded_and_paged(desk: Desk) -> None:
    for number in range(40):
        desk.put(f"f{number:02}.txt", f"needle {'x' * 90}\n" * 50)
    seen: list[tuple[str, str]] = []
    offset = 0
    while offset is not None:
        text = await desk.use(GREP, pattern="needle", output_mode="content", head_limit=0, offset=offset)
        assert len(text) <= CLIP
        seen += by_file(text)
        last = text.split("\n")[-1]
        offset = int(last.rpartition("=")[2][:-1]) if last.startswith("[…") else None
    assert seen == [
        (f"f{number:02}.txt", f"{line}:needle {'x' * 90}") for number in range(40) for line in range(1, 51)
    ]


async def test_a_file_that_is_called_like_a_match_is_told_from_one(desk: Desk) -> None:
    desk.put("7:x", "one\n")
    desk.put("2024-05-notes.md", "one\n")
    text = await desk.use(GREP, pattern="one", output_mode="content")
    assert text == "./2024-05-notes.md\n1:one\n\n./7:x\n1:one"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "x", "path": "sr"}, "sr does not exist; did you mean src?"),
        ({"pattern": "x", "path": "pic"}, "pic is not text and is not searched: PNG image."),
        ({"pattern": "x", "glob": "{a"}, "glob='{a' is not a pattern: it has a `{` that is never closed."),
        ({"pattern": "x", "-A": -1}, "Grep: "),
        ({"pattern": "x", "output_mode": "lines"}, "Grep: "),
    ],
)
async def test_mistakes_are_answered_with_a_way_out(
    desk: Desk, arguments: dict[str, object], said: str
) -> None:
    desk.put("src/a.py", "x")
    desk.put("pic", b"\x89PNG\r\n\x1a\n")
    try:
        answer = await desk.use(GREP, **arguments)
    except ToolError as error:
        answer = str(error)
    assert answer.startswith(said)


def test_its_names_and_its_effect() -> None:
    assert (GREP.name, GREP.aliases, GREP.effect) == ("Grep", ("grep_files",), "read")
    assert list(GREP.schema["properties"]) == [
        "pattern",
        "path",
        "glob",
        "type",
        "output_mode",
        "-A",
        "-B",
        "-C",
        "-n",
        "-i",
        "multiline",
        "head_limit",
        "offset",
    ]
    assert GREP.schema["required"] == ["pattern"]
    GREP.parse(ToolCall("1", "Grep", {"pattern": "x", "-A": 3, "-n": True}))
