"""Imports point one way, and what is heavy is not loaded before it is needed."""

import pytest

from tests.house.source import Module, exists, imports, package

LINE = ["core", "permissions", "budgets", "runtime", "delegation", "questions"]
RACKS = ["agents", "tools", "providers", "stores", "engines", "mcp", "telemetry"]
ENTRY = {"__init__", "__main__"}

ALLOWED: dict[str, set[str]] = {
    **{room: {*LINE[: LINE.index(room)], room} for room in LINE},
    "budgets": {"core", "budgets"},
    **{rack: {"core", "permissions", "budgets", "runtime", rack} for rack in RACKS},
    "tools": {"core", "permissions", "budgets", "runtime", "web", "tools"},
    "web": {"core", "web"},
    "offline_search": {"offline_search"},
    "providers": {"core", "permissions", "budgets", "runtime", "offline_search", "providers"},
    "settings": {"core", "permissions", "settings"},
    "places": {"core", "settings", "places"},
    "app": {*LINE, *RACKS, "settings", "places", "app"},
    "room": {*LINE, *RACKS, "app", "room"},
    "fleet": {*LINE, *RACKS, "app", "room", "fleet"},
    "testing": {*LINE, *RACKS, "settings", "app", "testing"},
    "surfaces": {*LINE, "settings", "places", "app", "fleet", "surfaces"},
    "__main__": {"core", "app", "surfaces"},
    "__init__": {*LINE, "app"},
}

HEAVY: dict[str, tuple[str, ...]] = {
    "rich": ("gencode.interfaces",),
    "textual": ("gencode.interfaces.tui",),
    "starlette": ("gencode.interfaces",),
    "uvicorn": ("gencode.interfaces",),
    "mcp": ("gencode.interfaces", "gencode.tools"),
    "acp": ("gencode.interfaces",),
    "aiohttp": ("gencode.web.client", "gencode.mcp.streamable_http"),
    "httptools": ("gencode.providers.http_connection",),
    "httpx": ("gencode.providers",),
    "asyncpg": ("gencode.stores",),
    "pgqueuer": ("gencode.engines",),
    "opentelemetry": ("gencode.telemetry.exporter",),
}

NOT_IN_CORE = {"asyncio", "io", "shutil", "socket", "sqlite3", "subprocess", "tempfile", "threading"}


def room_of(target: str) -> str:
    return target.split(".")[1] if "." in target else "__init__"


def top(target: str) -> str:
    return target.split(".")[0]


@pytest.mark.parametrize("module", package(), ids=lambda module: module.name)
def test_imports_point_down(module: Module) -> None:
    up = [
        f"{module.path.name}:{each.line} imports {each.target}"
        for each in imports(module)
        if top(each.target) == "gencode" and room_of(each.target) not in {*ALLOWED[module.room], "__init__"}
    ]
    assert up == []


def test_only_the_entry_takes_names_from_the_package_itself() -> None:
    """`from gencode import …` below the app would load the app; only the version may be read so."""
    taken = [
        f"{module.name}:{each.line}"
        for module in package()
        if module.room not in {*ENTRY, "surfaces", "app", "fleet"}
        for each in imports(module)
        if each.target == "gencode"
        and module.text.splitlines()[each.line - 1] != "from gencode import __version__"
    ]
    assert taken == []


def test_heavy_libraries_stay_where_they_are_needed() -> None:
    astray = [
        f"{module.name}:{each.line} imports {each.target}"
        for module in package()
        for each in imports(module)
        if top(each.target) in HEAVY and not module.name.startswith(HEAVY[top(each.target)])
    ]
    assert astray == []


@pytest.mark.parametrize("start", ["gencode.app", "gencode.interfaces.cli.main", "gencode.testing"])
def test_nothing_heavy_is_loaded_at_the_start(start: str) -> None:
    assert exists(start)
    assert sorted(HEAVY.keys() & loaded_with(start)) == []


def test_core_does_no_io_and_nothing_async() -> None:
    reached = [
        f"{module.name}:{each.line} imports {each.target}"
        for module in package()
        if module.room == "core"
        for each in imports(module)
        if top(each.target) in NOT_IN_CORE
    ]
    assert reached == []


def loaded_with(start: str) -> set[str]:
    """The top-level packages that importing `start` brings, through our own modules."""
    modules = {module.name: module for module in package()}
    seen: set[str] = set()
    foreign: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in modules:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        for each in imports(modules[name]):
            if not each.at_start:
                continue
            if top(each.target) == "gencode":
                waiting.append(each.target)
            else:
                foreign.add(top(each.target))
    return foreign
