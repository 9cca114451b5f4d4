"""Progress: what the agents behind a call are doing, told to the client that waits (MCP server)."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

from mcp.server.session import ServerSession

from gencode.app import GenCode
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.render.agent_view import AgentView, View, fold, seen
from gencode.interfaces.render.plain_text import seconds, turns

PAUSE_SECONDS = 0.1
HEARTBEAT_SECONDS = 3.0
"""A client that waits hears something after so long, also where nothing changes: some give up otherwise."""
LONGEST = 200
MOST_NEWS = 100


@asynccontextmanager
async def told(
    gen: GenCode, task: Task, session: ServerSession, *, wanted: bool
) -> AsyncGenerator[None, None]:
    """Tell the client inside of this block what a task and the agents below it do, if it wants to know."""
    view = View({task.id: seen(task)})
    await session.report_progress(1, message=line(view.agents[task.id]))
    if not wanted:
        yield
        return
    news: asyncio.Queue[str] = asyncio.Queue(MOST_NEWS)
    working = (
        asyncio.create_task(_follow(gen, task.id, view, news)),
        asyncio.create_task(_tell(session, news, line(view.agents[task.id]))),
    )
    try:
        yield
    finally:
        for each in working:
            each.cancel()
        await asyncio.wait(working)


async def _follow(gen: GenCode, root: str, view: View, news: "asyncio.Queue[str]") -> None:
    """Put every new line about a task and those below it into `news`."""
    last = line(view.agents[root])
    with gen.listen() as listener:
        async for event in listener:
            if not _is_below(gen, event.task, root):
                continue
            view = fold(view, event)
            now = line(view.agents[event.task]) if event.task in view.agents else last
            if now != last:
                last = now
                await news.put(now)


async def _tell(session: ServerSession, news: "asyncio.Queue[str]", last: str) -> None:
    """Report what is new, and what was last reported again where nothing is: the number grows each time."""
    begun = time.monotonic()
    for number in count(2):
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                last = message = await news.get()
        except TimeoutError:
            message = f"{last} ({seconds(time.monotonic() - begun)})"
        await session.report_progress(number, message=message)
        await asyncio.sleep(PAUSE_SECONDS)


def line(agent: AgentView) -> str:
    """Who is at which turn, and does what."""
    name = f"{visible_line(agent.agent or 'agent')} (task {agent.id})"
    step = visible_line(agent.step or str(agent.status), LONGEST)
    return f"{name}, {turns(agent.turns)}: {step}"


def _is_below(gen: GenCode, task: str, root: str) -> bool:
    """Whether a task that runs here is this one, or one that it or its agents sent."""
    passed: set[str] = set()
    while task != root:
        live = gen.supervisor.find(task)
        if live is None or live.task.parent is None or task in passed:
            return False
        passed.add(task)
        task = live.task.parent
    return True
