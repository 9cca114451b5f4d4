"""Progress notifications: tells a client that waits for a call what its subagents are doing."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

import anyio
from mcp.server.session import ServerSession

from gencode.app import GenCode
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.render.agent_view import AgentView, View, fold, seen
from gencode.interfaces.render.number_format import seconds, turns

PAUSE_SECONDS = 0.1
log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
"""A notification is sent at least this often, also without news: some clients give up otherwise."""
LONGEST = 200
MOST_NEWS = 100
DISCONNECTED = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@asynccontextmanager
async def report_progress(
    gen: GenCode, task: Task, session: ServerSession, *, wanted: bool
) -> AsyncGenerator[None, None]:
    """Report the progress of a task and its subagents inside of this block, if the client asked for it."""
    view = View({task.id: seen(task)})
    await session.report_progress(1, message=progress_text(view.agents[task.id]))
    if not wanted:
        yield
        return
    news: asyncio.Queue[str] = asyncio.Queue(MOST_NEWS)
    working = (
        asyncio.create_task(_follow(gen, task.id, view, news)),
        asyncio.create_task(_send(session, news, progress_text(view.agents[task.id]))),
    )
    try:
        yield
    finally:
        for each in working:
            each.cancel()
        await asyncio.wait(working)
        for each in working:
            trouble = None if each.cancelled() else each.exception()
            if trouble is not None and not isinstance(trouble, DISCONNECTED):
                log.error("the progress of task %s could not be reported", task.id, exc_info=trouble)


async def _follow(gen: GenCode, root: str, view: View, news: "asyncio.Queue[str]") -> None:
    """Put every new line about a task and its subagents into `news`."""
    last = progress_text(view.agents[root])
    with gen.listen() as listener:
        async for event in listener:
            if not _is_below(gen, event.task, root):
                continue
            view = fold(view, event)
            now = progress_text(view.agents[event.task]) if event.task in view.agents else last
            if now != last:
                last = now
                await news.put(now)


async def _send(session: ServerSession, news: "asyncio.Queue[str]", last: str) -> None:
    """Report each line of news, or the last one again without news; the number grows each time."""
    begun = time.monotonic()
    for number in count(2):
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                last = message = await news.get()
        except TimeoutError:
            message = f"{last} ({seconds(time.monotonic() - begun)})"
        await session.report_progress(number, message=message)
        await asyncio.sleep(PAUSE_SECONDS)


def progress_text(agent: AgentView) -> str:
    """An agent, its turn and its current step."""
    name = f"{visible_line(agent.agent or 'agent')} (task {agent.id})"
    step = visible_line(agent.step or str(agent.status), LONGEST)
    return f"{name}, {turns(agent.turns)}: {step}"


def _is_below(gen: GenCode, task: str, root: str) -> bool:
    """Whether a task that runs here is the root or one of its subagents."""
    passed: set[str] = set()
    while task != root:
        live = gen.running.find(task)
        if live is None or live.task.parent is None or task in passed:
            return False
        passed.add(task)
        task = live.task.parent
    return True
