"""Connections to Postgres: a pool that reconnects, and a listener for notifications.

A step that the server could not take, because it restarts or the network fails, is taken again for as long as
somebody is willing to wait. The step is then told so: what it sent before may have been written.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from gencode.core.errors import StoreTrouble
from gencode.journal.change_notifier import CLOSED, ChangeNotifier
from gencode.stores.pg_errors import (
    OLDEST,
    TROUBLES,
    check_url,
    shown,
    too_old,
    trouble,
    unreadable,
    waiting_helps,
)
from gencode.stores.sql_dialect import POSTGRES, Row, Statements

T = TypeVar("T")
_asyncpg: Any = asyncpg
"""asyncpg's own types are too vague to check against."""
Connection = Any
"""A connection of asyncpg, or the proxy that its pool gives."""
Step = Callable[[Connection, bool], Awaitable[T]]
"""Work on a connection; the flag says that an earlier attempt may have been written."""

PATIENCE = 10.0
"""Seconds for which the server may be unreachable before a step fails."""
FIRST_PATIENCE = 3.0
"""The same for the first connection: the server may be starting, or not exist."""
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 10.0
"""A connection that went dead silently is noticed after so long."""
IDLE_SECONDS = 5.0
"""The server ends a transaction that was idle for so long, so that its locks are released."""
MOST_CONNECTIONS = 8
MOST_KEPT = 2
OFTEN = 20
"""After so many swift steps connections are kept for them."""
_SHORT_PAUSE = 0.02
_LONG_PAUSE = 0.5
_SETTINGS = {
    "application_name": "gencode",
    "idle_in_transaction_session_timeout": str(int(IDLE_SECONDS * 1000)),
}
_SHAPE = {"timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS, "server_settings": _SETTINGS}
WAKE = "gen_wake"
"""The channel that tells an owner to look; correctness does not depend on delivery."""
CHANGED = "gen_changed"
"""The channel on which processes announce that they have written, throttled by `SAY_SECONDS`."""
# A transaction has an id once it has written something.
_TRANSACTION = "SELECT pg_current_xact_id_if_assigned()::text"
_STATUS_OF = "SELECT pg_xact_status($1::text::xid8)"
SAY_SECONDS = 0.05
LOOK_SECONDS = 1.0
"""Waiters look again after so long, in case a notification was lost."""


class Pool:
    """A pool of connections to one database."""

    def __init__(self, url: str, pool: Any, patience: float) -> None:
        self.url = url
        self.address = shown(url)
        self.pool = pool
        self._patience = patience
        self._closed = False
        self._cut = False
        self._kept: list[Any] = []
        self._steps = 0

    @classmethod
    async def open(cls, url: str, *, patience: float = PATIENCE, most: int = MOST_CONNECTIONS) -> "Pool":
        """Connect; waits less for a server that never answered than for one that did."""
        address = shown(check_url(url))
        link = cls(url, _pool(url, most), patience)
        version = 0
        try:
            await link.pool
            version = await link.patiently(_version, min(patience, FIRST_PATIENCE))
            if version // 10_000 < OLDEST:
                raise too_old(version // 10_000, address)
        except ValueError:  # its message may show a part of the password
            raise unreadable() from None
        finally:
            if version // 10_000 < OLDEST:
                link.pool.terminate()
        return link

    async def another_pool(self, most: int, lost: Callable[[], None]) -> Any:
        """Another pool, for writes that a server crash may lose; `lost` is called when a connection ends."""

        def ended(_connection: Connection) -> None:
            lost()

        async def begin(connection: Connection) -> None:
            connection.add_termination_listener(ended)

        ever = {"max_inactive_connection_lifetime": 0.0, "init": begin, "reset": _nothing}
        swift = {"server_settings": {**_SETTINGS, "synchronous_commit": "off"}}
        return await _asyncpg.create_pool(self.url, min_size=0, max_size=most, **ever, **_SHAPE | swift)

    def cut(self) -> None:
        """Terminate all connections at once, so that nothing waits for a server that does not answer."""
        self._cut = True
        self.pool.terminate()
        while self._kept:
            self._kept.pop().terminate()

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while self._kept:
                    await self._kept.pop().close()
                await self.pool.close()
        except TROUBLES:
            self.pool.terminate()

    async def patiently(self, step: Step[T], patience: float | None = None) -> T:
        """Run a step; while the server is unreachable, sleep (a little longer each time) and retry."""
        until = time.monotonic() + (self._patience if patience is None else patience)
        pause, again = _SHORT_PAUSE, False
        cancels = _cancels()
        while True:
            if self._closed:
                raise StoreTrouble(CLOSED)
            try:
                if self._cut:
                    self._cut = False
                    self.pool = await _pool(self.url, MOST_CONNECTIONS)
                async with self.pool.acquire() as connection:
                    try:
                        return await step(connection, again)
                    except asyncpg.InternalClientError:
                        connection.terminate()
                        raise
            except TROUBLES as error:
                if _cancels() > cancels:  # it was hidden by the error of a failed rollback
                    raise asyncio.CancelledError from None
                if self._closed:
                    raise StoreTrouble(CLOSED) from None
                if not waiting_helps(error) or time.monotonic() > until:
                    raise trouble(error, self.address) from error
                again = True
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(1000) / 1000))
            pause = min(pause * 2, _LONG_PAUSE)

    async def swiftly(self, step: Step[T]) -> T:
        """The same on a connection that is kept for this, which costs a third less."""
        kept = self._kept.pop() if self._kept else None
        if kept is None or kept.is_closed() or self._closed:
            told = await self.patiently(step)
            self._steps += 1
            if self._steps > OFTEN and len(self._kept) < MOST_KEPT and not self._closed:
                with suppress(*TROUBLES):
                    self._kept.append(await _asyncpg.connect(self.url, **_SHAPE))
            return told
        whole = False
        try:
            told = await step(kept, False)
            whole = True
        except TROUBLES as error:
            if not waiting_helps(error):
                raise trouble(error, self.address) from error
            return await self.patiently(lambda connection, _: step(connection, True))
        finally:
            if whole:
                self._kept.append(kept)
            else:
                kept.terminate()
        return told

    async def transaction(self, do: Callable[[Connection], Awaitable[T]], wrote: Callable[[], None]) -> T:
        """Run a transaction exactly once, also where the reply to its commit was lost.

        `wrote` is called if that changed anything.
        """
        number: str | None = None
        results: list[T] = []

        async def step(connection: Connection, _again: bool) -> T:
            nonlocal number
            if number is not None:
                match await connection.fetchval(_STATUS_OF, number):
                    case "committed":
                        return results[0]
                    case "in progress":
                        raise ConnectionError("the server has not ended the earlier try yet")
                    case _:
                        number = None
            results.clear()
            async with connection.transaction():
                results.append(await do(connection))
                number = await connection.fetchval(_TRANSACTION)
            return results[0]

        done = await self.patiently(step)
        if number is not None:
            wrote()
        return done

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """The rows of a statement that may be repeated."""
        return await self.patiently(lambda connection, _: connection.fetch(statement, *values))


@asynccontextmanager
async def alone(connection: Connection, number: int) -> AsyncGenerator[None]:
    """A transaction under an advisory lock: only one with this number at a time, on all machines."""
    # Each statement sees what others made while this one waited; and a lock of the transaction ends with it.
    async with connection.transaction(isolation="read_committed"):
        await connection.execute("SELECT pg_advisory_xact_lock($1)", number)
        yield


class NotifyListener:
    """Listens for notifications on a connection of its own, which also renews leases without waiting."""

    def __init__(self, link: Pool, told: Callable[[str], None]) -> None:
        """`told` is called with each notification, and with an empty text when one may have been missed."""
        self._link = link
        self._told = told
        self._connection: Any = None
        self._busy = False
        self._connecting = asyncio.Lock()
        self._heard: set[str] = set()
        self._looked: dict[str, float] = {}

    def hear(self, owner: str) -> None:
        """Note that something is new for an owner."""
        self._heard.add(owner)

    async def quiet(self, what: str, owner: str, seconds: float) -> bool:
        """Whether nothing is new for an owner since the last look at `what`, at most so many seconds ago."""
        now = time.monotonic()
        key = f"{what} {owner}"
        if not await self._listening():
            return False
        if owner in self._heard:
            self._heard.discard(owner)
            self._looked = {each: at for each, at in self._looked.items() if not each.endswith(owner)}
        if now - self._looked.get(key, -seconds) < seconds:
            return True
        self._looked[key] = now
        return False

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """The rows of a statement on this connection; raises one of TROUBLES when it is not connected."""
        if not await self._listening() or self._busy:
            raise ConnectionError("not connected, or at another statement")
        self._busy = True
        try:
            return await self._connection.fetch(statement, *values, timeout=CONNECT_SECONDS)
        finally:
            self._busy = False

    @property
    def listens(self) -> bool:
        """Whether it is listening now."""
        return self._connection is not None and not self._connection.is_closed()

    async def listen(self) -> bool:
        """Start listening; False when that is not possible."""
        return await self._listening()

    def cut(self) -> None:
        """Terminate the connection at once."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*TROUBLES):
                await connection.close(timeout=CONNECT_SECONDS)

    async def _listening(self) -> bool:
        if self.listens:
            return True
        async with self._connecting:
            if self.listens:
                return True
            try:
                self._connection = connection = await _asyncpg.connect(self._link.url, **_SHAPE)
                await connection.add_listener(WAKE, self._called)
                await connection.add_listener(CHANGED, self._called)
            except TROUBLES:
                return False
            self._looked.clear()  # notifications were missed meanwhile
            self._told("")
        return True

    def _called(self, _connection: object, _process: int, channel: str, said: object) -> None:
        if channel == WAKE:
            self._heard.add(str(said))
        self._told(str(said))


class PostgresChanges(ChangeNotifier):
    """The changes of a database: announces this process's writes, and listens while a change is awaited."""

    def __init__(self, link: Pool) -> None:
        super().__init__()
        self._watching: asyncio.Task[None] | None = None
        self._saying: asyncio.Task[None] | None = None
        self._unsaid = False
        self._name = secrets.token_hex(8)
        self.ear = NotifyListener(link, self._heard)
        """The connection that listens."""

    def note(self) -> None:
        """Note a change of this process, and announce it to others."""
        super().note()
        self._unsaid = True
        if self._saying is None:
            self._saying = asyncio.get_running_loop().create_task(self._said())

    def watch(self) -> None:
        """Notice what other processes write, for as long as changes are awaited."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watched())

    async def aclose(self) -> None:
        """Wake all waiters, and announce the last change."""
        self.close()
        for each in (self._watching, self._saying):
            if each is not None:
                each.cancel()
                await asyncio.wait([each])
        if self._unsaid:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._say()
        await self.ear.close()

    def _heard(self, said: str) -> None:
        if said != self._name:
            super().note()

    async def _watched(self) -> None:
        try:
            while self.awaited:
                await self.ear.listen()
                await asyncio.sleep(LOOK_SECONDS)
                super().note()
        finally:
            self._watching = None

    async def _said(self) -> None:
        try:
            while self._unsaid:
                await self._say()
                await asyncio.sleep(SAY_SECONDS)
        finally:
            self._saying = None

    async def _say(self) -> None:
        self._unsaid = False
        with suppress(*TROUBLES):  # the others look by themselves
            await self.ear.fetch("SELECT pg_notify($1, $2)", CHANGED, self._name)


class PostgresDatabase:
    """The `SqlDatabase` of one pool."""

    def __init__(self, link: Pool, wrote: Callable[[], None]) -> None:
        """`wrote` is called after a transaction that wrote anything."""
        self._link = link
        self._wrote = wrote

    async def read(self, do: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        """Run several statements that only read."""
        return await self._link.patiently(lambda connection, _: do(PostgresStatements(connection)))

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that only reads."""
        return await self._link.fetch(POSTGRES.translated(statement), *values)

    async def write(self, statement: str, *values: object) -> None:
        """Run one statement that may be repeated and announces no change."""
        await self.fetch(statement, *values)

    async def transaction(
        self, do: Callable[[Statements], Coroutine[Any, Any, T]], *, batched: bool = False
    ) -> T:
        """Run a transaction, always one of its own."""
        return await self._link.transaction(
            lambda connection: do(PostgresStatements(connection)), self._wrote
        )


class PostgresStatements:
    """The `Statements` of the transaction that is open on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        """The rows that a statement returns."""
        return await self._connection.fetch(POSTGRES.translated(statement), *values)

    async def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for each of some rows of values."""
        await self._connection.executemany(POSTGRES.translated(statement), rows)

    async def announce(self, news: str) -> None:
        """Tell all processes of a kind of change, once it is committed."""
        await self._connection.execute("SELECT pg_notify($1, $2)", WAKE, news)


def _cancels() -> int:
    """How often the current task was cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _pool(url: str, most: int) -> Any:
    return _asyncpg.create_pool(url, min_size=0, max_size=most, reset=_nothing, **_SHAPE)


async def _nothing(_connection: Connection) -> None:
    """Do nothing: no state is left on a connection, so there is nothing to reset when it is returned."""


async def _version(connection: Connection, _again: bool) -> int:
    version: int = int(await connection.fetchval("SHOW server_version_num"))
    return version


def storable(text: str) -> str:
    """A text for a column by which rows are found: Postgres takes no zero characters."""
    return text.replace("\0", "\ufffd")
