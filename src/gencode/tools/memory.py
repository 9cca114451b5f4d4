"""tools: memory_list, memory_read, memory_write, memory_patch and memory_append, notes that last."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, get_args

from msgspec import Meta

from gencode.core.errors import ToolError
from gencode.runtime.toolbox import Param, Tool, ToolContext, tool
from gencode.tools.changes import run_to_completion
from gencode.tools.files import size_text
from gencode.tools.notes import LARGEST, NoteFolder, Scope, clean_name, folder_of
from gencode.tools.replacing import Edit, edited
from gencode.tools.textfile import TextFile, checked, counted

Home = Callable[[], Path]
"""Where the per-user folder is."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
Name = Annotated[str, Param("Such as build-steps", also=("path", "key", "file"))]
Where = Annotated[Scope, "user: everywhere; project: in this workspace; agent: for agents of your name"]
Content = Annotated[str, Meta(max_length=LARGEST), Param("Markdown", also=("text",))]


def memory_list(home: Home) -> Tool:
    """memory_list over the notes below a folder."""

    @tool(effect="read", name="memory_list", on_request=True)
    async def run(
        ctx: ToolContext, scope: Annotated[Scope | None, "Only these; all three if left out"] = None
    ) -> str:
        """List the notes that were kept, with their size and when they were changed last."""
        return await asyncio.to_thread(_listed, ctx, home(), (scope,) if scope else SCOPES)

    return run


def memory_read(home: Home) -> Tool:
    """memory_read over the notes below a folder."""

    @tool(effect="read", name="memory_read", on_request=True)
    async def run(ctx: ToolContext, name: Name, scope: Where = "project") -> str:
        """Read a note. It is what an agent once wrote down: check what matters."""
        title, folder = clean_name(name), _folder(ctx, home, scope)
        text = await asyncio.to_thread(folder.read, title)
        if text is None:
            raise await asyncio.to_thread(_missing, folder, title, scope)
        return text or f"The note {title} is empty."

    return run


def memory_write(home: Home) -> Tool:
    """memory_write over the notes below a folder."""

    @tool(effect="write", name="memory_write", on_request=True)
    async def run(ctx: ToolContext, name: Name, content: Content, scope: Where = "project") -> str:
        """Keep a note for later tasks: a new one, or all of one anew."""
        title, text = clean_name(name), checked(content, "content")
        return await _changed(_folder(ctx, home, scope), title, scope, lambda _: text)

    return run


def memory_patch(home: Home) -> Tool:
    """memory_patch over the notes below a folder."""

    @tool(effect="write", name="memory_patch", on_request=True)
    async def run(
        ctx: ToolContext,
        name: Name,
        old_string: Annotated[str, Param("The exact text", also=("old_text", "old"))],
        new_string: Annotated[str, Param("What replaces it", also=("new_text", "new"))],
        replace_all: Annotated[bool, "Wherever it is; else it must be there once"] = False,
        scope: Where = "project",
    ) -> str:
        """Replace exact text in a note."""
        title, folder = clean_name(name), _folder(ctx, home, scope)
        edit = Edit(old_string, new_string, replace_all)

        def patched(before: str | None) -> str:
            if before is None:
                raise _missing(folder, title, scope)
            return edited(TextFile(before), (edit,), title, lambda: None).text

        return await _changed(folder, title, scope, patched)

    return run


def memory_append(home: Home) -> Tool:
    """memory_append over the notes below a folder."""

    @tool(effect="write", name="memory_append", on_request=True)
    async def run(ctx: ToolContext, name: Name, content: Content, scope: Where = "project") -> str:
        """Add lines at the end of a note, which is begun if there is none."""
        title, text = clean_name(name), checked(content, "content")
        if not text.strip():
            raise ToolError("The content is empty; say what to add.")

        def longer(before: str | None) -> str:
            between = "\n" if before and not before.endswith("\n") else ""
            return f"{before or ''}{between}{text}{'' if text.endswith(chr(10)) else chr(10)}"

        return await _changed(_folder(ctx, home, scope), title, scope, longer)

    return run


def _folder(ctx: ToolContext, home: Home, scope: Scope) -> NoteFolder:
    return folder_of(home(), scope, ctx.workspace, ctx.agent)


async def _changed(folder: NoteFolder, title: str, scope: Scope, make: Callable[[str | None], str]) -> str:
    existed: list[bool] = []

    def remembering(before: str | None) -> str:
        existed.append(before is not None)
        return make(before)

    text = await run_to_completion(lambda _: folder.change(title, remembering))
    done = "Changed" if existed[0] else "Began"
    return f"{done} the note {title} ({scope}): {size_text(len(text.encode()))}."


def _listed(ctx: ToolContext, home: Path, scopes: tuple[Scope, ...]) -> str:
    lines: list[str] = []
    for scope in scopes:
        notes = folder_of(home, scope, ctx.workspace, ctx.agent).notes()
        lines.append(f"{scope}: {counted(len(notes), 'note')}")
        for note in notes:
            changed = datetime.fromtimestamp(note.changed, UTC)
            lines.append(f"  {note.name} ({size_text(note.size)}, {changed:%Y-%m-%d %H:%MZ})")
    return "\n".join(lines)


def _missing(folder: NoteFolder, title: str, scope: Scope) -> ToolError:
    names = ", ".join(note.name for note in folder.notes()) or "none"
    return ToolError(f"There is no note {title} for the scope {scope}. There are: {names}.")
