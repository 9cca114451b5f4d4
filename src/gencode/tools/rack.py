"""tools: those that have to be named, by the module that holds each; none is loaded before one names it."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from gencode.runtime.secretary import Secretary
from gencode.runtime.toolbox import Shelved, Tool

_READY = {
    "current_time": "current_time",
    "sleep": "sleep",
    "get_env": "environment",
    "set_env": "environment",
    "get_file_info": "file_info",
    "delete_file": "moving",
    "move_file": "moving",
    "json_parse": "json_text",
    "json_stringify": "json_text",
    "base64_encode": "base64_text",
    "base64_decode": "base64_text",
    "task_list": "own_tasks",
    "task_replay": "own_tasks",
    "notify": "notify",
}
_HTTP = ("http_get", "http_post", "http_request")
_SECRETARYS = ("message", "cron")
_MEMORY = ("memory_list", "memory_read", "memory_write", "memory_patch", "memory_append")


def on_request(home: Callable[[], Path], secretary: Secretary | None = None) -> tuple[Shelved, ...]:
    """The tools that have to be named; `home` is the per-user folder, `secretary` writes and plans."""
    return (
        *(Shelved(name, lambda at=module, of=name: _ready(at, of)) for name, module in _READY.items()),
        *(Shelved(name, lambda of=name: _made("http", of)) for name in _HTTP),
        *(Shelved(name, lambda of=name: _made("memory", of, home)) for name in _MEMORY),
        *(Shelved(name, lambda of=name: _made(of, of, secretary)) for name in _SECRETARYS),
    )


def _ready(module: str, name: str) -> Tool:
    return getattr(import_module(f"gencode.tools.{module}"), name.upper())


def _made(module: str, name: str, *given: object) -> Tool:
    return getattr(import_module(f"gencode.tools.{module}"), name)(*given)
