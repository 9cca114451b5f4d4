"""Sentences as pseudo-text: every string of a module that is written to be read is reworded when it is used.

Pseudo-text has the same length, signs, placeholders and names, and other letters. It comes out differently
each time it is rendered, in one process as in two. Left alone are texts that nobody reads (SQL, patterns,
tables of words, keys), and what stands in a comparison: those are words of other programs, and
`tests/house/test_sentences.py` says which.
"""

import ast
import random
import re
from pathlib import Path
from typing import Any

FEWEST_WORDS = 3
LEFT_ALONE = (
    "core/old_events.py",  # reads the sentences of version 0.1, which stay as they are
    "permissions/bash/readonly_tables.py",  # names of commands
    "providers/offline",  # plays a model: it writes and reads words as one does
    "interfaces/cli/completions.py",  # scripts for shells
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
    re.split(
        " ",
        "a an and are as at be but by can cannot for from has have here if in into is it its may more must "
        "no nobody not nothing of on one only or so than that the there this to until was were what when "
        "where which who why will with you your",
    )
)
"""A sentence has one of these; a table of names has none."""
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_random = random.Random()


def changed(tree: ast.Module, path: str) -> ast.Module:
    """A module of GenCode with its sentences reworded."""
    if any(f"/gencode/{each}" in path for each in LEFT_ALONE):
        return tree
    root = Path(path.rpartition("/gencode/")[0])
    constants = sentences_of(tree) | _imported(tree, root)
    return ast.fix_missing_locations(Rewording(constants).visit(tree))


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
        match node.func:
            case ast.Attribute(value=ast.Name(id="re")) | ast.Name(id="word_set"):
                return node
            case ast.Attribute(attr=name) as searched if name in SEARCHES:
                searched.value = self._operand(searched.value)
                node.args = [self._operand(each) for each in node.args]
                return node
            case _:
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


def sentences_of(tree: ast.Module) -> frozenset[str]:
    """The constants of a module that hold a sentence."""
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _CONSTANT.fullmatch(name):
                if is_sentence(_text(value)):
                    found.add(name)
            case _:
                pass
    return frozenset(found)


def _imported(tree: ast.Module, root: Path) -> frozenset[str]:
    """The constants with a sentence that a module has from others, by the names they have in it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gencode."):
            names = {each.name: each.asname or each.name for each in node.names}
            file = (root / str(node.module).replace(".", "/")).with_suffix(".py")
            if any(map(_CONSTANT.fullmatch, names)) and file.is_file():
                there = sentences_of(ast.parse(file.read_bytes()))
                found.update(here for name, here in names.items() if name in there)
    return frozenset(found)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(each) if isinstance(each, ast.Constant) else "{}" for each in parts)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return ""


def _wrapped(node: ast.expr) -> ast.expr:
    called = ast.copy_location(ast.Name("__reworded__", ast.Load()), node)
    return ast.copy_location(ast.Call(called, [node], []), node)
