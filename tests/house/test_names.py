"""Modules say what they are, names explain, and the package shows exactly what it promises."""

import ast
import re
from types import ModuleType

import gencode
from tests.house.source import ROOT, SOURCE, package


def test_every_module_says_what_it_is() -> None:
    silent = [module.name for module in package() if not ast.get_docstring(module.tree)]
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
