"""Roots: how far the folders of a client narrow the one this server was started for (MCP server)."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gencode.core.errors import UserMistake
from gencode.core.text import exact_line

HERE = ("", "localhost")
MOST_SHOWN = 5


def folder_of(uri: str) -> Path | None:
    """The folder behind a `file://` address, every link followed; None for anything else."""
    try:
        parts = urlsplit(uri)
        path = Path(unquote(parts.path, errors="surrogateescape"))
        if parts.scheme.casefold() != "file" or parts.netloc not in HERE or not path.is_absolute():
            return None
        return path.resolve()
    except (ValueError, OSError, RuntimeError):  # no address, a null byte, links in a circle
        return None


def bounded(base: Path, roots: Sequence[str]) -> Path:
    """The folder to work in: what `base` and the client's roots have in common.

    A root around `base` changes nothing, one inside it narrows (the first of several), any other is refused.
    """
    folders = [folder for uri in roots if (folder := folder_of(uri)) is not None]
    if not roots or any(base.is_relative_to(folder) for folder in folders):
        return base
    inside = [folder for folder in folders if folder.is_relative_to(base) and folder.is_dir()]
    if inside:
        return inside[0]
    named = ", ".join(exact_line(uri)[:200] for uri in roots[:MOST_SHOWN])
    if any(folder.is_relative_to(base) for folder in folders):
        raise UserMistake(
            f"None of the roots of this client ({named}) is a folder; a root is a folder in {base}."
        )
    raise UserMistake(
        f"The roots of this client ({named}) lie outside of {base}, the folder that gen mcp was started for; "
        "start it with --cwd and a folder that holds them."
    )
