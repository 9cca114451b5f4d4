"""Modules say what they are, names explain, and the package shows exactly what it promises."""

import ast
import re
from types import ModuleType

import gencode
from tests.house.source import ROOT, SOURCE, package

SAME_CLASS: frozenset[str] = frozenset()
"""Names of classes that are the same idea in two places."""
SAME_MODULE = ("app", "decision", "server", "stdio_transport", "transport")
"""Names of modules that two rooms have; take one out when it is gone."""


def test_every_module_says_what_it_is() -> None:
    texts = {module.name: ast.get_docstring(module.tree) or "" for module in package()}
    silent = [name for name, text in texts.items() if not text or text.startswith("TODO")]
    assert silent == []


def test_the_version_is_written_once() -> None:
    literal = re.compile(rf"""["']{re.escape(gencode.__version__)}["']""")
    places = [*sorted(SOURCE.rglob("*.py")), ROOT / "pyproject.toml"]
    found = {str(path.relative_to(ROOT)): len(literal.findall(path.read_text("utf-8"))) for path in places}
    assert {path: count for path, count in found.items() if count} == {"src/gencode/__init__.py": 1}


def test_the_package_exports_what_it_says() -> None:
    names = list(gencode.__all__)
    assert names == sorted(set(names))
    missing = [name for name in names if not hasattr(gencode, name)]
    assert missing == []


def test_the_package_shows_no_more_than_it_says() -> None:
    extra = [
        name
        for name, value in vars(gencode).items()
        if not name.startswith("_") and name not in gencode.__all__ and not isinstance(value, ModuleType)
    ]
    assert [name for name in extra if name != "TYPE_CHECKING"] == []


def test_every_export_is_documented() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs" / "reference").rglob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    silent = [name for name in gencode.__all__ if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert silent == []


def test_a_class_name_is_used_once() -> None:
    """Two classes share a name only when they are the same idea; then say so in `SAME_CLASS`."""
    places: dict[str, list[str]] = {}
    for module in package():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module.name)
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SAME_CLASS} == {}
    assert [name for name in SAME_CLASS if len(places.get(name, ())) < 2] == []


def test_a_module_name_is_used_once() -> None:
    """Commands (`interfaces/cli`) are named as what they are about; other names are leftovers."""
    places: dict[str, list[str]] = {}
    for module in package():
        room, _, name = module.name.rpartition(".")
        if room != "gencode.interfaces.cli" and module.path.stem != "__init__":
            places.setdefault(name, []).append(module.name)
    assert sorted(name for name, where in places.items() if len(where) > 1) == sorted(SAME_MODULE)
