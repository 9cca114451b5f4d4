"""Which tests pin behaviour, and which a mechanism: by what of the product a test reaches for.

A test that uses only the public doors (the package, the command line, HTTP, the page, a protocol, and the
records and ports a program is given) pins behaviour: a redesign leaves it as it is. Any other test reaches
into a mechanism and may go with it, also one that does so through its fixtures or a helper in another file.
What it reaches through an attribute is not seen. `pytest -m behaviour` and `-m mechanism` choose them.
"""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent

DOORS = (
    "gencode",
    "gencode.app",
    "gencode.testing",
    "gencode.settings",
    "gencode.fleet.worker",
    "gencode.core",
    "gencode.journal.store",
    "gencode.agent.toolbox",
    "gencode.core.questions",
    "gencode.providers.scripted",
    "gencode.stores.memory",
    "gencode.stores.sqlite",
    "gencode.stores.postgres",
    "gencode.stores.pg_fleet",
    "gencode.interfaces.cli.main",
)
HARNESSES = (
    "tests.interfaces.http.serving",
    "tests.interfaces.mcp_server.offices",
    "tests.interfaces.tui.driving",
)
"""Files of tests that start the product, so that it can be reached through a door."""


def is_door(module: str) -> bool:
    """Whether a module of the product is one a program may use."""
    return module in DOORS or module.startswith("gencode.core.")


def reaches_inside(file: Path, function: str) -> bool:
    """Whether a test, or a helper that it uses, names something behind the doors."""
    seen: set[tuple[Path, str]] = set()
    todo = [(file, function)]
    while todo:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        where, name = place
        known = _names(where)
        if name in known.inside:
            return True
        todo += [(where, used) for used in known.uses.get(name, ())]
        if name in known.helpers:
            todo.append(known.helpers[name])
        elif name not in known.uses and where == file:
            todo += [(each, name) for each in _conftests(file)]  # it may be a fixture
    return False


class _Names(NamedTuple):
    uses: dict[str, frozenset[str]]
    """What each definition of a file uses by name."""
    inside: frozenset[str]
    """The names it has from behind the doors."""
    helpers: dict[str, tuple[Path, str]]
    """The names it has from other files of tests, and where these are defined."""


@cache
def _names(file: Path) -> _Names:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    uses: dict[str, frozenset[str]] = {}
    for node in tree.body:
        used = _used(node)
        for name in _defined(node):
            uses[name] = uses.get(name, frozenset()) | used
    return _Names(uses, frozenset(_from_inside(tree)), dict(_from_tests(tree)))


def _conftests(file: Path) -> Iterable[Path]:
    for folder in file.parents:
        if (conftest := folder / "conftest.py").exists() and conftest != file:
            yield conftest
        if folder == TESTS:
            break


def _used(node: ast.stmt) -> frozenset[str]:
    parameters = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return frozenset({each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | parameters)


def _defined(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return []


def _from_inside(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_inside(node.module or ""):
            yield from (each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                each.asname or each.name.split(".")[0] for each in node.names if _is_inside(each.name)
            )


def _from_tests(tree: ast.Module) -> Iterable[tuple[str, tuple[Path, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_helper(node.module or ""):
            path = TESTS.parent.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if path.exists():
                yield from ((each.asname or each.name, (path, each.name)) for each in node.names)


def _is_inside(module: str) -> bool:
    return module.split(".")[0] == "gencode" and not is_door(module)


def _is_helper(module: str) -> bool:
    return module.startswith("tests.") and module not in HARNESSES
