"""How endpoints find tasks: the one that a path names, a page of them, a family (surfaces, server)."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from msgspec.structs import replace

from gencode.core.outcome import Outcome
from gencode.core.task import Task
from gencode.interfaces.http.endpoints import Asked, B, Endpoint, Nothing, Q, endpoint
from gencode.interfaces.http.server_state import Site
from gencode.interfaces.http.tokens import Right
from gencode.journal.store import TaskQuery

MOST_IN_TREE = 1000


def about_task(
    what: str,
    right: Right,
    says: str,
    *,
    answer: Any,
    query: type[Q] = Nothing,
    body: type[B] | None = None,
    status: int = 200,
) -> Callable[[Callable[[Site, Task, Asked[Q, B]], Awaitable[object]]], Endpoint]:
    """Make an endpoint of a function that takes the task of its path; `what` is its method and last word."""
    method, _, verb = what.partition(" ")
    path = f"{method} /api/tasks/{{id}}{f'/{verb}' if verb else ''}"

    def made(call: Callable[[Site, Task, Asked[Q, B]], Awaitable[object]]) -> Endpoint:
        @wraps(call)
        async def called(site: Site, asked: Asked[Q, B]) -> object:
            return await call(site, await site.gen.find(asked.path["id"]), asked)

        return endpoint(path, right, says, answer=answer, query=query, body=body, status=status)(called)

    return made


async def page_of(site: Site, query: TaskQuery, limit: int) -> tuple[list[Outcome], str | None]:
    """The newest tasks that match, newest first, and the one before which the next page begins."""
    page, following = await tasks_on(site, query, limit)
    return await site.gen.history.outcomes(page), following


async def tasks_on(site: Site, query: TaskQuery, limit: int) -> tuple[list[Task], str | None]:
    """The same as they were folded."""
    tasks = await site.gen.history.tasks(replace(query, limit=limit + 1))
    page = tasks[::-1][:limit]
    return page, page[-1].id if len(tasks) > limit else None


async def below(site: Site, root: Task) -> tuple[list[Task], int]:
    """A task and everything below it, up to so many, and how many more there are at least."""
    family = {root.id: root}
    waiting = [root.id]
    more = 0
    while waiting:
        for child in await site.gen.history.tasks(TaskQuery(parent=waiting.pop(0))):
            if child.id in family:
                continue
            if len(family) >= MOST_IN_TREE:
                more += 1
                continue
            family[child.id] = child
            waiting.append(child.id)
    return list(family.values()), more
