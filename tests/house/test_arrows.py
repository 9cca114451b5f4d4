"""Imports point one way, and what is heavy is not loaded before it is needed."""

import re

import pytest

from tests.house.source import Module, exists, imports, package

ROOMS = [
    *("core", "permissions", "budgets", "web", "channels", "schedule", "journal", "questions", "files"),
    *("sandbox", "workspaces", "agent", "sessions", "tasks"),
]
"""From the lowest to the highest: each imports itself and what stands before it."""
RACKS = ["agents", "tools", "providers", "stores", "mcp", "telemetry"]
"""What ports are implemented by: each imports itself and the rooms up to `agent`, never another rack."""
ENTRY = {"__init__", "__main__"}
_BELOW_TASKS = {*ROOMS[: ROOMS.index("sessions")]}
_ALL = {*ROOMS, *RACKS, "offline_search", "settings", "places", "fleet", "app"}

ALLOWED: dict[str, set[str]] = {
    **{room: {*ROOMS[: ROOMS.index(room)], room} for room in ROOMS},
    **{rack: {*_BELOW_TASKS, rack} for rack in RACKS},
    "providers": {*_BELOW_TASKS, "offline_search", "providers"},
    "offline_search": {"offline_search"},
    "settings": {"core", "permissions", "settings"},
    "places": {"core", "settings", "places"},
    "fleet": {*ROOMS, "stores", "fleet"},
    "app": {*_ALL, "wiring"},
    "wiring": _ALL - {"app"},
    "testing": {*_ALL, "testing"},
    "interfaces": {*ROOMS, "settings", "places", "fleet", "app", "interfaces"} - {"sessions", "web"},
    "__main__": {"core", "app", "interfaces"},
    "__init__": {*ROOMS, "app"},
}
WIRING = {"gencode.fleet.worker", "gencode.fleet.worker_folder"}
"""Put a worker together, as `app` does an open GenCode."""

BEHIND_THE_API = {
    "gencode.journal.event_bus",
    "gencode.permissions.chain",
    "gencode.tasks.crash_recovery",
    "gencode.tasks.delegate",
    "gencode.tasks.liveness",
    "gencode.tasks.plan",
    "gencode.tasks.records",
    "gencode.tasks.service",
    "gencode.tasks.start",
    "gencode.tasks.supervisor",
    "gencode.tasks.task_folders",
    "gencode.tasks.task_parts",
}
"""What an open GenCode is made of; interfaces reach it through the public API. Pyright checks `_parts`."""

HEAVY: dict[str, tuple[str, ...]] = {
    "rich": ("gencode.interfaces",),
    "textual": ("gencode.interfaces.tui",),
    "starlette": ("gencode.interfaces",),
    "uvicorn": ("gencode.interfaces",),
    "mcp": ("gencode.interfaces", "gencode.tools"),
    "acp": ("gencode.interfaces",),
    "aiohttp": ("gencode.web", "gencode.mcp.streamable_http"),
    "httptools": ("gencode.providers",),
    "httpx": ("gencode.providers",),
    "asyncpg": ("gencode.stores",),
    "pgqueuer": ("gencode.fleet",),
    "opentelemetry": ("gencode.telemetry",),
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
        if top(each.target) == "gencode"
        and room_of(each.target)
        not in {*(_ALL if module.name in WIRING else ALLOWED[module.room]), "__init__"}
    ]
    assert up == []


def test_interfaces_use_the_public_api() -> None:
    """What the terminal app needs, a program may have too."""
    assert all(map(exists, BEHIND_THE_API))
    behind = [
        f"{module.name}:{each.line} imports {each.target}"
        for module in package()
        if module.room == "interfaces"
        for each in imports(module)
        if each.target in BEHIND_THE_API
        or re.search(r"\bimport .*\bcomponents\b", line_of(module, each.line))
    ]
    assert behind == []


def line_of(module: Module, line: int) -> str:
    return module.text.splitlines()[line - 1]


def test_only_the_entry_takes_names_from_the_package_itself() -> None:
    """`from gencode import …` below the app would load the app; only the version may be read so."""
    taken = [
        f"{module.name}:{each.line}"
        for module in package()
        if module.room not in {*ENTRY, "interfaces", "app", "fleet"}
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
