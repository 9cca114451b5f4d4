"""What the code never does, whoever asks for it."""

import ast
import re
from collections.abc import Iterator

from tests.house.source import Module, imports, package

BROAD = {"Exception", "BaseException"}
# The tool call, the task, main.
BROAD_PLACES = {
    "gencode.agent.tool_calls",
    "gencode.tasks.supervisor",
    "gencode.interfaces.cli.main",
    "gencode.interfaces.chat.notices",
    "gencode.interfaces.http.endpoints",
    "gencode.interfaces.acp.agent",
    "gencode.interfaces.mcp_server.server",
}

NEVER_IMPORTED = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
NEVER_CALLED = {
    *(
        "eval",
        "exec",
        "__import__",
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
    ),
    *("asyncio.create_subprocess_shell", "create_subprocess_shell", "tempfile.mktemp"),
    *("yaml.unsafe_load", "yaml.full_load", "yaml.unsafe_load_all", "yaml.full_load_all"),
}
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|WITH|ATTACH)\s", re.IGNORECASE)
RUNS_SQL = {"execute", "executemany", "executescript", "fetch", "fetchrow", "fetchval"}


def calls(module: Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))


def at(module: Module, node: ast.expr | ast.excepthandler) -> str:
    return f"{module.name}:{node.lineno}"


def test_broad_excepts_are_at_the_borders_and_nowhere_else() -> None:
    found = [module.name for module in package() for node in ast.walk(module.tree) if is_broad(node)]
    assert len(found) <= len(BROAD_PLACES)
    assert set(found) <= BROAD_PLACES


def test_nothing_is_unpickled() -> None:
    found = [
        f"{module.name}:{each.line} imports {each.target}"
        for module in package()
        for each in imports(module)
        if each.target.split(".")[0] in NEVER_IMPORTED
    ]
    assert found == []


def test_nothing_is_evaluated_or_handed_to_a_shell() -> None:
    found = [
        f"{at(module, call)} {ast.unparse(call.func)}"
        for module in package()
        for call in calls(module)
        if ast.unparse(call.func) in NEVER_CALLED or goes_through_a_shell(call)
    ]
    assert found == []


def test_yaml_is_loaded_with_a_loader_of_our_choice() -> None:
    found = [
        at(module, call)
        for module in package()
        for call in calls(module)
        if ast.unparse(call.func) in {"yaml.load", "yaml.load_all"}
        and not any(keyword.arg == "Loader" for keyword in call.keywords)
    ]
    assert found == []


def test_sql_is_never_put_together_from_pieces() -> None:
    found = [
        f"{at(module, node)} {ast.unparse(node)[:60]}"
        for module in package()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.expr) and is_assembled_sql(node)
    ]
    assert found == []


def is_broad(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=None):
            return True
        case ast.ExceptHandler(type=ast.Tuple(elts=kinds)):
            return any(ast.unparse(kind) in BROAD for kind in kinds)
        case ast.ExceptHandler(type=ast.expr() as kind):
            return ast.unparse(kind) in BROAD
        case ast.Call(func=function, args=kinds) if ast.unparse(function).endswith("suppress"):
            return any(ast.unparse(kind) in BROAD for kind in kinds)
        case _:
            return False


def goes_through_a_shell(call: ast.Call) -> bool:
    return any(
        keyword.arg == "shell"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        for keyword in call.keywords
    )


def is_assembled_sql(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[query, *_]) if name in RUNS_SQL:
            return is_assembled(query)
        case _:
            return is_assembled(node) and SQL.match(beginning(node)) is not None


def is_assembled(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mod()):
            return isinstance(left, ast.Constant | ast.JoinedStr | ast.BinOp | ast.Name)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format" | "join")):
            return True
        case _:
            return False


def beginning(node: ast.expr) -> str:
    """The literal text an assembled string starts with."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[first, *_]):
            return beginning(first)
        case ast.BinOp(left=left):
            return beginning(left)
        case ast.Call(func=ast.Attribute(value=value)):
            return beginning(value)
        case _:
            return ""
