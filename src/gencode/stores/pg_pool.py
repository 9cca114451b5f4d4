"""Connections to Postgres: a pool that reconnects, and a listener for notifications.

A step that the server could not take, because it restarts or the network fails, is taken again for as long as
somebody is willing to wait. The step is then told so: what it sent before may have been written.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
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

T = TypeVar("T")
_asyncpg: Any = asyncpg
"""Its own types are too vague to check against."""
Connection = Any
"""A connection of asyncpg, or its stand-in of a pool."""
Step = Callable[[Connection, bool], Awaitable[T]]
"""Something to do on a connection; the flag says that an earlier try may have been written."""

PATIENCE = 10.0
"""Seconds for which the server may be away before a step gives up."""
FIRST_PATIENCE = 3.0
"""The same for a server that has never answered: it may start anew, or not be there at all."""
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 10.0
"""A server that is cut off without a word is noticed after so long."""
IDLE_SECONDS = 5.0
"""Who is stopped inside a transaction holds its locks for so long; then the server ends it."""
MOST_CONNECTIONS = 8
MOST_KEPT = 2
OFTEN = 20
"""Who has taken so many swift steps gets connections of its own for them."""
_SHORT_PAUSE = 0.02
_LONG_PAUSE = 0.5
_SETTINGS = {
    "application_name": "gencode",
    "idle_in_transaction_session_timeout": str(int(IDLE_SECONDS * 1000)),
}
_SHAPE = {"timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS, "server_settings": _SETTINGS}
WAKE = "gen_wake"
"""The channel that tells an owner to look; nothing rests on its words being heard."""
CHANGED = "gen_changed"
"""The channel on which every process says that it has written something, at most every so often."""
SAY_SECONDS = 0.05
LOOK_SECONDS = 1.0
"""While somebody waits for a change, it is taken for possible so often that one was not heard of."""


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
        """Connect; a server that is not there is not waited for as long as one that was."""
        address = shown(check_url(url))
        link = cls(url, _pool(url, most), patience)
        version = 0
        try:
            await link.pool
            version = await link.patiently(_version, min(patience, FIRST_PATIENCE))
            if version // 10_000 < OLDEST:
                raise too_old(version // 10_000, address)
        except ValueError:  # its words may show a part of the password
            raise unreadable() from None
        finally:
            if version // 10_000 < OLDEST:
                link.pool.terminate()
        return link

    async def another_pool(self, most: int, lost: Callable[[], None]) -> Any:
        """More connections, for what may be forgotten when the server dies; `lost` is told of their end."""

        def ended(_connection: Connection) -> None:
            lost()

        async def begin(connection: Connection) -> None:
            connection.add_termination_listener(ended)

        ever = {"max_inactive_connection_lifetime": 0.0, "init": begin, "reset": _nothing}
        swift = {"server_settings": {**_SETTINGS, "synchronous_commit": "off"}}
        return await _asyncpg.create_pool(self.url, min_size=0, max_size=most, **ever, **_SHAPE | swift)

    def cut(self) -> None:
        """End all connections at once, so that nothing waits for a server that does not answer."""
        self._cut = True
        self.pool.terminate()
        while self._kept:
            self._kept.pop().terminate()

    async def close(self) -> None:
        """Let go of all connections."""
        self._closed = True
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while self._kept:
                    await self._kept.pop().close()
                await self.pool.close()
        except TROUBLES:
            self.pool.terminate()

    async def patiently(self, step: Step[T], patience: float | None = None) -> T:
        """Take a step; while the server is away, sleep (a little longer each time) and take it again."""
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
                if _cancels() > cancels:  # the error of a transaction that could not be undone hid it
                    raise asyncio.CancelledError from None
                if self._closed:
                    raise StoreTrouble(CLOSED) from None
                if not waiting_helps(error) or time.monotonic() > until:
                    raise trouble(error, self.address) from error
                again = True
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(1000) / 1000))
            pause = min(pause * 2, _LONG_PAUSE)

    async def swiftly(self, step: Step[T]) -> T:
        """The same on a connection that is kept for this, which spares a third of the cost."""
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

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """The rows of a statement that may be repeated."""
        return await self.patiently(lambda connection, _: connection.fetch(statement, *values))


@asynccontextmanager
async def alone(connection: Connection, number: int) -> AsyncGenerator[None]:
    """A transaction while nobody else is in one with the same number, on whatever machine."""
    # Each statement sees what others made while this one waited; and a lock of the transaction ends with it.
    async with connection.transaction(isolation="read_committed"):
        await connection.execute("SELECT pg_advisory_xact_lock($1)", number)
        yield


class NotifyListener:
    """Listens for notifications on a connection of its own, which also renews leases without waiting."""

    def __init__(self, link: Pool, told: Callable[[str], None]) -> None:
        """`told` is called with whatever is heard, and with nothing when something may have been missed."""
        self._link = link
        self._told = told
        self._connection: Any = None
        self._busy = False
        self._connecting = asyncio.Lock()
        self._heard: set[str] = set()
        self._looked: dict[str, float] = {}

    def hear(self, owner: str) -> None:
        """Something is new for an owner."""
        self._heard.add(owner)

    async def quiet(self, what: str, owner: str, seconds: float) -> bool:
        """Whether nothing was heard for an owner since `what` was last looked at, not so long ago."""
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
        """What a statement gives on this connection; TROUBLES when that is not possible at this moment."""
        if not await self._listening() or self._busy:
            raise ConnectionError("not connected, or at another statement")
        self._busy = True
        try:
            return await self._connection.fetch(statement, *values, timeout=CONNECT_SECONDS)
        finally:
            self._busy = False

    @property
    def listens(self) -> bool:
        """Whether it hears what is said at this moment."""
        return self._connection is not None and not self._connection.is_closed()

    async def listen(self) -> bool:
        """Hear what is said from now on; False when that is not possible."""
        return await self._listening()

    def cut(self) -> None:
        """End the connection at once."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        """Let go of the connection."""
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
            self._looked.clear()  # whatever was said meanwhile was not heard
            self._told("")
        return True

    def _called(self, _connection: object, _process: int, channel: str, said: object) -> None:
        if channel == WAKE:
            self._heard.add(str(said))
        self._told(str(said))


class PostgresChanges(ChangeNotifier):
    """The changes of a database: this process says when it has written, and listens while somebody waits."""

    def __init__(self, link: Pool) -> None:
        super().__init__()
        self._watching: asyncio.Task[None] | None = None
        self._saying: asyncio.Task[None] | None = None
        self._unsaid = False
        self._name = secrets.token_hex(8)
        self.ear = NotifyListener(link, self._heard)
        """What it listens with."""

    def note(self) -> None:
        """Something was written here: others are told of it, too."""
        super().note()
        self._unsaid = True
        if self._saying is None:
            self._saying = asyncio.get_running_loop().create_task(self._said())

    def watch(self) -> None:
        """Notice what other processes write, for as long as changes are awaited."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watched())

    async def aclose(self) -> None:
        """Wake everybody, and tell others of the last change."""
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
        with suppress(*TROUBLES):  # who was not told looks by itself
            await self.ear.fetch("SELECT pg_notify($1, $2)", CHANGED, self._name)


def _cancels() -> int:
    """How often somebody asked for the end of whatever runs here."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _pool(url: str, most: int) -> Any:
    return _asyncpg.create_pool(url, min_size=0, max_size=most, reset=_nothing, **_SHAPE)


async def _nothing(_connection: Connection) -> None:
    """No state is ever left on a connection, so there is nothing to reset when it goes back."""


async def _version(connection: Connection, _again: bool) -> int:
    version: int = int(await connection.fetchval("SHOW server_version_num"))
    return version


def storable(text: str) -> str:
    """A text for a column by which rows are found: Postgres takes no zero characters."""
    return text.replace("\0", "\ufffd")
