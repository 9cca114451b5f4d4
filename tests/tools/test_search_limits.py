"""Searchers in any tree, against hostile patterns, and within their limits."""

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.tools.file_search import Searcher, find_ripgrep, python_searcher
from gencode.tools.grep import GrepRequest
from gencode.tools.search_records import FileSearch, SearchOutput
from tests.tools.desk import Desk
from tests.tools.searching import SEARCHERS, glob, grep, ripgrep, search

NAMES = st.sampled_from(["a", "b", "c.py", "d.log", "e.txt", ".h", "Übel"])
RULES = st.sampled_from(
    [
        "a",
        "/a",
        "a/",
        "*.log",
        "!d.log",
        "b/*",
        "**/c.py",
        "a/**",
        "!/a",
        "/b/c.py",
        "#x",
        "",
        "e.*",
        "\\!b",
        "[ab]",
        "{a,b}",
        "!a/",
        "*",
        "!*/",
        "!*.py",
        "b/",
        "**",
        "a/**/b",
        "?",
        ".h",
    ]
)
LINES = st.lists(st.sampled_from(["foo", "bar", "foo bar", "", "Foo", "x\r", "é"]), max_size=4).map("\n".join)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    LINES,
    min_size=1,
    max_size=8,
)
IGNORES = st.dictionaries(
    st.sampled_from([".gitignore", ".ignore", "a/.gitignore", "b/.ignore", "b/.gitignore"]),
    st.lists(RULES, max_size=4).map("\n".join),
    max_size=3,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    parent = tmp_path_factory.mktemp("trees")
    return (parent / str(number) for number in itertools.count())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=TREES,
    ignores=IGNORES,
    pattern=st.sampled_from(["foo", "^foo$", "o+", "", "[[]", "é", r"\bbar", "x$"]),
    start=st.sampled_from([".", "a", "b"]),
    shape=st.sampled_from(["count", "content", "files_with_matches"]),
)
def test_both_find_the_same_in_any_tree(
    folders: Iterator[Path],
    files: dict[str, str],
    ignores: dict[str, str],
    pattern: str,
    start: str,
    shape: SearchOutput,
) -> None:
    desk = Desk(next(folders))
    desk.root.mkdir()
    (desk.root / "a").mkdir()
    (desk.root / "b").mkdir()
    for name, content in {**files, **ignores}.items():
        if (
            all(not (desk.root / above).is_file() for above in Path(name).parents)
            and not (desk.root / name).is_dir()
        ):
            desk.put(name, content)

    async def both() -> list[tuple[str, list[str]]]:
        request = GrepRequest(search(shape, pattern), start)
        return [
            (await grep(desk, searcher, request), await glob(desk, searcher, "**", start))
            for searcher in (ripgrep(), python_searcher)
        ]

    first, second = asyncio.run(both())
    assert first == second


async def test_a_hostile_pattern_cannot_hold_python_for_ever(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gencode.tools.file_search.SECONDS", 0.5)
    desk.put("a.txt", "a" * 60)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    heart = asyncio.create_task(beat())
    text = await grep(desk, python_searcher, GrepRequest(search("count", "(a+)+$b")))
    heart.cancel()
    assert text.startswith("No matches for '(a+)+$b' in the working directory.\n[the search timed out after ")
    assert beats > 5


async def test_a_cancelled_search_leaves_no_process(desk: Desk) -> None:
    desk.put("a.txt", "a" * 60)
    started = asyncio.Event()

    def noted(search: FileSearch, outer_file: str, *, in_order: bool) -> list[str]:
        started.set()
        return python_searcher(search, outer_file, in_order=in_order)

    marker = f"(a+)+$never{os.getpid()}"
    task = asyncio.create_task(grep(desk, noted, GrepRequest(search("count", marker))))
    await started.wait()
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    listed = await asyncio.to_thread(subprocess.run, ["ps", "-eo", "args"], capture_output=True, check=True)
    assert marker.encode() not in listed.stdout


@SEARCHERS
async def test_more_than_fits_in_memory_is_still_paged_in_order(
    desk: Desk, searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gencode.tools.file_search.KEPT_HITS", 50)
    for name in ("b", "a", "c.d", "c/e"):
        desk.put(f"{name}.txt", "x\n" * 40)
    assert await grep(desk, searcher, GrepRequest(search("content", "x")), (79, 3)) == (
        "b.txt\n40:x\n\nc/e.txt\n1:x\n2:x\n[… more; go on with offset=82]"
    )
    assert await grep(desk, searcher, GrepRequest(search("content", "x")), (159, 3)) == "c.d.txt\n40:x"


@SEARCHERS
async def test_lines_of_megabytes_are_cut(desk: Desk, searcher: Searcher) -> None:
    desk.put("a.min.js", "needle" + "x" * 3_000_000 + "\nneedle\n")
    text = await grep(desk, searcher, GrepRequest(search("content", "needle")))
    assert text == f"a.min.js\n1:needle{'x' * 494} [… the line goes on]\n2:needle"


async def test_many_searches_at_once_all_answer(desk: Desk) -> None:
    desk.put("a.txt", "x\n")
    asked = [grep(desk, ripgrep(), GrepRequest(search("count", "x"))) for _ in range(60)]
    assert await asyncio.gather(*asked) == ["a.txt:1"] * 60


def test_ripgrep_is_never_taken_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere/python"))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}.{os.pathsep}")
    assert find_ripgrep(tmp_path) is None
    assert find_ripgrep(tmp_path / "elsewhere") == str(program)
