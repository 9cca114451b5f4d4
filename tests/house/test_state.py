"""Nothing is shared by all GenCodes of a process: no module keeps what happened in one of them."""

import ast
import re
from collections.abc import Iterator

from tests.house.source import Module, package

GROWING = {
    *("dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray", "ContextVar"),
    *("WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "Lock", "Event", "Queue", "count", "local"),
}
"""Whatever of these a module makes empty is there to be filled."""

OF_A_LOOP = {
    "gencode.providers.endpoint": "the connections of an event loop, without cookies; requests carry keys",
    "gencode.providers.local": "the models in memory of an event loop",
    "gencode.providers.pydantic_ai": "the connections of an event loop",
    "gencode.tools.file_search": "how many searches run at once in an event loop",
}
"""What is shared on purpose: handles of one event loop that know nothing of any GenCode."""


def values(module: Module) -> Iterator[ast.expr]:
    """What a module binds to its own names when it is loaded."""
    for node in module.tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None:
            yield value


def is_to_be_filled(value: ast.expr) -> bool:
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=function, args=[]):
            return ast.unparse(function).rpartition(".")[2] in GROWING
        case _:
            return False


def test_no_module_has_something_to_be_filled() -> None:
    found = [
        f"{module.name}:{value.lineno}"
        for module in package()
        for value in values(module)
        if is_to_be_filled(value) and module.name not in OF_A_LOOP
    ]
    assert found == []


def test_no_function_changes_what_its_module_is() -> None:
    found = [module.name for module in package() if re.search(r"^ +global \w", module.text, re.M)]
    assert found == []
