"""No sentence of ours is compared, searched or taken apart: what is decided is decided by fields.

`tests/rewording` proves the same of a running program. This finds it in the source, for whoever writes it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.house.source import Module, package

FEWEST_WORDS = 2
SEARCHES = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "partition", "rpartition"),
    *("find", "rfind", "index", "rindex", "count", "replace"),
}
PATTERNS = {"compile", "match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
_WORDS = re.compile(r"(?<![\w<>/.-])[A-Za-z][a-z']+(?=[ ,.;:?!]|\Z)")
_SQL = re.compile(r"\b(SELECT|SET|WHERE|UPDATE|WITH|INSERT)\b|\bs\.")
OLD = "gencode.core.old_events"
"""The one reader of the sentences of version 0.1."""

FOREIGN = {
    # What other programs and libraries say where they have no code for it.
    "gencode.agents.yaml_fields": ["while parsing a block"],
    "gencode.mcp.definition": ["unknown field"],
    "gencode.providers.local": ["error loading model"],
    "gencode.runtime.shape_check": ['is not a "regex"', " is not valid"],
    "gencode.runtime.worktrees.git": ["unable to write", "dubious ownership", "could not lock", "bad object"],
    "gencode.runtime.worktrees.making": [
        *("not a git repository", "bare repository", "already exists", "exists; cannot create"),
    ],
    "gencode.surfaces.acp.buffers": ["no such file"],
    "gencode.surfaces.http.wording": [
        "Object contains unknown",
        "Object missing required",
        "JSON is malformed",
    ],
    "gencode.surfaces.parser": ["argument COMMAND: invalid choice"],
    "gencode.tools.grep": ["unrecognized file type"],
    "gencode.tools.hits": ["WARNING: stopped searching binary file"],
    "gencode.tools.search_engines.duckduckgo": ["No results"],
}
"""Words that are not ours, by the module that reads them."""

NO_SENTENCES = {
    # Tables of words, and texts with a form of their own.
    "gencode.permissions.bash.findings": ["possible path", "plan guard", "plain shell"],
    "gencode.surfaces.offering": ["gen agents show", "gen cron", "gen sessions"],
}
"""Names of more than one word, by the module that compares them."""

A_MODEL = ("gencode.providers.offline", "gencode.offline_search", "gencode.testing")
"""What plays a model reads the words that a model reads, and questions in the words of people."""


def test_no_sentence_of_ours_is_compared_or_searched() -> None:
    found = [
        f"{module.name}:{line} looks for {text!r}"
        for module in package()
        if module.name != OLD and not module.name.startswith(A_MODEL)
        for line, text in looked_for(module)
        if not any(known in text for known in allowed(module))
    ]
    assert found == []


def test_every_exception_is_needed() -> None:
    needless = [
        f"{module.name}: {known!r}"
        for module in package()
        for known in allowed(module)
        if not any(known in text for _, text in looked_for(module))
    ]
    assert needless == []


def allowed(module: Module) -> list[str]:
    return [*FOREIGN.get(module.name, ()), *NO_SENTENCES.get(module.name, ())]


def is_prose(text: str) -> bool:
    return " " in text.strip() and len(_WORDS.findall(text)) >= FEWEST_WORDS and not _SQL.search(text)


def looked_for(module: Module) -> Iterator[tuple[int, str]]:
    """The texts of more than one word that a module compares with something or looks for in it."""
    for node in ast.walk(module.tree):
        for operand in operands(node):
            for text in texts(module.name, operand):
                if is_prose(text):
                    yield operand.lineno, text


def operands(node: ast.AST) -> list[ast.expr]:
    """What an expression compares or searches, or searches for."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.MatchValue(value=value):
            return [value]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[pattern, *_]):
            return [pattern] if name in PATTERNS else []
        case ast.Call(func=ast.Attribute(value=searched, attr=name), args=[sought, *_]) if name in SEARCHES:
            return [searched, sought]
        case _:
            return []


def texts(module: str, node: ast.expr) -> Iterator[str]:
    """The texts that an expression can stand for, as far as constants tell."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Constant(value=bytes(text)):
            yield text.decode("latin-1")
        case ast.JoinedStr(values=parts):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in parts)
        case ast.Tuple(elts=several) | ast.List(elts=several) | ast.Set(elts=several):
            for each in several:
                yield from texts(module, each)
        case ast.BinOp(left=left, right=right):
            yield from texts(module, left)
            yield from texts(module, right)
        case ast.Call(func=ast.Attribute(value=made), args=args):
            yield from texts(module, made)
            for each in args:
                yield from texts(module, each)
        case ast.Name(id=name):
            if (found := constants().get((module, name))) is not None:
                yield from texts(*found)
        case _:
            return


@cache
def constants() -> dict[tuple[str, str], tuple[str, ast.expr]]:
    """What a name of a module stands for, with the module that says so; also where it is imported."""
    found: dict[tuple[str, str], tuple[str, ast.expr]] = {}
    imported: dict[tuple[str, str], tuple[str, str]] = {}
    for module in package():
        for node in module.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found[module.name, name] = (module.name, value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    found[module.name, name] = (module.name, value)
                case _:
                    pass
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gencode"):
                for each in node.names:
                    imported[module.name, each.asname or each.name] = (str(node.module), each.name)
    found.update({here: found[there] for here, there in imported.items() if there in found})
    return found
