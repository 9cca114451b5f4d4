"""Files, functions and signatures stay small enough to read in one breath."""

import ast

from tests.house.source import FunctionNode, python_files

FILE_LINES = 400
FUNCTION_LINES = 50
PARAMETERS = 7

# What is still too big, and how big it may be. The list only shrinks: an entry that is no longer needed, or
# that could be lower, fails.
STILL_TOO_BIG: dict[str, int] = {}


def sizes() -> dict[str, tuple[int, int]]:
    """Every file, function and signature with its size and its limit."""
    found: dict[str, tuple[int, int]] = {}
    for module in python_files():
        found[module.name] = (module.text.count("\n"), FILE_LINES)
        for name, function in module.functions():
            found[f"{name}()"] = (lines(function), FUNCTION_LINES)
            if not is_tool(function):
                found[f"{name}(…)"] = (parameters(function), PARAMETERS)
    return found


def is_tool(function: FunctionNode) -> bool:
    """A tool's signature is the schema a model sees, and models know it from elsewhere."""
    return any(ast.unparse(each).startswith("tool(") for each in function.decorator_list)


def lines(function: FunctionNode) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: FunctionNode) -> int:
    spec = function.args
    named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    own = sum(argument.arg in {"self", "cls"} for argument in named[:1])
    return len(named) - own + sum(isinstance(each, ast.arg) for each in (spec.vararg, spec.kwarg))


def test_nothing_is_too_big() -> None:
    too_big = {name: size for name, (size, limit) in sizes().items() if size > STILL_TOO_BIG.get(name, limit)}
    assert too_big == {}


def test_the_exceptions_are_still_needed_and_as_low_as_they_can_be() -> None:
    found = sizes()
    wrong = {
        name: found.get(name)
        for name, allowed in STILL_TOO_BIG.items()
        if name not in found or found[name][0] != allowed or allowed <= found[name][1]
    }
    assert wrong == {}
