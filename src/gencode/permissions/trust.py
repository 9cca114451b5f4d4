"""Trusted folders: each by the content of its files, recorded in the user's own folder.

Trust is for one folder as it was looked at. When any of its files is changed, added or removed it is gone
until a person looks again; a folder above or below is a folder of its own. Only a new file with an agent of
its own leaves the rest as it was: that agent waits for trust alone.
"""

import json
import os
import shlex
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.structs import replace
from gencode.permissions.agent_folders import stands_alone
from gencode.permissions.project_files import ProjectFiles, read_project
from gencode.permissions.started_files import digests
from gencode.permissions.whole_files import FileLock, write_private_file

FILE = "trust.toml"
_HEAD = "# Folders that are trusted, with the files they were trusted for. Written by: gen trust\n"

State = Literal["nothing", "trusted", "added", "changed", "untrusted"]
"""How a folder stands; `added`: it is trusted, but for new files with agents."""
Kind = Literal["new", "changed", "gone"]


class TrustChange(Struct, frozen=True):
    """How one file differs from when the folder was trusted."""

    kind: Kind
    path: str


class TrustRecord(Struct, frozen=True):
    """When a folder was trusted, and the SHA-256 of each file it had then.

    `started` are further files of the folder, which hooks and servers among the first ones start. None: it
    was trusted before anybody looked at those, so it has to be looked at again.
    """

    at: str
    files: dict[str, str]
    started: dict[str, str] | None = None


class FolderTrust(Struct, frozen=True):
    """The files of one folder that need trust, and whether a person trusts them as they are now."""

    folder: Path
    state: State
    brought: ProjectFiles = ProjectFiles()
    changes: tuple[TrustChange, ...] = ()
    added: ProjectFiles = ProjectFiles()
    """New files with agents, which are not among those `brought` and wait for trust."""
    started: dict[str, str] = {}
    """Of a folder that was trusted: the files that it starts, as they are now."""

    @property
    def trusted(self) -> bool:
        """Whether the settings and agents of the folder take effect."""
        return self.state in ("trusted", "added")

    @property
    def whole(self) -> "FolderTrust":
        """The same with the new files among the others, for whoever reviews and trusts all of them."""
        files, texts = {**self.brought.files, **self.added.files}, {**self.brought.texts, **self.added.texts}
        return replace(self, brought=replace(self.brought, files=files, texts=texts), added=ProjectFiles())

    @property
    def way(self) -> str:
        """The command that reviews and trusts the folder."""
        with suppress(OSError):
            if self.folder == Path.cwd():
                return "gen trust ."
        return f"gen trust {shlex.quote(str(self.folder))}"

    @property
    def why_not(self) -> str:
        """Why the folder's settings and agents have no effect, and what to do about it."""
        if self.state == "added":  # said of the new files; all others apply
            return f"it is new since its folder was trusted; review it with: {self.way}"
        if self.state == "changed":
            return f"its folder has changed since it was trusted; review it with: {self.way}"
        return f"its folder is not trusted; review and trust it with: {self.way}"


class _TrustFile(Struct, frozen=True, forbid_unknown_fields=True):
    folders: dict[str, TrustRecord] = {}


def standing(folder: Path, home: Path) -> FolderTrust:
    """Whether a folder is trusted now. What applies in it is read here once, not again when it is used."""
    brought = read_project(folder, home)
    if not brought.anything:
        return FolderTrust(folder, "nothing")
    record = trusted_folders(home).get(_key(folder))
    if record is None or record.started is None:
        return FolderTrust(folder, "untrusted", brought)
    started = digests(record.started, folder)
    changes = _changes({**record.files, **_there(record.started)}, {**brought.files, **_there(started)})
    if not changes and not brought.problems:
        return FolderTrust(folder, "trusted", brought, started=started)
    new = {each.path for each in changes if each.kind == "new" and stands_alone(each.path)}
    if len(new) < len(changes) or brought.problems:
        return FolderTrust(folder, "changed", brought, changes, started=started)
    return FolderTrust(folder, "added", brought.without(new), changes, brought.only(new), started)


def trust(project: FolderTrust, home: Path, started: Mapping[str, str] | None = None) -> None:
    """Trust a folder as it was looked at, not as it may be by now.

    `started` are the digests of the files that its hooks and servers start, as a person was shown them. As
    long as what it brings is the same, so is what that starts, so these are all that has to be kept.
    """
    project = project.whole
    if project.brought.problems:
        raise UserMistake(f"{project.folder} cannot be trusted: {'; '.join(project.brought.problems)}.")
    key = _key(project.folder)
    if not key:
        raise UserMistake(f"{project.folder} cannot be trusted: its path is not UTF-8.")
    with _alone(home):
        _write(
            home,
            {**trusted_folders(home), key: TrustRecord(stamp(), project.brought.files, dict(started or {}))},
        )


def trust_added(before: FolderTrust, path: str, digest: str, home: Path) -> FolderTrust:
    """How a folder stands after its person had a file written; it stays trusted if nothing else changed.

    `before` is how it stood before that, `path` the new file below it, which starts nothing, and `digest` the
    SHA-256 of what was written, whatever is there by now.
    """
    now = standing(before.folder, home)
    same = now.changes == (TrustChange("new", path),) and now.whole.brought.files.get(path) == digest
    if not (before.trusted and same) or now.brought.problems:
        return now
    trust(now, home, now.started)
    return standing(before.folder, home)


def revoke(folder: Path, home: Path) -> bool:
    """Revoke the trust in a folder; return whether it was trusted."""
    if not (home / FILE).exists():
        return False
    with _alone(home):
        kept = trusted_folders(home)
        if kept.pop(_key(folder), None) is None:
            return False
        _write(home, kept)
    return True


def trusted_folders(home: Path) -> dict[str, TrustRecord]:
    """Every folder that was trusted, as it was then."""
    try:
        found = tomllib.loads((home / FILE).read_text("utf-8"))
        return dict(msgspec.convert(found, _TrustFile).folders)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserMistake(f"{home / FILE} cannot be read ({error.strerror}); make it readable.") from None
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        way = "repair it, or remove it and trust your folders again"
        raise UserMistake(f"{home / FILE} is not valid ({error}); {way}.") from None


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[TrustChange, ...]:
    found = [TrustChange("gone", path) for path in before if path not in now]
    found += [TrustChange("new", path) for path in now if path not in before]
    found += [TrustChange("changed", path) for path in now if path in before and before[path] != now[path]]
    return tuple(sorted(found, key=lambda change: change.path))


def _there(files: Mapping[str, str]) -> dict[str, str]:
    """Those that are there. One that was missing is kept, too: when it appears, that is a change."""
    return {path: digest for path, digest in files.items() if digest}


def _key(folder: Path) -> str:
    """The real path of a folder; the file can only hold one that is Unicode."""
    key = os.path.realpath(folder)
    try:
        key.encode()
    except UnicodeEncodeError:
        return ""
    return key


@contextmanager
def _alone(home: Path) -> Generator[None]:
    try:
        with FileLock(home, FILE):
            yield
    except OSError as error:
        raise UserMistake(f"{home / FILE} cannot be written: {error.strerror}.") from None


def _write(home: Path, folders: Mapping[str, TrustRecord]) -> None:
    """Write the file; whoever writes has its lock."""
    text = _HEAD + "".join(_table(key, folders[key]) for key in sorted(folders))
    write_private_file(home / FILE, text.encode(), sync=True)


def _table(folder: str, record: TrustRecord) -> str:
    lines = [f"\n[folders.{_quoted(folder)}]", f"at = {_quoted(record.at)}"]
    lines.append(f"\n[folders.{_quoted(folder)}.files]")
    lines += [f"{_quoted(path)} = {_quoted(digest)}" for path, digest in sorted(record.files.items())]
    if record.started is not None:
        lines.append(f"\n[folders.{_quoted(folder)}.started]")
        lines += [f"{_quoted(path)} = {_quoted(digest)}" for path, digest in sorted(record.started.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string: as JSON writes it, but for one character that only TOML forbids."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
