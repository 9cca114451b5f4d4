"""Which tests pin behaviour, and which a mechanism: by what of the product a test reaches for.

A test that uses only the public doors (the package, the command line, HTTP, the page, a protocol, and the
records and ports a program is given) pins behaviour: a redesign leaves it as it is. Any other test reaches
into a mechanism and may go with it. `pytest -m behaviour` and `-m mechanism` choose them.
"""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

DOORS = (
    "gencode",
    "gencode.app",
    "gencode.testing",
    "gencode.settings",
    "gencode.fleet",
    "gencode.core",
    "gencode.runtime.ports",
    "gencode.runtime.toolbox",
    "gencode.runtime.asking",
    "gencode.providers.scripted",
    "gencode.stores.memory",
    "gencode.stores.sqlite",
    "gencode.stores.postgres",
    "gencode.stores.pg_fleet",
    "gencode.surfaces.cli",
)


def is_door(module: str) -> bool:
    """Whether a module of the product is one a program may use."""
    return module in DOORS or module.startswith("gencode.core.")


def reaches_inside(file: Path, function: str) -> bool:
    """Whether a test, or anything in its file that it uses, names something behind the doors."""
    uses, inner = _names(file)
    seen: set[str] = set()
    todo = [function]
    while todo:
        name = todo.pop()
        if name in inner:
            return True
        if name not in seen:
            seen.add(name)
            todo += uses.get(name, ())
    return False


@cache
def _names(file: Path) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """What each definition of a file uses by name, and the names it has from behind the doors."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    uses: dict[str, frozenset[str]] = {}
    for node in tree.body:
        used = _used(node)
        for name in _defined(node):
            uses[name] = uses.get(name, frozenset()) | used
    return uses, frozenset(_from_inside(tree))


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


def _is_inside(module: str) -> bool:
    return module.split(".")[0] == "gencode" and not is_door(module)
