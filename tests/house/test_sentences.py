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
_HEADING = re.compile(r"[A-Za-z]{3,}[:.\])]?[ \n]|[ \n][A-Za-z]{3,}")
"""A word that is set off: a heading, a label, the beginning or the end of a sentence."""
_SYNTAX = re.compile(r"\(\?P<\w+>|\(\?[a-z]+\)|\\.|\[\^?\]?[^\]]*\]")
"""What stands for other text in a pattern."""
_SQL = re.compile(r"\b(SELECT|SET|WHERE|UPDATE|WITH|INSERT)\b|\bs\.")
OLD = "gencode.core.old_events"
"""The one reader of the sentences of version 0.1."""

FOREIGN = {
    # What other programs and libraries say where they have no code for it, and models.
    "gencode.agents.yaml_reader": ["while parsing a block"],
    "gencode.mcp.definition": ["unknown field"],
    "gencode.agent.model_names": ["claude", "mini"],
    "gencode.providers.local": ["error loading model"],
    "gencode.providers.http_pool": ["[Errno "],
    "gencode.agent.unfinished_reply": ["you", "if|", "now|"],
    "gencode.agent.schema_checker": ['is not a "regex"', " is not valid"],
    "gencode.workspaces.transfer.excluded_files": ["PRIVATE KEY"],
    "gencode.sandbox.processes.git_programs": [" missing"],
    "gencode.workspaces.worktrees.git": [
        "unable to write",
        "dubious ownership",
        "could not lock",
        "bad object",
    ],
    "gencode.workspaces.worktrees.create": [
        "not a git repository",
        "bare repository",
        "already exists",
        "exists; cannot create",
        "gitdir: ",
    ],
    "gencode.workspaces.worktrees.leftovers": ["gitdir: "],
    "gencode.workspaces.worktrees.agent_work": ["gitdir: "],
    "gencode.interfaces.acp.editor_files": ["no such file"],
    "gencode.interfaces.http.validation": [
        "Object contains unknown",
        "Object missing required",
        "JSON is malformed",
    ],
    "gencode.interfaces.cli.parser": [": invalid choice: "],
    "gencode.agent.agent_environment": ["# branch.head "],
    "gencode.tools.ignore_files": ["gitdir: "],
    "gencode.tools.grep": ["unrecognized file type"],
    "gencode.tools.search_records": ["WARNING: stopped searching binary file"],
    "gencode.tools.search_engines.duckduckgo": ["No results"],
    "gencode.web.response_text": ["<!--"],
    "gencode.stores.pg_pool": ["in progress"],
}
"""Words that are not ours, by the module that reads them."""

NO_SENTENCES = {
    # Tables of words, and texts with a form of their own.
    "gencode.sandbox.processes.environment": ["API_?KEYS", "github_pat_"],
    "gencode.permissions.bash.reasons": ["possible path", "plan guard", "plain shell"],
    "gencode.interfaces.cli.completions": ["gen agents show", "gen cron", "gen sessions"],
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


def is_heading(text: str) -> bool:
    """Whether a text that is looked for in others is more than a sign or a name: one word can be enough."""
    return _HEADING.search(text) is not None and not _SQL.search(text)


def looked_for(module: Module) -> Iterator[tuple[int, str]]:
    """The texts of ours that a module compares with something, looks for in it, or takes it apart by."""
    for node in ast.walk(module.tree):
        for operand in (*compared(node), *searched(node)):
            yield from ((operand.lineno, text) for text in texts(module.name, operand) if is_prose(text))
        for operand in searched(node):
            yield from ((operand.lineno, text) for text in texts(module.name, operand) if is_heading(text))
        for operand in patterns(node):
            for text in texts(module.name, operand):
                if is_prose(text) or is_heading(_SYNTAX.sub("", text)):
                    yield operand.lineno, text


def compared(node: ast.AST) -> list[ast.expr]:
    """What an expression compares as a whole."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.MatchValue(value=value):
            return [value]
        case _:
            return []


def searched(node: ast.AST) -> list[ast.expr]:
    """What an expression searches or takes apart, and what it looks for."""
    match node:
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[other]):
            several = isinstance(other, ast.Tuple | ast.List | ast.Set)
            return [] if several else [left, other]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))):
            return []
        case ast.Call(func=ast.Attribute(value=text, attr=name), args=[sought, *_]) if name in SEARCHES:
            return [text, sought]
        case _:
            return []


def patterns(node: ast.AST) -> list[ast.expr]:
    """The regular expressions in an expression."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[pattern, *_]):
            return [pattern] if name in PATTERNS else []
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
            yield "".join(part_of(module, each) for each in parts)
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
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            if (found := constants().get((modules_named().get((module, owner), ""), name))) is not None:
                yield from texts(*found)
        case _:
            return


def part_of(module: str, node: ast.expr) -> str:
    """A piece of a formatted string, with what a constant of ours puts there."""
    match node:
        case ast.Constant(value=text):
            return str(text)
        case ast.FormattedValue(value=ast.Name() | ast.Attribute() as value):
            return next(texts(module, value), "…")
        case _:
            return "…"


@cache
def modules_named() -> dict[tuple[str, str], str]:
    """What module of ours a name of a module stands for."""
    return {
        (module.name, each.asname or each.name): f"{node.module}.{each.name}"
        for module in package()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gencode")
        for each in node.names
    }


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
