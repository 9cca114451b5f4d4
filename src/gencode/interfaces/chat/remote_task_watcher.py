"""What other processes do to the agents of a conversation, as whoever leads it hears of it: from the journal.

An agent that has ended may go on there. It is heard of again; what it came to is told like any result, to a
turn that is open by `tasks/delivery.py`.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gencode.core.errors import GenCodeError
from gencode.core.events import Event, TaskQueued, TaskStarted
from gencode.core.ids import stamp
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.render.agent_view import AgentView
from gencode.interfaces.render.number_format import name_of
from gencode.journal.store import TaskQuery
from gencode.tasks.watch import readable_events

if TYPE_CHECKING:
    from gencode.interfaces.chat.chat_session import Talk

REST_SECONDS = 0.25
"""What is written within so long is taken in together."""
LOOK_SECONDS = 1.0
"""A process that dies writes nothing, and its agents end when they are looked at."""
SLACK = timedelta(minutes=1)
"""So far the clocks of machines may differ before the end of a short run could be overlooked."""


class Lookout:
    """Looks at what other processes run below one conversation, and lets it take in what is written there."""

    def __init__(self, talk: "Talk") -> None:
        self._talk = talk
        self._since = datetime.now(UTC)
        self.woken: set[str] = set()
        """Agents that were woken here, of which nothing was heard yet; that they go on was said."""

    async def run(self) -> None:
        """Look whenever something was written, until cancelled."""
        async for _ in self._talk.gen.store.changes.looks(LOOK_SECONDS):
            await self._look_at_open()
            await self._look_at_all()
            self._talk.tell_questions()
            await asyncio.sleep(REST_SECONDS)

    async def _look_at_open(self) -> None:
        """Hear more of those that are at work elsewhere, and of the conversation itself."""
        talk = self._talk
        for agent in list(talk.view.agents.values()):
            rests = agent.status.ended and agent.id != talk.session
            if rests or talk.gen.supervisor.find(agent.id) is not None:
                continue
            try:
                await talk.gen.watch.task(agent.id)
                await self._catch_up(agent.id)
            except GenCodeError:
                continue

    async def _look_at_all(self) -> None:
        """Meet those that were sent or go on meanwhile, all with one question to the journal."""
        talk, now = self._talk, datetime.now(UTC)
        if talk.session is None:
            return
        family = (talk.session, *talk.view.launched(talk.session))
        try:
            query = TaskQuery(parents=family, ended_after=stamp(self._since - SLACK))
            for task in await talk.gen.store.tasks(query):
                if task.seq > talk.known(task.id) and talk.gen.supervisor.find(task.id) is None:
                    await self._catch_up(task.id)
            self._since = now
        except GenCodeError:
            return

    async def _catch_up(self, task: str) -> None:
        """Take in what was written of a task, and say so when it had ended and goes on."""
        talk = self._talk
        await asyncio.sleep(0)  # what a turn that ended here has said is still queued, and is taken in first
        written, _ = await readable_events(talk.gen.store, task, talk.known(task))
        before = talk.view.agents.get(task)
        fresh = [each for each in written if (each.seq or 0) > talk.known(task)]
        if before is not None and before.status.ended and task != talk.session and _begins(fresh):
            self._tell_woken(before)
        for event in fresh:
            talk.take(event)

    def _tell_woken(self, agent: AgentView) -> None:
        if agent.id not in self.woken:
            text = f"{name_of(agent)} ({agent.id}) had ended and was woken elsewhere; it goes on there."
            self._talk.tell(Notice(text, task=agent.id))
        self.woken.discard(agent.id)


def _begins(events: Iterable[Event]) -> bool:
    return any(isinstance(each.fact, TaskStarted | TaskQueued) for each in events)
