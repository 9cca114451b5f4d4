"""The SQL of tables beside the journal, written once for SQLite and Postgres.

Statements have their values as `$1`, `$2`; what the two databases say differently is a part in braces, such
as `{now}` or `{later:$4}`. What is done in a transaction is a coroutine that awaits nothing but its
statements: Postgres answers them one by one, SQLite at once, so that its coroutine never waits.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from gencode.stores.question_table import QuestionTable
    from gencode.stores.schedule_tables import JobTable, OutboxTable

T = TypeVar("T")
Row = Sequence[Any]


class Statements(Protocol):
    """Runs statements inside the open transaction."""

    def fetch(self, statement: str, *values: object) -> Coroutine[Any, Any, Sequence[Row]]:
        """The rows that a statement returns."""
        ...

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> Coroutine[Any, Any, None]:
        """Run a statement for each of some rows of values."""
        ...

    def announce(self, news: str) -> Coroutine[Any, Any, None]:
        """Tell all processes of a kind of change, once it is committed; with SQLite they look."""
        ...


class SqlDatabase(Protocol):
    """A database of either kind."""

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that only reads."""
        ...

    async def read(self, do: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        """Run several statements that only read."""
        ...

    async def write(self, statement: str, *values: object) -> None:
        """Run one statement that may be repeated and announces no change."""
        ...

    async def transaction(
        self, do: Callable[[Statements], Coroutine[Any, Any, T]], *, batched: bool = False
    ) -> T:
        """Run a transaction, and announce a change when it wrote anything.

        One that is `batched` may share its commit with others: if it fails, it does so before it writes.
        """
        ...


class _Part:
    """The SQL of a part in braces; `{}` in it is what follows the colon."""

    def __init__(self, sql: str) -> None:
        self._sql = sql

    def __format__(self, operand: str) -> str:
        return self._sql.format(operand)


class SqlDialect:
    """The SQL in which one database differs from the other."""

    def __init__(self, placeholder: str, **parts: str) -> None:
        self._placeholder = placeholder
        self._parts = {name: _Part(sql) for name, sql in parts.items()}
        self.translated = lru_cache(maxsize=256)(self._translated)
        """A statement in this database's dialect."""

    def _translated(self, statement: str) -> str:
        return statement.format(**self._parts).replace("$", self._placeholder)


SQLITE = SqlDialect(
    "?",
    now="strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    later="strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {} || ' seconds')",
    texts="(SELECT value FROM json_each({}))",
    numbers="(SELECT value FROM json_each({}))",
    number="{}",
    skip_locked="",
    for_update="",
    lock_table="SELECT 1 WHERE 0",
    share="",
    true="1",
    array="{}",
    words="{}",
    contains="instr(' ' || {} || ' ', ' ' || $1 || ' ') > 0",
    stored="CAST({} AS BLOB)",
    still_open="open",
)
POSTGRES = SqlDialect(
    "$",
    now="clock_timestamp()",
    later="(clock_timestamp() + make_interval(secs => {}))",
    texts="(SELECT json_array_elements_text({}::json))",
    numbers="(SELECT json_array_elements_text({}::json)::bigint)",
    number="{}::bigint",
    skip_locked="FOR UPDATE SKIP LOCKED",
    for_update="FOR UPDATE",
    lock_table="LOCK TABLE {} IN EXCLUSIVE MODE",
    share="FOR SHARE OF {}",
    true="true",
    array="string_to_array({}, ' ')",
    words="array_to_string({}, ' ')",
    contains="$1 = ANY({})",
    stored="{}",
    # The account of a task is opened before the append that resumes it, which may fail.
    still_open="""open AND (id = session OR
        (SELECT t.status FROM gen_task t WHERE t.id = gen_account.id) IN ('pending', 'running'))""",
)


@lru_cache(maxsize=64)
def listing(statement: str, count: int) -> str:
    """A statement with a value for each of so few ids in place of `{listed}`; SQLite reads no JSON then."""
    return statement.replace("{listed}", ", ".join(f"${number}" for number in range(1, count + 1)))


def without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine whose every statement is answered at once."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("A transaction of SQLite waited for something else than its statements.")


async def first(rows: Awaitable[Sequence[Row]]) -> Any:
    """The first value of the first row; None where there is no row."""
    found = await rows
    return found[0][0] if found else None


class SideTables:
    """The tables beside the journal, as a part of every store; none is loaded before somebody asks."""

    def __init__(self, database: SqlDatabase, draw: Callable[[], str]) -> None:
        """`draw` makes new ids."""
        self._database = database
        self.draw = draw

    @property
    def schedule(self) -> "JobTable":
        """What is planned for later."""
        from gencode.stores.schedule_tables import JobTable

        return JobTable(self._database, self.draw)

    @property
    def outbox(self) -> "OutboxTable":
        """Messages that are not delivered yet."""
        from gencode.stores.schedule_tables import OutboxTable

        return OutboxTable(self._database)

    @property
    def questions(self) -> "QuestionTable":
        """Where questions wait until a person answers them."""
        from gencode.stores.question_table import QuestionTable

        return QuestionTable(self._database)
