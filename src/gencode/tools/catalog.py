"""The catalog of tools: default ones, those that an agent file has to name, and those of installed packages.

The module of a tool that has to be named is loaded when an agent names it. Other packages provide tools
through entry points of the group `gencode.tools`, each for one tool or several. They are loaded when a name
is not found otherwise or all tools are listed; an agent gets one only if its file names it.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gencode.agent.toolbox import LazyTool, Tool
from gencode.core.structs import replace
from gencode.tools.ask_user_question import ASK_USER_QUESTION
from gencode.tools.bash import BASH, KILL_SHELL
from gencode.tools.edit import EDIT
from gencode.tools.glob import GLOB
from gencode.tools.grep import GREP
from gencode.tools.ls import LS
from gencode.tools.read import READ
from gencode.tools.send_message import SEND_MESSAGE
from gencode.tools.start_agent import SPAWN, SPAWN_SUBAGENT, TASK
from gencode.tools.task_output import TASK_OUTPUT
from gencode.tools.task_stop import TASK_STOP
from gencode.tools.todo import TODO_WRITE
from gencode.tools.web_fetch import WEB_FETCH
from gencode.tools.web_search import WEB_SEARCH
from gencode.tools.write import WRITE

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from gencode.agent.messaging import Messaging


TOOLS = (
    TASK,
    TASK_OUTPUT,
    TASK_STOP,
    SEND_MESSAGE,
    READ,
    GLOB,
    GREP,
    LS,
    WRITE,
    EDIT,
    BASH,
    KILL_SHELL,
    WEB_FETCH,
    WEB_SEARCH,
    TODO_WRITE,
    ASK_USER_QUESTION,
    SPAWN,
    SPAWN_SUBAGENT,
)
"""The tools that every agent gets unless its file says otherwise, and those that spawn."""


_MODULES = {
    "current_time": "clock",
    "sleep": "clock",
    "get_env": "environment_variables",
    "set_env": "environment_variables",
    "get_file_info": "file_operations",
    "delete_file": "file_operations",
    "move_file": "file_operations",
    "json_parse": "data_formats",
    "json_stringify": "data_formats",
    "base64_encode": "data_formats",
    "base64_decode": "data_formats",
    "task_list": "task_history",
    "task_replay": "task_history",
    "notify": "message",
}
_HTTP = ("http_get", "http_post", "http_request")
_MESSAGING = ("message", "cron")
_MEMORY = ("memory_list", "memory_read", "memory_write", "memory_patch", "memory_append")


def on_request(
    home: Callable[[], Path], messaging: "Callable[[], Messaging | None]" = lambda: None
) -> tuple[LazyTool, ...]:
    """The tools that have to be named; `home` is the per-user folder, `messaging` sends and plans."""
    return (
        *(LazyTool(name, lambda at=module, of=name: _ready(at, of)) for name, module in _MODULES.items()),
        *(LazyTool(name, lambda of=name: _made("http_request", of)) for name in _HTTP),
        *(LazyTool(name, lambda of=name: _made("memory_notes", of, home)) for name in _MEMORY),
        *(LazyTool(name, lambda of=name: _made(of, of, messaging())) for name in _MESSAGING),
    )


def _ready(module: str, name: str) -> Tool:
    return getattr(import_module(f"gencode.tools.{module}"), name.upper())


def _made(module: str, name: str, *given: object) -> Tool:
    return getattr(import_module(f"gencode.tools.{module}"), name)(*given)


GROUP = "gencode.tools"

log = logging.getLogger(__name__)


class Plugins:
    """Loads the tools of installed packages; `warnings` say which ones could not be loaded."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def __call__(self, known: Container[str]) -> list[Tool]:
        """Every tool of installed packages whose names are not `known` yet."""
        from importlib.metadata import entry_points

        found: dict[str, Tool] = {}
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
            for tool in self._loaded(entry):
                taken = next((name for name in (tool.name, *tool.aliases) if name in known), "")
                if taken or tool.name in found:
                    self._warn(entry, f"there is already a tool {taken or tool.name}")
                else:
                    found[tool.name] = replace(tool, source="plugin", on_request=True)
        return list(found.values())

    def _loaded(self, entry: "EntryPoint") -> Iterator[Tool]:
        from concurrent.futures import ThreadPoolExecutor

        # In a thread, so that whatever a foreign package raises, a SystemExit too, is a result and no end.
        with ThreadPoolExecutor(1) as alone:
            loading = alone.submit(entry.load)
        if error := loading.exception():
            self._warn(entry, f"{type(error).__name__}: {error}")
            return
        brought: object = loading.result()
        several = cast("Iterable[object]", brought) if isinstance(brought, list | tuple) else (brought,)
        for each in several:
            if isinstance(each, Tool):
                yield each
            else:
                self._warn(entry, f"it is not a tool but a {type(each).__name__}; make it one with @tool")

    def _warn(self, entry: "EntryPoint", why: str) -> None:
        package = entry.dist.name if entry.dist else "an unknown package"
        warning = f"The tool {entry.name} ({entry.value}) of {package} is left out: {why}."
        self.warnings.append(warning)
        log.warning(warning)
