"""How tests compare sentences that may be reworded: by their form, which pseudo-text keeps.

The form of a text is where its letters stand, and everything else as it is. Only a text of more than one word
is compared so, and only where a test says what is: names, ids, numbers and everything else stay as they are.
"""

import ast
import re
from string import ascii_letters
from typing import Any, cast

from pseudo_text import SEARCHES

_WORDS = re.compile(r"(?<![\w<>/.-])[A-Za-z][a-z']+(?=[\s,.;:?!)]|\Z)")
_COMPARED: dict[type[ast.cmpop], str] = {ast.Eq: "==", ast.In: "in", ast.NotIn: "not in"}
_FORM = str.maketrans(ascii_letters, "x" * 26 + "X" * 26)
_FORM_OF_BYTES = bytes.maketrans(ascii_letters.encode(), b"x" * 26 + b"X" * 26)


def changed(tree: ast.Module) -> ast.Module:
    """A module of tests that compares sentences by their form."""
    return ast.fix_missing_locations(Comparing().visit(tree))


def form(text: Any) -> Any:
    """What a text has in common with its rewordings, letter by letter; of several texts each."""
    if isinstance(text, tuple):
        return tuple(map(form, cast("tuple[Any, ...]", text)))
    return text.translate(_FORM if isinstance(text, str) else _FORM_OF_BYTES)


def formed(value: Any, like: Any = None) -> Any:
    """A value that is compared with another one, with the form in place of each text of several words."""
    if isinstance(value, str | bytes):
        return form(value) if _is_words(like) or _is_words(value) else value
    if isinstance(value, dict):
        return {key: formed(each) for key, each in cast("dict[Any, Any]", value).items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(formed, value))
    for names in ("_fields", "__struct_fields__", "__dataclass_fields__"):  # a record
        if not isinstance(value, type) and (fields := getattr(value, names, None)):
            return (type(value), *[formed(getattr(value, name)) for name in fields])
    return value


def compared(left: Any, how: str, right: Any) -> bool:
    """`left == right`, `left in right` or `left not in right`; two words may have the form of others."""
    if how == "==":
        return bool(formed(left, right) == formed(right, left))
    if how == "not in":
        return not compared(left, "in", right) if _is_words(left, 3) else left not in right
    if isinstance(right, str | bytes):
        return form(left) in form(right) if _is_words(left) else left in cast("Any", right)
    return formed(left) in formed(right)


def searched(text: Any, how: str, *args: Any) -> Any:
    """`text.startswith(…)` and the like."""
    sought = args[0] if args else None
    several = cast("tuple[Any, ...]", sought) if isinstance(sought, tuple) else (sought,)
    if not isinstance(text, str | bytes) or not any(map(_is_words, several)):
        return getattr(text, how)(*args)
    found = getattr(form(text), how)
    match how:
        case "removeprefix":
            return text[len(text) - len(found(form(sought))) :]
        case "removesuffix":
            return text[: len(found(form(sought)))]
        case "replace":
            return args[1].join(searched(text, "split", sought))
        case "split" | "rsplit":
            return _cut(text, found(form(sought), *args[1:]), len(cast("Any", sought)))
        case "partition" | "rpartition":
            return _cut(text, found(form(sought)), 0)
        case _:
            return found(form(sought), *args[1:])


def matched(pattern: Any) -> Any:
    """A pattern for whatever words are in the place of these."""
    return re.sub(r"(?<!\\)[A-Za-z]+", "[A-Za-z]+", pattern) if _is_words(pattern) else pattern


def _is_words(value: object, least: int = 2) -> bool:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return isinstance(value, str) and len(_WORDS.findall(value)) >= least


def _cut(text: Any, pieces: Any, between: int) -> Any:
    """A text in pieces that are as long as these."""
    at, found = 0, list[Any]()
    for piece in pieces:
        found.append(text[at : at + len(piece)])
        at += len(piece) + between
    return type(pieces)(found)


class Comparing(ast.NodeTransformer):
    """Lets one module compare sentences by their form."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or (how := _COMPARED.get(type(node.ops[0]))) is None:
            return node
        return _call("compared", node, [node.left, ast.Constant(how), *node.comparators])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        for each in node.keywords:
            if each.arg == "match":
                each.value = _call("matched", each.value, [each.value])
        if isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES and not node.keywords:
            return _call("searched", node, [node.func.value, ast.Constant(node.func.attr), *node.args])
        return node


def _call(name: str, node: ast.expr, args: list[ast.expr]) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(f"__{name}__", ast.Load()), args, []), node)
