"""A process that claims what is due and is killed before it starts it: `python -m … DATABASE`."""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from gencode.channels.outbox import Outbox
from gencode.stores.sqlite import SqliteStore
from gencode.tasks.scheduler import OpenFolderOf, Scheduler


async def claim(path: Path) -> None:
    """Claim, say how many runs that were, and die."""
    store = await SqliteStore.open(path)
    nowhere: OpenFolderOf = lambda _: sys.exit("nothing is started here")  # noqa: E731
    found = await Scheduler(store, Outbox(store, {}), nowhere).look(datetime.now(UTC))
    print(len(found), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(claim(Path(sys.argv[1])))
