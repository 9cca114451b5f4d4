"""The repository as the house tests see it: parsed modules, their imports, and the files people read."""

import ast
import gc
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
VISIBLE = {".ci"}
MADE = {"__pycache__", "build", "dist", "node_modules"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One Python file; `name` is its import name for files under src, else its path."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part below `gencode`: a folder, or a file at the top such as `app`."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "__init__"

    def functions(self) -> Iterator[tuple[str, FunctionNode]]:
        """Every function with its dotted name, however deep it is nested."""
        yield from _functions(self.tree, self.name)


@dataclass(frozen=True)
class Import:
    """One imported name; `at_start` when it is imported as soon as its module is."""

    target: str
    line: int
    at_start: bool


@cache
def package() -> tuple[Module, ...]:
    """Every module of src/gencode."""
    with _kept_for_good():
        return tuple(_parse(path, _import_name(path)) for path in sorted(SOURCE.rglob("*.py")))


@cache
def python_files() -> tuple[Module, ...]:
    """Every Python file of the repository that is ours."""
    with _kept_for_good():
        return tuple(_parse(path, str(path.relative_to(ROOT))) for path in files() if path.suffix == ".py")


@cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the repository; hidden folders, environments and caches do not."""
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            each for each in folders if each not in MADE and (each in VISIBLE or not each.startswith("."))
        ]
        found.extend(Path(folder, name) for name in names if name != ".git")  # a file in a worktree
    return tuple(sorted(found))


def imports(module: Module) -> list[Import]:
    """Every import of a module, also those hidden in functions and in `import_module("…")`."""
    found: list[Import] = []
    _collect(module, module.tree, True, found)
    return found


def exists(name: str) -> bool:
    """Whether `name` is a module of the package."""
    return any(module.name == name for module in package())


@contextmanager
def _kept_for_good() -> Generator[None]:
    """To look for garbage among two million nodes that all stay takes ten times as long as to parse them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _parse(path: Path, name: str) -> Module:
    text = path.read_text("utf-8")
    return Module(path, name, text, ast.parse(text, str(path)))


def _import_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for child in ast.iter_child_nodes(node):
        name = f"{prefix}.{child.name}" if isinstance(child, FunctionNode | ast.ClassDef) else prefix
        if isinstance(child, FunctionNode):
            yield name, child
        yield from _functions(child, name)


def _collect(module: Module, node: ast.AST, at_start: bool, found: list[Import]) -> None:
    for child in ast.iter_child_nodes(node):
        inside = at_start and not isinstance(child, FunctionNode | ast.Lambda) and not _for_types_only(child)
        for target in _targets(module, child):
            found.append(Import(target, getattr(child, "lineno", 0), inside))
        _collect(module, child, inside, found)


def _targets(module: Module, node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=base, names=names, level=level):
            start = _relative(module, level) if level else ""
            whole = ".".join(part for part in (start, base) if part)
            return [_deepest(whole, alias.name) for alias in names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
        case _:
            return []


def _relative(module: Module, level: int) -> str:
    parts = module.name.split(".")
    if module.path.name == "__init__.py":
        level -= 1
    return ".".join(parts[: len(parts) - level])


def _deepest(base: str, name: str) -> str:
    """`from gencode.core import rules` imports a module, `from gencode.core.rules import Rule` a name."""
    below = f"{base}.{name}"
    return below if base.startswith("gencode") and exists(below) else base


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
