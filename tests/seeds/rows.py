"""Ties a test to its row: a feature of one of the five source documents.

`docs/reference/seeds.md` is made from these marks. To write the page, and to see what has no test yet:

python -m tests.seeds.page
python -m tests.seeds.page --missing
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent


class Row(NamedTuple):
    """A feature, the line a user types for it, and the test that tries it."""

    number: str
    feature: str
    use: str
    file: str
    test: str


class Different(NamedTuple):
    """A feature that GenCode has in another way, and why."""

    number: str
    feature: str
    why: str


def seed(number: str, feature: str, *, use: str) -> pytest.MarkDecorator:
    """The row that a test tries: the seed, the feature as its table names it, what a user types or does."""
    return pytest.mark.seed(number, feature, use=use)


def areas() -> list[tuple[str, list[Row]]]:
    """The rows of each file with its title, the first seed first."""
    found: list[tuple[str, list[Row]]] = []
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if rows := [row for node in tree.body for row in _rows(path.name, node)]:
            found.append(((ast.get_docstring(tree) or path.stem).splitlines()[0].rstrip("."), rows))
    return sorted(found, key=lambda area: area[1][0].number)


def _rows(file: str, node: ast.stmt) -> Iterator[Row]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for each in node.decorator_list:
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "seed":
                number, feature, use = [
                    str(ast.literal_eval(value))
                    for value in (*each.args, *(keyword.value for keyword in each.keywords))
                ]
                yield Row(number, feature, use, file, node.name)
