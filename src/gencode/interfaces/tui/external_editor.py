"""The person's own editor in the place of the app, for a file or for the prompt; agents go on meanwhile."""

import asyncio
import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from gencode.core.errors import UserMistake

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

LARGEST_PROMPT = 2_000_000


async def edit_file(app: "TerminalApp", path: str) -> None:
    """Open a file in the editor, until that ends."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi") or ["vi"]
    app.lent = True
    try:
        with app.batch_update(), app.suspend():  # nothing is painted into the editor
            process = await asyncio.create_subprocess_exec(*editor, path)
            await process.wait()
    except SuspendNotSupported:
        raise UserMistake(f"Cannot open an editor here. Edit {path} yourself.") from None
    except OSError as error:
        raise UserMistake(
            f"Cannot start the editor {editor[0]}: {error.strerror}. Set EDITOR to another one."
        ) from None
    finally:
        app.lent = False
        app.refresh(layout=True)


async def edit_text(app: "TerminalApp", text: str) -> str:
    """A text as the editor leaves it."""
    with tempfile.TemporaryDirectory(prefix="gen-prompt-") as folder:
        file = _written(Path(folder, "prompt.md"), text)
        await edit_file(app, str(file))
        return _read(file)


def _written(file: Path, text: str) -> Path:
    file.write_text(text, "utf-8")
    return file


def _read(file: Path) -> str:
    with file.open("rb") as written:
        return written.read(LARGEST_PROMPT).decode("utf-8", "replace").rstrip("\n")
