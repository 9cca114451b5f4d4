"""A fork packed for another machine."""

from pathlib import Path

from msgspec.structs import replace
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import git

from gencode.journal.folder_snapshot import FolderSnapshot

FORK = "0123abce"


async def with_work(repo: Path, home: Path, office: Office) -> FolderSnapshot:
    """The snapshot of a fork of a task that wrote new.txt and committed a change of a.txt."""
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, home)
    (lodging.cwd / "a.txt").write_text("changed\n")
    git(lodging.cwd, "commit", "--quiet", "--all", "--message", "Changed")
    (lodging.cwd / "new.txt").write_text("new\n")
    await lodging.hand_in(office, "me", "worker")
    work, body = office.back[TASK]
    pack = f"s{work.commit}"
    await office.keep(pack, body)
    return replace(
        snapshot, fork="work", start=work.commit, start_head=work.head, packs=(*snapshot.packs, pack)
    )
