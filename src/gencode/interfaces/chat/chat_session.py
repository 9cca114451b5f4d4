"""One conversation as a person leads it, whatever the screen: what is said, heard, cut, sent back and told.

A turn that waits for background work is not over: what is typed then is heard at once. What is typed while
the agent works is a letter, which it hears before its next reply.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gencode.agent.ports import StopAction
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import (
    CallDecided,
    CommandEnded,
    Event,
    MessageAdded,
    ReplyRestarted,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
)
from gencode.core.ids import stamp
from gencode.core.messages import Image, ToolMessage, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.rules import Action
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import Notice, ended_meanwhile, guarded, notice_of
from gencode.interfaces.chat.task_controls import INTERRUPTED, STOPPED, was_hit
from gencode.interfaces.render.agent_view import AgentView, View, busy, fold, name_of, seen
from gencode.interfaces.render.transcript import MOST_KEPT, Transcript, adopt, retold
from gencode.journal.store import TaskQuery

if TYPE_CHECKING:
    from gencode.agent.models import Model
    from gencode.app import GenCode
    from gencode.core.spec import AgentSpec
    from gencode.tasks.running_task import LocalTask

CANNOT_ASK = "it cannot ask you there, and what would be asked is refused"
ANSWER_THERE = "answer it where it runs, or here once it is shown"
AT_WORK = "The conversation is at work; interrupt it first, with Esc."
NO_PICTURES_NOW = (
    "Pictures can only be sent when a turn begins, and this one is still open, so nothing was sent: wait "
    "until it and the agents in the background are done, or cancel it, and send it again."
)
ENDING_SECONDS = 0.5
"""So long a turn whose end was heard may take to be put away."""
COURTESY_SECONDS = 2.0
"""So long whoever led the last turn is left to begin the next one before somebody else does."""
MOST_PIECES = 4_000
REST_SECONDS = 0.25
"""What is written within so long is taken in together."""
LOOK_SECONDS = 1.0
"""A process that dies writes nothing, and its agents end when they are looked at."""
SLACK = timedelta(minutes=1)
"""So far the clocks of machines may differ before the end of a short run could be overlooked."""


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
        relays: bool = True,
    ) -> None:
        """`relays`: questions of other processes are shown where this conversation is."""
        self.gen = gen
        self.view = View()
        self.session: str | None = None
        self._reserved_id = ""
        """The id that the conversation gets with its first prompt, if it was given out before."""
        self.queued: dict[int, str] = {}
        """What was typed and not heard yet, by the number of its letter."""
        self.chosen: Model | None = None
        """The model that somebody chose here, which answers from the next turn on."""
        self._agent = agent
        self._heard = heard
        self.tell = told
        self._voices = Voices()
        self._job: LocalTask | None = None
        self._seqs: dict[str, int] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._beginning = asyncio.Lock()
        self._relays = relays
        self.asked_elsewhere = AskedElsewhere()
        self._lookout = Lookout(self)
        self._came = False
        """Whether a background task has ended since it was last seen to that the lead hears of them all."""

    def reserve_id(self, session: str) -> None:
        """Give the conversation this id with its first prompt."""
        self._reserved_id = session

    @property
    def lead(self) -> AgentView | None:
        """The agent that leads the conversation, once there is one."""
        return self.view.agents.get(self.session) if self.session else None

    @property
    def running(self) -> bool:
        """Whether a turn is open, at work or waiting for what comes back."""
        return self._job is not None and not self._job.over

    @property
    def working(self) -> bool:
        """Whether the agent that leads is at work; not when it only waits for what comes back."""
        return self.running and (self.lead is None or self.lead.working)

    @property
    def led_elsewhere(self) -> bool:
        """Whether another process is at a turn of this conversation."""
        return self.lead is not None and not self.lead.status.ended and not self.running

    async def listen(self) -> None:
        """Take in everything that happens, until cancelled."""
        listener = self.gen.listen()
        beside = (self._lookout.run(), self.gen.recover())
        looking = [asyncio.create_task(guarded(each, self.tell)) for each in beside]
        try:
            async for event in listener:
                self.take(event)
        finally:
            for each in looking:
                each.cancel()
            listener.close()

    def take(self, event: Event) -> None:
        """Take in one event; a fact that comes twice counts once."""
        if event.seq is not None:
            if event.seq <= self._seqs.get(event.task, 0):
                return
            self._seqs[event.task] = event.seq
        self.view = fold(self.view, event)
        if self.session is None and isinstance(event.fact, TaskCreated) and event.fact.conversation:
            self.session = event.task
        agent = self.view.agents.get(event.task)
        self._voices.hear(event, ended=agent is not None and agent.status.ended)
        self._hear_letters(event)
        self._hear_question(event)
        if notice := notice_of(self.view, event):
            self.tell(notice)
        self._heard(event)
        if isinstance(event.fact, TaskEnded):
            self._after_end(event.task)
        elif isinstance(event.fact, CommandEnded) and event.task == self.session:
            self._came = True
            self._do(self._hear_more(event.task, only_letters=False))

    def known(self, task: str) -> int:
        """The number of the last fact of a task that was taken in."""
        return self._seqs.get(task, 0)

    async def say(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Say something: it begins a turn, or is heard by the one that is open before its next reply.

        Pictures begin a turn, and are refused while one is open.
        """
        async with self._beginning:
            if self.session is None or not (self.running or self.led_elsewhere):
                said = UserMessage(text, images=images)
                await self._begin(
                    self.gen.start_turn(said, self.session, self._agent, named=self._reserved_id)
                )
            elif images:
                raise UserMistake(NO_PICTURES_NOW)
            else:
                await self._post(self.session, text)

    async def steer(self, task: str, text: str) -> None:
        """Say something to any agent; one that has ended is woken by it."""
        found = await self.gen.find(task)
        if found.id == self.session:
            await self.say(text)
            return
        # Here, so that it stands in line with the others, and nobody who leaves leaves it behind.
        sent = await self.gen.send(found.id, text, here=not self.gen.uses_workers)
        now = sent.outcome
        who = f"{visible_line(now.agent)} {now.agent_id}"
        if sent.resumed:
            self._lookout.woken.add(now.agent_id)
            way = "what it asks is shown here" if self.woken_ask else CANNOT_ASK
            self.tell(
                Notice(f"{who} had ended and goes on with it in the background; {way}.", task=now.agent_id)
            )
        elif not now.status.ended:
            self.tell(Notice(f"{who} hears it before its next reply.", task=now.agent_id))

    @property
    def woken_ask(self) -> bool:
        """Whether an agent that is woken can ask somebody here: it may run on another machine."""
        here = not self.gen.uses_workers or self._relays
        return self.gen.settings.background_questions and here

    async def hits(self, task: str, verb: StopAction) -> Sequence[Outcome]:
        """What a verb would hit at this moment."""
        return await self.gen.hits(task, verb)

    async def apply_action(self, task: str, verb: StopAction, message: str = "") -> Sequence[Outcome]:
        """Do one of the verbs that cut or end, and say what it hit and what goes on."""
        found = await self.gen.find(task)
        if verb == "interrupt":
            struck = await self.gen.interrupt(found.id, message, why=INTERRUPTED)
        else:
            struck = await self.gen.stop(found.id, keep=verb == "keep", tree=verb == "tree", why=STOPPED)
        hit = {each.agent_id for each in struck.hit}
        behind = [
            f"{name_of(each)} ({each.id})"
            for each in busy(self.view, found.id)
            if each.background and each.id not in hit
        ]
        self.tell(Notice(was_hit(verb, found, struck.hit, behind), task=found.id))
        return struck.hit

    async def compact(self) -> bool:
        """Sum up the conversation, which must be at rest; False when there is too little of it."""
        return self.session is not None and await self.gen.compact(self.session, self._agent)

    async def interrupt(self) -> None:
        """Cut the turn and what it waits for; what is in the background goes on, and that is said."""
        if self.running and self.session is not None:
            await self.apply_action(self.session, "interrupt")

    async def move_to_background(self, task: str = "") -> None:
        """Send an agent, or all that the conversation waits for, to the background."""
        waited = [task] if task else [each.id for each in self.foreground()]
        if not waited:
            raise UserMistake("No agent runs in the foreground, so none can go to the background.")
        for each in waited:
            await self.gen.send_to_background(each)

    def foreground(self) -> list[AgentView]:
        """The agents that the conversation waits for at this moment."""
        return [
            agent
            for agent in self.view.agents.values()
            if agent.parent == self.session and not agent.background and not agent.status.ended
        ]

    async def open(self, session: str) -> None:
        """Go on with an earlier conversation: everything of it is read, and what came back is told."""
        found = await self.gen.find(session, conversation=True)
        if not found.conversation:
            raise UserMistake(f"{found.id} is no conversation; look at it with /open {found.id}.")
        self.leave()
        self.session = found.id
        self._agent = "" if found.agent == "main" else found.agent
        await self._read_family(found)
        await self._read_questions()
        self.queued = {each.number: each.text for each in await self.gen.history.unread(found.id)}
        children = await self.gen.history.tasks(TaskQuery(parent=found.id))
        for notice in ended_meanwhile(found, children):
            self.tell(notice)

    async def last(self) -> str:
        """The conversation of this folder that was touched last."""
        found = await self.gen.history.tasks(TaskQuery(cwd=str(self.gen.workspace.cwd), conversations=True))
        if not found:
            raise UserMistake("There is no earlier conversation in this folder; leave --continue out.")
        return max(found, key=lambda task: task.touched_at).id

    def leave(self) -> None:
        """Begin anew: the next thing that is said starts a conversation of its own."""
        if self.running:
            raise UserMistake(AT_WORK)
        self.session = None
        self._job = None
        self.queued = {}
        self.asked_elsewhere.forget()

    async def transcript(self, task: str, most: int = MOST_KEPT) -> Transcript:
        """An agent's transcript up to now, with what it is just saying."""
        events = (await self.gen.journal(task)).events
        found = retold(task, events, most)
        for child in await self.gen.history.tasks(TaskQuery(parent=task)):
            if child.created.call:
                found = adopt(found, child.id, child.created.call)
        return self._voices.added_to(found, self.known(task))

    async def rest(self) -> None:
        """Wait until no turn is open, and everything of the last one was heard."""
        while self._job is not None and self.running:
            await self._job.wait(ENDING_SECONDS)
        if self._job is not None:  # what is written down and still on its way to us
            for event in await self.gen.history.events(self._job.id, self.known(self._job.id)):
                self.take(event)

    async def close(self) -> None:
        """Let go of everything that was begun here."""
        for chore in self._chores:
            chore.cancel()
        if self._chores:
            await asyncio.wait(self._chores)

    def _spec(self) -> "AgentSpec":
        agents = self.gen.agents
        return agents.main() if self._agent in ("", "main") else agents.find(self._agent)

    async def _begin(self, starting: "Awaitable[LocalTask | None]") -> None:
        job = await starting
        if job is not None:
            self._job = job
            self.session = job.id

    async def _post(self, session: str, text: str) -> None:
        """Leave a letter; a turn that ended without hearing it is followed by one that does."""
        sending = asyncio.ensure_future(self.gen.post(session, text))
        await asyncio.wait([sending], timeout=0.05)
        await self._count_letters(session)
        now = await sending
        if now.status.ended:
            await self._begin(self.gen.start_follow_up(session, self._agent))
        await self._count_letters(session)

    async def _count_letters(self, session: str) -> None:
        self.queued = {each.number: each.text for each in await self.gen.history.unread(session)}

    def _hear_letters(self, event: Event) -> None:
        match event.fact:
            case MessageAdded(UserMessage(mail=mail)) if mail and event.task == self.session:
                self.queued = {number: text for number, text in self.queued.items() if number > mail}
            case _:
                pass

    def _hear_question(self, event: Event) -> None:
        if event.seq is not None and self.gen.running.find(event.task) is None:
            self.asked_elsewhere.hear(event)

    def tell_questions(self) -> None:
        """An agent of another process may ask somebody there: that is said here, if it still waits."""
        for task, tool in self.asked_elsewhere.news():
            if agent := self.view.agents.get(task):
                text = f"{name_of(agent)} ({task}) asks whether it may use {visible_line(tool, 60)}: "
                self.tell(Notice(f"{text}{ANSWER_THERE}.", "warning", task, asks=True))

    async def _read_questions(self) -> None:
        """The questions that waited already when the conversation was opened."""
        for agent in list(self.view.agents.values()):
            if not agent.status.ended and self.gen.running.find(agent.id) is None:
                for event in (await self.gen.journal(agent.id)).events:
                    self.asked_elsewhere.hear(event)

    def _after_end(self, task: str) -> None:
        """A turn that ended may have left letters unheard, a background task has something to tell."""
        agent = self.view.agents[task]
        if task == self.session and agent.status is Status.COMPLETED:
            self._do(self._hear_more(task, only_letters=True))
        elif agent.background and agent.parent == self.session and self.session:
            self._came = True
            self._do(self._hear_more(self.session, only_letters=False))

    async def _hear_more(self, session: str, *, only_letters: bool) -> None:
        if self._job is not None and self.lead is not None and self.lead.status.ended:
            await self._job.wait(ENDING_SECONDS)
            if only_letters and not self._came and not await self.gen.history.unread(session):
                return
        if not await self._led_last():
            if not self._came:
                return
            await asyncio.sleep(COURTESY_SECONDS)
        async with self._beginning:
            if not self.running and session == self.session and await self._rests(session):
                self._came = False
                try:
                    await self._begin(self.gen.start_follow_up(session, self._agent))
                except UserMistake:
                    if await self._rests(session):  # and nobody else has begun it at the same moment
                        raise

    async def _led_last(self) -> bool:
        """Whether the last turn was led here; of several terminals that one begins the next by itself."""
        if self._job is None:
            return False
        return (await self.gen.find(self._job.id)).end.at == self._job.task.end.at

    async def _rests(self, session: str) -> bool:
        """Whether nobody is at a turn of a conversation, and nobody but us has stopped the last one."""
        now = await self.gen.find(session)
        return await self._led_last() or (now.status.ended and now.status is not Status.CANCELLED)

    def _do(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(guarded(chore, self.tell))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        task.add_done_callback(lambda _: chore.close())  # it may be let go of before it began

    async def _read_family(self, root: Task) -> None:
        """Everything below a task, as the journal tells it."""
        level = [root]
        while level:
            fresh = {each.id: seen(each) for each in level}
            self.view = View({**self.view.agents, **fresh})
            self._seqs |= {each.id: each.seq for each in level}
            found = [await self.gen.history.tasks(TaskQuery(parent=each.id)) for each in level]
            level = [each for several in found for each in several if each.id not in self.view.agents]


class Voice:
    """The pieces of a reply that is being spoken; only the last ones are kept."""

    def __init__(self) -> None:
        self.text: deque[str] = deque(maxlen=MOST_PIECES)
        self.thinking: deque[str] = deque(maxlen=MOST_PIECES)


class Voices:
    """The replies that are being spoken, each until it is written down."""

    def __init__(self) -> None:
        self._by_task: dict[str, Voice] = {}

    def hear(self, event: Event, *, ended: bool) -> None:
        """Take in one event; pieces of an agent that has `ended` were read from the journal already."""
        match event.fact:
            case TextArrived(text) if not ended:
                self._by_task.setdefault(event.task, Voice()).text.append(text)
            case ThinkingArrived(text) if not ended:
                self._by_task.setdefault(event.task, Voice()).thinking.append(text)
            case ReplyRestarted():
                self._by_task.pop(event.task, None)
            case _ if event.seq is not None:
                self._by_task.pop(event.task, None)
            case _:
                pass

    def added_to(self, transcript: Transcript, known: int) -> Transcript:
        """A transcript from the journal with what its agent is just saying.

        `known` is the last fact of it that was heard: where the journal knows more, the words may be there.
        """
        voice = self._by_task.get(transcript.task)
        if voice is None or transcript.seq > known:
            return transcript
        return replace(transcript, text="".join(voice.text), thinking="".join(voice.thinking))


class AskedElsewhere:
    """The calls for which an answer is awaited, by task and by call, as the journal tells it."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[str, str]] = {}
        self._told: set[tuple[str, str]] = set()

    def hear(self, event: Event) -> None:
        """Take in one fact of a task of another process."""
        match event.fact:
            case CallDecided(call=call, tool=tool, decision=decision) if decision.action is Action.ASK:
                self._waits.setdefault(event.task, {})[call] = tool
            case CallDecided(call=call):
                self._waits.get(event.task, {}).pop(call, None)
            case TaskEnded() | MessageAdded(ToolMessage()):
                self._waits.pop(event.task, None)
            case _:
                pass

    def news(self) -> list[tuple[str, str]]:
        """The tasks that ask and the tools they ask about; each is told once."""
        waits = [(task, call, tool) for task, calls in self._waits.items() for call, tool in calls.items()]
        new = [(task, tool) for task, call, tool in waits if (task, call) not in self._told]
        self._told = {(task, call) for task, call, _ in waits}
        return new

    def forget(self) -> None:
        """Another conversation is looked at."""
        self._waits = {}

    @property
    def first(self) -> tuple[str, str] | None:
        """The task that waits longest, and the tool it asks about."""
        found = ((task, tool) for task, calls in self._waits.items() for tool in calls.values())
        return next(found, None)


class Lookout:
    """Looks at what other processes run below one conversation, and lets it take in what is written there."""

    def __init__(self, talk: "Talk") -> None:
        self._talk = talk
        self._since = datetime.now(UTC)
        self.woken: set[str] = set()
        """Agents that were woken here, of which nothing was heard yet; that they go on was said."""

    async def run(self) -> None:
        """Look whenever something was written, until cancelled."""
        async for _ in self._talk.gen.history.changes.looks(LOOK_SECONDS):
            await self._look_at_open()
            await self._look_at_all()
            self._talk.tell_questions()
            await asyncio.sleep(REST_SECONDS)

    async def _look_at_open(self) -> None:
        """Hear more of those that are at work elsewhere, and of the conversation itself."""
        talk = self._talk
        for agent in list(talk.view.agents.values()):
            rests = agent.status.ended and agent.id != talk.session
            if rests or talk.gen.running.find(agent.id) is not None:
                continue
            try:
                await talk.gen.history.current(agent.id)
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
            for task in await talk.gen.history.tasks(query):
                if task.seq > talk.known(task.id) and talk.gen.running.find(task.id) is None:
                    await self._catch_up(task.id)
            self._since = now
        except GenCodeError:
            return

    async def _catch_up(self, task: str) -> None:
        """Take in what was written of a task, and say so when it had ended and goes on."""
        talk = self._talk
        await asyncio.sleep(0)  # what a turn that ended here has said is still queued, and is taken in first
        written = (await talk.gen.journal(task, talk.known(task))).events
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
