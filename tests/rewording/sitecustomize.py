"""The switch that rewords every sentence of GenCode: with this folder on PYTHONPATH, Python loads this first.

While a module of `gencode` is imported, each string in its source that is a sentence for a person or a model
is wrapped into a call that makes pseudo-text of it: the same length, signs, placeholders and names, other
letters. It comes out differently each time it is rendered, so a program that compares, searches or parses a
sentence, of its own or of another process, does not find it. A test that passes with this decides by facts.

Left alone are texts that are not written for anybody to read (SQL, patterns, tables of words, keys), and
those beside a comparison, which are the words of other programs: `tests/house/test_sentences.py` says which.
"""

import ast
import builtins
import random
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

FEWEST_WORDS = 3
NAME = "__reworded__"
LEFT_ALONE = (
    "core/old_events.py",  # reads the sentences of version 0.1, which stay as they are
    "providers/offline",  # plays a model: it writes and reads words as one does
    "tools/html_elements.py",  # tables of names
)
SEARCHES = frozenset(
    {
        *("startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "splitlines"),
        *("partition", "rpartition", "find", "rfind", "index", "rindex", "count", "replace"),
    }
)
_CODE = re.compile(
    r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|PRAGMA|BEGIN|COMMIT|WHERE|FROM|VALUES|SET)\b"
    r"|\(\?[:P<!=]|\\[sbdwAZ]|^import |\bimport sys|</|\{\"|^\s*[-.#\w]+ \{$|^[.#]?\w[\w-]* \{",
    re.MULTILINE,
)
_PLAIN = re.compile(r"([\"'“‘(\[]*)([A-Z]?[a-z]+(?:['’-][a-z]+)*)([\"'”’)\],.;:!?…]*)")
_SMALL = frozenset(
    "a an and are as at be but by can cannot for from has have here if in into is it its may more must no "
    "nobody not nothing of on one only or so than that the there this to until was were what when where which "
    "who why will with you your".split()
)
"""A sentence has one of these; a table of names has none."""
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_random = random.Random()  # noqa: S311 (no secret)


def is_sentence(text: str) -> bool:
    """Whether a string of the source is written to be read."""
    words = text.split()
    plain = sum(_PLAIN.fullmatch(word) is not None for word in words)
    if plain < FEWEST_WORDS or 2 * plain < len(words) or _SMALL.isdisjoint(map(str.lower, words)):
        return False
    return _CODE.search(text) is None


def reworded(text: Any) -> Any:
    """Pseudo-text for a sentence; whatever is no text stays as it is."""
    return re.sub(r"\S+", _word, text) if type(text) is str else text


def _word(found: re.Match[str]) -> str:
    parts = _PLAIN.fullmatch(found[0])
    if parts is None:
        return found[0]
    shift = _random.randrange(1, 26)
    letters = (_shifted(each, shift) if each.isascii() and each.isalpha() else each for each in parts[2])
    return f"{parts[1]}{''.join(letters)}{parts[3]}"


def _shifted(letter: str, shift: int) -> str:
    first = ord("a") if letter.islower() else ord("A")
    return chr(first + (ord(letter) - first + shift) % 26)


class Rewording(ast.NodeTransformer):
    """Wraps the sentences of one module, and the uses of constants that hold one."""

    def __init__(self, constants: frozenset[str]) -> None:
        self._constants = constants

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return _wrapped(node) if isinstance(node.value, str) and is_sentence(node.value) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _wrapped(node) if isinstance(node.ctx, ast.Load) and node.id in self._constants else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        sentence = is_sentence(_text(node))
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
                parts.append(part)
            elif sentence:
                parts.append(ast.copy_location(ast.FormattedValue(_wrapped(part), -1, None), part))
            else:
                parts.append(part)
        node.values = parts
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        node.left = self._operand(node.left)
        node.comparators = [self._operand(each) for each in node.comparators]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re":
            return node
        if isinstance(called, ast.Attribute) and called.attr in SEARCHES:
            called.value = self._operand(called.value)
            node.args = [self._operand(each) for each in node.args]
            return node
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        node.values = [self.visit(each) for each in node.values]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        if not isinstance(node.slice, ast.Constant | ast.Tuple):
            node.slice = self.visit(node.slice)
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
        return node if bases & {"Enum", "StrEnum"} else self.generic_visit(node)

    def _operand(self, node: ast.expr) -> ast.expr:
        """What is compared or searched: the words of another program."""
        return node if isinstance(node, ast.Constant | ast.Name | ast.Tuple) else self.visit(node)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in parts)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return ""


def _wrapped(node: ast.expr) -> ast.expr:
    name = ast.copy_location(ast.Name(NAME, ast.Load()), node)
    return ast.copy_location(ast.Call(name, [node], []), node)


def sentences_of(tree: ast.Module) -> frozenset[str]:
    """The constants of a module that hold a sentence."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if _CONSTANT.fullmatch(name) and is_sentence(_text(node.value)):
                found.add(name)
    return frozenset(found)


class Loader(SourceFileLoader):
    """Loads a module with its sentences wrapped; what is compiled is kept apart from what others compile."""

    def get_code(self, fullname: str) -> Any:
        before, sys.pycache_prefix = sys.pycache_prefix, str(Path(__file__).parent / "__pycache__" / "gencode")
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix = before

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        tree = ast.parse(data)
        if not any(f"/gencode/{each}" in str(path) for each in LEFT_ALONE):
            root = Path(str(path).rpartition("/gencode/")[0])
            constants = sentences_of(tree) | _imported(tree, root)
            tree = ast.fix_missing_locations(Rewording(constants).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


def _imported(tree: ast.Module, root: Path) -> frozenset[str]:
    """The constants with a sentence that a module has from others, by the names they have in it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gencode."):
            names = {each.name: each.asname or each.name for each in node.names if _CONSTANT.fullmatch(each.name)}
            file = (root / str(node.module).replace(".", "/")).with_suffix(".py")
            if names and file.is_file():
                there = sentences_of(ast.parse(file.read_bytes()))
                found.update(here for name, here in names.items() if name in there)
    return frozenset(found)


class Finder(MetaPathFinder):
    """Finds the modules of GenCode before others do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gencode" and not fullname.startswith("gencode."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


setattr(builtins, NAME, reworded)
sys.meta_path.insert(0, Finder())
