"""Paths: the database, the output files, and the workspace at a folder."""

import errno
import os
from pathlib import Path

from gencode.core.errors import UserMistake
from gencode.core.spec import Workspace
from gencode.settings import gen_home


def database() -> Path:
    """The database file that holds the journal."""
    return gen_home() / "gencode.db"


def outputs() -> Path:
    """The folder of the output files of background tasks and commands."""
    return gen_home() / "outputs"


def workspace_at(folder: Path) -> Workspace:
    """The workspace at a folder; UserMistake when it is none."""
    try:
        root = folder.expanduser().absolute()
    except OSError:
        raise UserMistake("The folder you are in does not exist any more; go to another one.") from None
    if not root.is_dir():
        raise UserMistake(f"{folder} is not a folder; name the folder to work in (cwd, or --cwd).")
    root = root.resolve()
    if not os.access(root, os.R_OK | os.X_OK):
        raise UserMistake(f"{root} cannot be read ({os.strerror(errno.EACCES)}).")
    return Workspace(root, root, Path.home())
