"""One conversation as a person leads it, whatever the screen: what is said, heard, cut, sent back and told.

A turn that waits for background work is not over: what is typed then is heard at once. What is typed while
the agent works is a letter, which it hears before its next reply.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import Event, TaskCreated, TaskEnded
from gencode.core.task import Task
from gencode.delegation.reach import Verb
from gencode.runtime.ports import TaskQuery
from gencode.surfaces.notices import Notice, ended_meanwhile, named, notice_of
from gencode.surfaces.transcripts import MOST_KEPT, Transcript, adopt, hear, retold
from gencode.surfaces.view import AgentView, View, fold

if TYPE_CHECKING:
    from gencode.app import GenCode
    from gencode.core.spec import AgentSpec
    from gencode.delegation.live import Job

LOOK_SECONDS = 0.5
INTERRUPTED = "a person interrupted it"
STOPPED = "a person stopped it"
MOST_SPOKEN = 256


class Talk:
    """Leads one conversation of an open GenCode.

    `heard` is told every event after it was taken in, `told` every line for the person.
    """

    def __init__(
        self,
        gen: "GenCode",
        *,
        agent: str = "",
        heard: Callable[[Event], None] = lambda _: None,
        told: Callable[[Notice], None] = lambda _: None,
    ) -> None:
        self.gen = gen
        self.view = View()
        self.session: str | None = None
        self.queued: dict[int, str] = {}
        """What was typed and not heard yet, by the number of its letter."""
        self._agent = agent
        self._heard = heard
        self._told = told
        self._spoken: dict[str, Transcript] = {}
        """What every agent is just saying, so that whoever looks at one later misses nothing."""
        self._job: Job | None = None
        self._seqs: dict[str, int] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._beginning = asyncio.Lock()

    @property
    def lead(self) -> AgentView | None:
        """The agent that leads the conversation, once there is one."""
        return self.view.agents.get(self.session) if self.session else None

    @property
    def working(self) -> bool:
        """Whether the agent that leads is at work; not when it only waits for what comes back."""
        return bool(self._open and self.lead and self.lead.working)

    @property
    def _open(self) -> bool:
        return self._job is not None and not self._job.over

    async def listen(self) -> None:
        """Take in everything that happens, until cancelled."""
        listener = self.gen.listen()
        looking = asyncio.create_task(self._look_elsewhere())
        try:
            async for event in listener:
                self.take(event)
        finally:
            looking.cancel()
            listener.close()

    def take(self, event: Event) -> None:
        """Take in one event."""
        if event.seq is not None:
            if event.seq <= self._seqs.get(event.task, 0):
                return
            self._seqs[event.task] = event.seq
        before = self.queued
        self.view = fold(self.view, event)
        self._hear_voice(event)
        if event.task == self.session and before and event.seq is not None:
            self._forget_heard(event)
        if notice := notice_of(self.view, event):
            self._told(notice)
        self._heard(event)
        if isinstance(event.fact, TaskEnded):
            self._spoken.pop(event.task, None)
            self._come_back(event.task)

    async def say(self, text: str) -> None:
        """Say something: it begins a turn, or is heard by the one that is open before its next reply."""
        async with self._beginning:
            if self._open and self.session is not None:
                await self._post(self.session, text)
                return
            await self._begin(lambda: self.gen.start_turn(text, self.session, self._agent))

    async def steer(self, task: str, text: str) -> Task:
        """Say something to any agent; one that has ended is woken by it."""
        found = await self.gen.find(task)
        if found.id == self.session:
            await self.say(text)
            return await self.gen.find(found.id)
        now, woken = await self.gen.work.send(found.id, text)
        if woken:
            self._told(Notice(f"{now.agent} {now.id} had ended and goes on with it.", task=now.id))
        return now

    async def hits(self, task: str, verb: Verb) -> Sequence[Task]:
        """What a verb would hit at this moment."""
        return await self.gen.launcher.reach.hits((await self.gen.find(task)).id, verb)

    async def strike(self, task: str, verb: Verb, message: str = "") -> Sequence[Task]:
        """Do one of the verbs that cut or end, and say what it hit and what goes on."""
        found = await self.gen.find(task)
        reach = self.gen.launcher.reach
        if verb == "interrupt":
            stops = await reach.interrupt(found.id, INTERRUPTED, message)
        else:
            stops = await reach.stop(found.id, STOPPED, tree=verb == "tree", report=verb == "keep")
        self._told(Notice(self._struck(found, verb, stops.hit), task=found.id))
        return stops.hit

    async def interrupt(self) -> None:
        """Cut the turn and what it waits for; what is in the background goes on, and that is said."""
        if self._open and self.session is not None:
            await self.strike(self.session, "interrupt")

    async def send_back(self, task: str = "") -> None:
        """Send an agent, or all that the conversation waits for, to the background."""
        waited = [task] if task else [each.id for each in self.foreground()]
        if not waited:
            raise UserMistake("No agent runs in the foreground, so none can go to the background.")
        for each in waited:
            await self.gen.launcher.reach.send_back((await self.gen.find(each)).id)

    def foreground(self) -> list[AgentView]:
        """The agents that the conversation waits for at this moment."""
        return [
            agent
            for agent in self.view.agents.values()
            if agent.parent == self.session and not agent.background and not agent.status.ended
        ]

    async def open(self, session: str) -> None:
        """Go on with an earlier conversation: everything of it is read, and what came back is told."""
        found = await self.gen.records.find(session, conversation=True)
        if not found.conversation:
            raise UserMistake(f"{found.id} is no conversation; look at it with /open {found.id}.")
        if self._open:
            raise UserMistake("The conversation is at work; interrupt it first, with Esc.")
        self.leave()
        self.session = found.id
        self._agent = "" if found.agent == "main" else found.agent
        await self._read_family(found.id)
        for letter in await self.gen.store.waiting(found.id):
            self.queued[letter.number] = letter.text
        children = await self.gen.store.tasks(TaskQuery(parent=found.id))
        for notice in ended_meanwhile(found, children):
            self._told(notice)

    def leave(self) -> None:
        """Begin anew: the next thing that is said starts a conversation of its own."""
        if self._open:
            raise UserMistake("The conversation is at work; interrupt it first, with Esc.")
        self.session = None
        self._job = None
        self.queued = {}
        self.view = View({task: each for task, each in self.view.agents.items() if not each.status.ended})

    async def transcript(self, task: str, most: int = MOST_KEPT) -> Transcript:
        """All of an agent's transcript up to now, with what it is just saying."""
        events, _ = await self.gen.journal(task)
        found = retold(task, events, most)
        for child in await self.gen.store.tasks(TaskQuery(parent=task)):
            if child.call:
                found = adopt(found, child.id, child.call)
        if live := self._spoken.get(task):
            from msgspec.structs import replace

            found = replace(found, text=live.text, thinking=live.thinking)
        return found

    async def close(self) -> None:
        """Let go of everything that was begun here."""
        for chore in self._chores:
            chore.cancel()
        if self._chores:
            await asyncio.wait(self._chores)

    def _spec(self) -> "AgentSpec":
        agents = self.gen.agents
        return agents.main() if self._agent in ("", "main") else agents.find(self._agent)

    async def _begin(self, start: Callable[[], "asyncio.Future[Job] | object"]) -> None:
        job: Job | None = await start()  # type: ignore[misc]
        if job is not None:
            self._job = job
            self.session = job.id

    async def _post(self, session: str, text: str) -> None:
        """Leave a letter; a turn that ended without hearing it is followed by one that does."""
        number = await self.gen.store.post(session, text, "user")
        self.queued = {**self.queued, number: text}
        now = await self._deliver(session)
        if now.status.ended and now.mailed < number:
            await self._begin(lambda: self.gen.work.hear(self._spec(), session))
