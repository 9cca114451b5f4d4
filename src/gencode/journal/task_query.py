"""runtime: which tasks somebody wants to see."""

from msgspec import Struct

from gencode.core.status import Status


class TaskQuery(Struct, frozen=True):
    """Which tasks to list; every field that is set narrows the list.

    `roots` are those that no task asked for; `before` is a task that all of them are older than; `unheard`
    are those at rest to which somebody wrote what they have not heard.
    """

    parent: str | None = None
    cwd: str | None = None
    statuses: tuple[Status, ...] = ()
    ended_after: str | None = None
    conversations: bool | None = None
    limit: int | None = None
    roots: bool = False
    agent: str | None = None
    before: str | None = None
    unheard: bool = False
    parents: tuple[str, ...] = ()
