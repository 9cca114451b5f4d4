"""A task's folder as a snapshot for a worker, and the store of snapshots. Everything read here is hostile."""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from msgspec import Struct, field

from gencode.core.errors import UserMistake
from gencode.core.place import CopiedFolder
from gencode.core.structs import replace
from gencode.journal.dispatch import MissingPart

MOST_PACK = 32 << 20
"""The largest pack in the database, in bytes."""
MOST_COMMITS = 8
MOST_ORIGINALS = 8
COPIED = "copy"
"""Marks a folder that is always copied, even if it is available here."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_KEY = re.compile(r"[0-9a-f]{40}")
_PACK = re.compile(r"[hst][0-9a-f]{40,64}(?:-[0-9a-f]{1,64})?")
_BRANCH = re.compile(
    r"(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)))[A-Za-z0-9_][A-Za-z0-9_./+#@=-]{0,200}(?<![./])|[A-Za-z0-9_]"
)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_SHORT = re.compile(r"(?:(?P<user>[^@:/]+)@)?(?P<host>[^@:/]+):(?!:)(?P<path>[^\s:][^\s]*)")
_PLAIN = re.compile(r"[!-~]+")
_LONGEST_URL = 2_000
_LONGEST_LIST = 20_000


class InvalidSnapshot(UserMistake):
    """A snapshot that cannot be used, here or anywhere."""


class MissingChanges(Struct, frozen=True, omit_defaults=True):
    """Earlier changes of a task, or of its fork's original, that are not in its folder.

    `taken_over`: the folder is as it was when the task was first sent. `on_branch`: its changes on a `worker`
    are on a `branch` of the repository `top`. `in_worktree`: its changes on a `branch` here, while the folder
    has those from the `worker`, which could not be put on a branch: `why`. `of_fork`: the changes that the
    original `task` had made at its event `fact`.
    """

    state: Literal["taken_over", "on_branch", "in_worktree", "of_fork"]
    folder: str = ""
    worker: str = ""
    branch: str = ""
    top: str = ""
    why: str = ""
    task: str = ""
    fact: int = 0

    def user_note(self) -> str:
        """The note for the user."""
        match self.state:
            case "taken_over":
                return (
                    f"it began with {self.folder} as it was when the task was first sent, without its "
                    "earlier changes: those were merged, and the folder is not on the machine that resumed it"
                )
            case "of_fork":
                return (
                    f"it begins in a copy of {self.folder} as it was when task {self.task} was sent, without "
                    f"that task's changes: its files at event {self.fact} are unknown"
                )
            case _:
                return f"it continues without its changes {self._where('its')}"

    def agent_note(self) -> str:
        """The note for the agent, if it continues without changes that were not merged."""
        if self.state in ("taken_over", "of_fork"):
            return ""
        return f"You continue without your changes {self._where('your')}."

    def _where(self, whose: str) -> str:
        if self.state == "on_branch":
            return f"on {self.worker}: they are on the branch {self.branch} of {self.top}"
        return (
            f"on the branch {self.branch}: the copy has {whose} changes on {self.worker}, which could not be "
            f"put on a branch: {self.why}"
        )


class FolderSnapshot(Struct, frozen=True, omit_defaults=True):
    """A folder as it was when a task was sent.

    `tip` is a commit with everything in it: `head` as committed and, above it, the uncommitted files that are
    not ignored. Of that, `remote` has the commits `known` on its `branch`, and the `packs` have the rest, in
    order. `key` names the repository, `below` the folder in it, `home` the user's home there. `trusted` are
    the files that the sender trusts, each with its SHA-256. The snapshot of a `fork` says what is in it: the
    folder as it was sent with the original, with or without the original's `work`, or as it is now. That work
    is the commit `start`, `start_head` the commit its agent was at, and `start_left` the files missing in it.
    """

    key: str
    tip: str
    head: str = ""
    below: str = "."
    remote: str = ""
    branch: str = ""
    known: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    trusted: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    missing: tuple[MissingChanges, ...] = ()
    home: str = ""
    earlier: tuple[CopiedFolder, ...] = ()
    """The folders that the checkout is itself a copy of, the nearest first."""
    fork: Literal["", "work", "sent", "now"] = ""
    start: str = ""
    start_head: str = ""
    start_left: str = ""


class ReturnedChanges(Struct, frozen=True, omit_defaults=True):
    """The changes of a task on another machine, as a commit on top of the tip of its snapshot.

    `head` is the commit its agent was at in the end, if it made that itself. If the changes could not be
    sent, `kept` is the folder on the worker that has them, and `why` the reason. `left` are files that were
    too large to send.
    """

    task: str
    snapshot: FolderSnapshot = field(name="parcel")  # the name of the column
    commit: str
    cwd: str = ""
    worker: str = ""
    files: int = 0
    taken: bool = False
    head: str = ""
    kept: str = ""
    why: str = ""
    left: str = ""

    @property
    def nothing(self) -> bool:
        """Whether there are no changes."""
        return self.commit == self.snapshot.tip


class SnapshotStore(Protocol):
    """The port for snapshots and the changes that come back."""

    async def lacking(self, packs: Sequence[str]) -> list[str]:
        """Those of these packs that are missing; the others are kept for a while longer."""
        ...

    async def keep(self, pack: str, body: bytes) -> None:
        """Store a pack."""
        ...

    async def pack(self, pack: str) -> bytes | None:
        """The bytes of a pack."""
        ...

    async def hand_in(self, returned: ReturnedChanges, body: bytes, owner: str) -> bool:
        """Store the changes of a task; False, and nothing is stored, if `owner` no longer runs it."""
        ...

    async def returned(self, task: str) -> tuple[ReturnedChanges, bytes] | None:
        """The returned changes of a task, with their pack."""
        ...

    async def waiting(self) -> list[ReturnedChanges]:
        """All returned changes that were not merged yet, the oldest first."""
        ...

    async def taken(self, task: str, commit: str) -> bool:
        """Record that the changes of a task were merged; False if that was recorded already."""
        ...

    async def report_problem(self, task: str, worker: str, why: str, lacks: MissingPart) -> None:
        """Record why a worker cannot run a task."""
        ...

    async def forget(self) -> None:
        """Remove what is no longer needed."""
        ...


def checked(snapshot: FolderSnapshot) -> FolderSnapshot:
    """The snapshot, with every field checked; InvalidSnapshot if one is not valid."""
    named = [each for each in (snapshot.head, snapshot.start, snapshot.start_head) if each]
    commits = [snapshot.tip, *snapshot.known, *named]
    if not all(_COMMIT.fullmatch(each) for each in commits) or len({len(each) for each in commits}) > 1:
        raise InvalidSnapshot("its folder is named by something that is not a commit")
    if not _KEY.fullmatch(snapshot.key) or not all(_PACK.fullmatch(each) for each in snapshot.packs):
        raise InvalidSnapshot("its folder is named by something that is not a repository")
    if len(snapshot.known) > MOST_COMMITS or len(snapshot.packs) > MOST_COMMITS:
        raise InvalidSnapshot("its folder comes in more parts than allowed")
    if snapshot.remote and safe_remote(snapshot.remote) != snapshot.remote:
        raise InvalidSnapshot(
            f"its folder has a remote address that is not allowed: {snapshot.remote[:200]!r}"
        )
    if snapshot.branch and not _BRANCH.fullmatch(snapshot.branch):
        raise InvalidSnapshot(f"its folder is on a branch that is not valid: {snapshot.branch[:200]!r}")
    if snapshot.home and not _is_place(snapshot.home):
        raise InvalidSnapshot(f"its folder has a home that is not a valid path: {snapshot.home[:200]!r}")
    places = [place for each in snapshot.earlier for place in (each.folder, each.home or "/")]
    if len(snapshot.earlier) > MOST_ORIGINALS or not all(map(_is_place, places)):
        raise InvalidSnapshot("its folder is a copy of something that is not a valid path")
    if not snapshot.start_left.isprintable() or len(snapshot.start_left) > _LONGEST_LIST:
        raise InvalidSnapshot("its folder has a list of missing files that is not valid")
    return replace(snapshot, below=_checked_below(snapshot.below))


def _is_place(path: str) -> bool:
    return PurePosixPath(path).is_absolute() and path.isprintable()


def _checked_below(below: str) -> str:
    path = PurePosixPath(below)
    parts = {part.casefold() for part in path.parts}
    if path.is_absolute() or parts & {"..", ".git"} or not below.isprintable() or len(below) > 4_096:
        raise InvalidSnapshot(f"its folder has a path that is not allowed: {below[:200]!r}")
    return str(path)


def safe_remote(address: str) -> str:
    """The address of a remote without any password; empty if it may not be used.

    Only https, ssh (also in its short form) and file are: any other names a program, or is unencrypted.
    """
    if not _PLAIN.fullmatch(address) or len(address) > _LONGEST_URL or "\\" in address:
        return ""
    if "://" in address:
        return _safe_url(address)
    short = _SHORT.fullmatch(address)
    if short is None or not _HOST.fullmatch(short["host"]) or short["path"].startswith("-"):
        return ""
    return address if short["user"] is None or _USER.fullmatch(short["user"]) else ""


def _safe_url(address: str) -> str:
    from urllib.parse import urlsplit

    try:
        found = urlsplit(address)
        port = found.port
    except ValueError:
        return ""
    if found.query or found.fragment or "?" in address or "#" in address or not found.path.startswith("/"):
        return ""
    if found.scheme == "file":
        return f"file://{found.path}" if not found.netloc and not found.path.startswith("//") else ""
    host = found.netloc.rpartition("@")[2]
    if not _HOST.fullmatch(host if port is None else host.removesuffix(f":{port}")):
        return ""
    if found.path.startswith("/-"):
        return ""
    if found.scheme == "https":  # a user name may be a token
        return f"https://{host}{found.path}"
    user = found.username or ""
    if found.scheme != "ssh" or (user and not _USER.fullmatch(user)):
        return ""
    return f"ssh://{user}@{host}{found.path}" if user else f"ssh://{host}{found.path}"


def begins_behind(work: ReturnedChanges, mark: str) -> MissingChanges | None:
    """What is missing for a task that is resumed without its folder after its changes were merged.

    `mark` is that of its folder where it is resumed; empty if the folder is not there.
    """
    if mark or not work.taken or work.nothing:
        return None
    return MissingChanges("taken_over", work.cwd)


def as_reason(sentence: str) -> str:
    """A sentence in the form in which it follows "because"."""
    text = sentence.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def mark_of(folder: str | Path) -> str:
    """Distinguishes a folder from another one with the same path on another machine; empty without one.

    On a disk that several machines share a folder has the same inode on all of them, a copy has another.
    """
    try:
        real = Path(os.path.realpath(folder))
        numbers = [real.stat().st_ino]
        repository = repository_around(real)
        if repository is not None:
            numbers.append((repository / ".git").lstat().st_ino)
    except (OSError, ValueError):
        return ""
    return "-".join(f"{number:x}" for number in numbers)


def repository_around(folder: Path) -> Path | None:
    """The nearest folder with a `.git`, which may be damaged."""
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
