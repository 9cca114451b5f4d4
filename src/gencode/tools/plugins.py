"""tools: those that other installed packages bring, through the entry points of the group `gencode.tools`.

An entry point leads to one tool or to several. They are looked for when a name is not known otherwise or all
tools are listed, and never before; an agent gets one only when its file names it.
"""

import logging
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from gencode.runtime.toolbox import Tool

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "gencode.tools"

log = logging.getLogger(__name__)


class Plugins:
    """The tools of installed packages; `warnings` say which ones could not be had."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def __call__(self, known: Container[str]) -> list[Tool]:
        """Every tool whose names are not `known` already."""
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
