"""How long one commit of the journal takes: on the event loop's thread, and through another thread.

    python bench/commit.py [COMMITS]

The same guarded transaction runs both ways; below that, the real `append` on a short and on a long journal.
"""

import asyncio
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from gencode.core.events import MessageAdded, TaskCreated, TaskStarted
from gencode.core.messages import UserMessage
from gencode.stores.memory import MemoryStore
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_schema import Transaction, open_pair

BODY = "x" * 800


class Timing:
    """The latencies of many commits, and the processor time of all of them."""

    def __init__(self, latencies: list[float], cpu: float) -> None:
        self._sorted = sorted(latencies)
        self.p50 = self._at(0.50)
        self.p99 = self._at(0.99)
        self.cpu = cpu / len(latencies)

    def _at(self, share: float) -> float:
        return self._sorted[min(int(len(self._sorted) * share), len(self._sorted) - 1)]

    def line(self, name: str) -> str:
        """One line of the table, in microseconds."""
        return f"{name:<28}{self.p50 * 1e6:>10.0f}{self.p99 * 1e6:>10.0f}{self.cpu * 1e6:>10.0f}"


async def timed(commits: int, commit: Callable[[], Awaitable[object]]) -> Timing:
    """Commit again and again, and measure every one."""
    latencies: list[float] = []
    cpu = time.process_time()
    for _ in range(commits):
        began = time.perf_counter()
        await commit()
        latencies.append(time.perf_counter() - began)
    return Timing(latencies, time.process_time() - cpu)


class Plain:
    """The smallest guarded commit: one row moved on, one row added."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._seq = 0
        connection.execute("CREATE TABLE Head (Id TEXT PRIMARY KEY, LastSeq INTEGER)")
        connection.execute("CREATE TABLE Fact (Task TEXT, Seq INTEGER, Body TEXT, PRIMARY KEY (Task, Seq))")
        connection.execute("INSERT INTO Head VALUES ('a', 0)")

    def commit(self) -> None:
        """One transaction."""
        with Transaction(self._connection):
            move = "UPDATE Head SET LastSeq = ? WHERE Id = 'a' AND LastSeq = ?"
            self._connection.execute(move, (self._seq + 1, self._seq))
            self._connection.execute("INSERT INTO Fact VALUES ('a', ?, ?)", (self._seq + 1, BODY))
        self._seq += 1

    async def inline(self) -> None:
        """On this thread."""
        self.commit()

    async def threaded(self) -> None:
        """On another thread."""
        await asyncio.to_thread(self.commit)


async def compare(folder: Path, commits: int) -> None:
    """Print the same commit both ways."""
    writer, reader = await asyncio.to_thread(open_pair, folder / "plain.db", "normal")
    with closing(writer), closing(reader):
        plain = Plain(writer)
        await timed(commits // 10 + 1, plain.threaded)
        inline = await timed(commits, plain.inline)
        threaded = await timed(commits, plain.threaded)
    print(inline.line("commit inline"))
    print(threaded.line("commit in a thread"))
    ratios = (threaded.p50 / inline.p50, threaded.p99 / inline.p99, threaded.cpu / inline.cpu)
    print(f"{'thread / inline':<28}" + "".join(f"{ratio:>9.1f}x" for ratio in ratios))


async def grow(folder: Path, commits: int) -> None:
    """Print the real append, on a journal that gets long."""
    store = await SqliteStore.open(folder / "gen.db")
    lease = await store.create(TaskCreated(prompt="p" * 5_000), "bench")
    await store.append(lease, [TaskStarted(model="m", system="s" * 20_000)])
    fact = MessageAdded(UserMessage(BODY))
    for name in ("append, short journal", "append, longer journal", "append, long journal"):
        timing = await timed(commits, lambda: store.append(lease, [fact]))
        print(timing.line(name))
    await store.close()
    memory = MemoryStore()
    kept = await memory.create(TaskCreated(), "bench")
    timing = await timed(commits, lambda: memory.append(kept, [fact]))
    print(timing.line("append, in memory"))


async def main(commits: int) -> None:
    """Print the whole table."""
    print(f"{f'{commits} commits, µs':<28}{'p50':>10}{'p99':>10}{'CPU':>10}")
    with TemporaryDirectory() as name:
        await compare(Path(name), commits)
        await grow(Path(name), commits)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000))
