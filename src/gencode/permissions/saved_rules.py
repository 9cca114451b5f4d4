"""The allow rules that a person approved with "always", and the lock and writer of such private files.

The file is written by the program only, so that nothing the person wrote by hand is ever touched; it is
a part of the user's settings.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gencode.core.errors import UserMistake

FILE = "answers.toml"
_HEAD = '# Rules approved with "always". Remove a line to be asked again.\n'


def save_rule(home: Path, rules: Mapping[str, list[str]], rule: str) -> None:
    """Add an allow rule to those that are there; whole or not at all, also beside another process."""
    kept = list(dict.fromkeys((*rules.get("allow", ()), rule)))
    lines = "".join(f"  {json.dumps(each, ensure_ascii=False)},\n" for each in kept)
    try:
        write_private_file(home / FILE, f"{_HEAD}allow = [\n{lines}]\n".encode())
    except OSError as error:
        raise UserMistake(f"The rule could not be saved in {home / FILE}: {error.strerror}.") from None


def write_private_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, for its owner only."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


class FileLock:
    """A lock on the file of saved rules, or on another one of this kind, between processes."""

    def __init__(self, home: Path, file: str = FILE) -> None:
        self._path = home / f"{file}.lock"

    def __enter__(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._handle = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
