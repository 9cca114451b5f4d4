"""Progress: what the agents behind a call are doing, told to the client that waits (MCP server)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from mcp.server.session import ServerSession

from gencode.app import GenCode
from gencode.core.task import Task
from gencode.surfaces.plain import turns
from gencode.surfaces.view import AgentView, View, fold, seen
from gencode.surfaces.visible import visible_line

PAUSE_SECONDS = 0.1
LONGEST = 200


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
    telling = asyncio.create_task(_tell(gen, task.id, session, view))
    try:
        yield
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


async def _tell(gen: GenCode, root: str, session: ServerSession, view: View) -> None:
    listener = gen.listen()
    steps = 1
    last = line(view.agents[root])
    try:
        async for event in listener:
            if not _is_below(gen, event.task, root):
                continue
            view = fold(view, event)
            now = line(view.agents[event.task]) if event.task in view.agents else last
            if now != last:
                steps, last = steps + 1, now
                await session.report_progress(steps, message=now)
                await asyncio.sleep(PAUSE_SECONDS)
    finally:
        listener.close()


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
