"""A place to try tools at: a workspace in a folder, and a context made by hand."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.core.messages import ToolCall, ToolResult
from gencode.core.spec import Workspace
from gencode.files.file_versions import SeenFiles
from gencode.files.safe_files import identity_of, open_for_reading
from gencode.permissions.paths import resolve


def yes(path: str) -> bool:
    """A policy that lets every file be read."""
    return bool(path)


class Desk:
    """A workspace with a tool context; `use` calls a tool the way the loop does."""

    def __init__(self, root: Path, may_read: Callable[[str], bool] = yes) -> None:
        self.root = root
        self.workspace = Workspace(root, root, root)
        self.may_read: Callable[[str], bool] = may_read
        self.seen = SeenFiles()
        self.told: list[str] = []
        self.noted: list[str] = []

    @property
    def ctx(self) -> ToolContext:
        """What a tool is handed."""
        return ToolContext(
            task="0000abcd",
            agent="main",
            call=ToolCall("c1", "", {}),
            workspace=self.workspace,
            may_read=self.may_read,
            progress=self.told.append,
            notify=self.noted.append,
            place=lambda text: resolve(text, self.workspace),
            seen=self.seen,
        )

    def write(self, **files: str | bytes) -> None:
        """Files by name; `__` in a keyword is a slash and `_` before the last part a dot."""
        for name, content in files.items():
            self.put(name.replace("__", "/").replace("_", "."), content)

    def put(self, name: str | bytes, content: str | bytes = "") -> None:
        """One file, with its folders."""
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))  # noqa: PTH118 – names that are not UTF-8
        Path(os.fsdecode(path)).parent.mkdir(parents=True, exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(content.encode() if isinstance(content, str) else content)

    def know(self, name: str) -> None:
        """The agent has read a file as it is now."""
        place = resolve(name, self.workspace)
        with open_for_reading(place) as file:
            self.seen.note(place.real, identity_of(file), "")

    async def output(self, tool: Tool, **arguments: Any) -> ToolOutput:
        """The whole output of a call."""
        return await tool.run(self.ctx, tool.parse(ToolCall("c1", tool.name, arguments)))

    async def use(self, tool: Tool, **arguments: Any) -> str:
        """What a model reads of a call."""
        return read_by_model(tool.name, await self.output(tool, **arguments))


def read_by_model(name: str, output: ToolOutput) -> str:
    """What a model reads of the output of a tool."""
    result = ToolResult("c1", name, output.text, trace=output.trace, foreign=output.foreign, note=output.note)
    return result.for_model
