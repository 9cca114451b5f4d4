"""The tests themselves: each can fail, and none of them tests a mock."""

import ast
import re

import hypothesis

from tests.house.source import FunctionNode, Module, imports, python_files


def our_tests() -> list[Module]:
    return [module for module in python_files() if module.name.startswith("tests/")]


def test_every_test_can_fail() -> None:
    idle = [
        name
        for module in our_tests()
        for checking in (checking_functions(module),)
        for name, function in module.functions()
        if function.name.startswith("test_") and not asserts(function, checking)
    ]
    assert idle == []


def test_every_test_is_found_by_pytest() -> None:
    """A test in a file with the wrong name never runs; contracts are imported by the tests of their port."""
    lost = [
        name
        for module in our_tests()
        if not module.path.name.startswith("test_") and "contracts" not in module.path.parts
        for name, function in module.functions()
        if function.name.startswith("test_")
    ]
    assert lost == []


def test_nothing_is_mocked() -> None:
    mocked = [
        f"{module.name}:{each.line}"
        for module in our_tests()
        for each in imports(module)
        if each.target in {"mock", "unittest.mock", "pytest_mock"}
    ]
    assert mocked == []


def test_no_test_file_is_imported_by_another() -> None:
    """What two of them share lies in a module with a plain name, so that either can go."""
    shared = [
        f"{module.name}:{each.line}"
        for module in our_tests()
        for each in imports(module)
        if re.search(r"^tests\.(?:\w+\.)*test_\w+$", each.target)
    ]
    assert shared == []


def test_no_property_is_timed() -> None:
    """A machine under load is slow, and that breaks no rule: the profile of conftest.py has no deadline."""
    timed = [
        f"{module.name}:{node.lineno}"
        for module in our_tests()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.keyword) and node.arg == "deadline" and ast.unparse(node.value) != "None"
    ]
    assert (hypothesis.settings().deadline, timed) == (None, [])


def checking_functions(module: Module) -> set[str]:
    """The functions of a test file that assert, so that calling them is a check."""
    return {
        function.name
        for _, function in module.functions()
        if not function.name.startswith("test_") and asserts(function, set())
    }


def asserts(function: FunctionNode, checking: set[str]) -> bool:
    return any(is_check(node, checking) for node in ast.walk(function))


def is_check(node: ast.AST, checking: set[str]) -> bool:
    match node:
        case ast.Assert():
            return not isinstance(node.test, ast.Constant)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="raises" | "warns" | "fail")):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in checking or name.startswith("assert_")
        case _:
            return False
