"""A post office for tests: snapshots in memory, a sender with a repository, and a worker with a home."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gencode.journal.dispatch import MissingPart
from gencode.journal.folder_snapshot import FolderSnapshot, ReturnedChanges
from gencode.workspaces.transfer.snapshot_builder import SnapshotBuilder
from gencode.workspaces.transfer.worker_copy import IncomingTask, TaskWorktree, open_task_worktree

TASK = "0123abcd"


class Office:
    """What travels, kept in memory; whoever is `owner` may hand in."""

    def __init__(self) -> None:
        self.packs: dict[str, bytes] = {}
        self.back: dict[str, tuple[ReturnedChanges, bytes]] = {}
        self.hindered: list[tuple[str, str, str, MissingPart]] = []
        self.lodgings: list[TaskWorktree] = []
        self.kept = 0
        self.owner = "me"

    async def lacking(self, packs: Sequence[str]) -> list[str]:
        return [pack for pack in packs if pack not in self.packs]

    async def keep(self, pack: str, body: bytes) -> None:
        self.kept += 1
        self.packs[pack] = body

    async def pack(self, pack: str) -> bytes | None:
        return self.packs.get(pack)

    async def hand_in(self, returned: ReturnedChanges, body: bytes, owner: str) -> bool:
        if owner != self.owner:
            return False
        self.back[returned.task] = (returned, body)
        return True

    async def returned(self, task: str) -> tuple[ReturnedChanges, bytes] | None:
        return self.back.get(task)

    async def waiting(self) -> list[ReturnedChanges]:
        return [each for each, _ in self.back.values() if not each.taken]

    async def taken(self, task: str, commit: str) -> bool:
        work, body = self.back[task]
        assert work.commit == commit
        self.back[task] = (replace(work, taken=True), body)
        return not work.taken

    async def report_problem(self, task: str, worker: str, why: str, lacks: MissingPart) -> None:
        self.hindered.append((task, worker, why, lacks))

    async def forget(self) -> None:
        self.packs.clear()


async def sent(folder: Path, office: Office) -> FolderSnapshot:
    """A folder as a snapshot."""
    return await SnapshotBuilder(folder, folder.parent / "own", office).build()


async def arrived(snapshot: FolderSnapshot, office: Office, home: Path, task: str = TASK) -> TaskWorktree:
    """The copy of it on a worker."""
    office.lodgings.append(await open_task_worktree(IncomingTask(task, "/there", snapshot), office, home))
    return office.lodgings[-1]
