"""The session behind every conversation screen: messages, turns, actions on agents, and what to show of them.

While the agent works, a message is queued and read before its next reply. A turn that only waits for
background tasks answers a message at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

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
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import Notice, notice_of, report_errors, results_while_closed
from gencode.interfaces.chat.task_controls import INTERRUPTED, STOPPED, action_report
from gencode.interfaces.chat.user_command import run_user_command
from gencode.interfaces.render.agent_view import AgentView, View, busy, context_of, fold, name_of, seen
from gencode.interfaces.render.transcript import MOST_KEPT, Transcript, adopt, retold
from gencode.journal.store import TaskQuery

if TYPE_CHECKING:
    from gencode.agent.models import Model
    from gencode.app import GenCode
    from gencode.tasks.running_task import LocalTask

CANNOT_ASK = "it cannot ask you there, so calls that need approval are refused"
ANSWER_THERE = "answer in that terminal, or here once it appears"
STILL_RUNNING = "The agent is working. Interrupt it first, with Esc."
NO_PICTURES_NOW = (
    "Images can only be sent at the start of a turn, and one is still running. Nothing was sent. Wait until "
    "it and its background agents have finished, or cancel it, then send it again."
)
ENDING_SECONDS = 0.5
"""How long a turn whose end was seen may take to be cleaned up."""
FOLLOWUP_DELAY_SECONDS = 2.0
"""The process that ran the last turn has this long to start the next one before another does."""
MAX_PIECES = 4_000
QUICK_SECONDS = 0.5
"""A command of the person that takes longer is said to run."""
BATCH_SECONDS = 0.25
"""Events that are written within this time are read together."""
LOOK_SECONDS = 1.0
"""How often tasks are checked without an event: a process that dies writes nothing."""
CLOCK_TOLERANCE = timedelta(minutes=1)
"""How far the clocks of machines may differ before the end of a short run is missed."""


class ChatSession:
    """One conversation of an open GenCode: sends messages, follows events, applies actions.

    `on_event` gets every event once it was taken in, `on_notice` every line for the person.
    """

    def __init__(
        self,
        gen: "GenCode",
        *,
        agent: str = "",
        on_event: Callable[[Event], None] = lambda _: None,
        on_notice: Callable[[Notice], None] = lambda _: None,
        relays_questions: bool = True,
    ) -> None:
        """`relays_questions`: questions of other processes are shown where this conversation is."""
        self.gen = gen
        self.view = View()
        self.session: str | None = None
        self._reserved_id = ""
        """The id that the conversation gets with its first prompt, if it was given out before."""
        self.queued: dict[int, str] = {}
        """Queued messages that were not read yet, by number."""
        self.chosen_model: Model | None = None
        """The model chosen here, for the next turns."""
        self._agent = agent
        self._on_event = on_event
        self.notify = on_notice
        self._partial_replies = PartialReplies()
        self._job: LocalTask | None = None
        self._seqs: dict[str, int] = {}
        self._background_work: set[asyncio.Task[None]] = set()
        self._turn_lock = asyncio.Lock()
        self._relays_questions = relays_questions
        self.remote_questions = RemoteQuestions()
        self._remote_tasks = RemoteTaskWatcher(self)
        self._user_command: asyncio.Task[str] | None = None
        self._early_outputs: list[str] = []
        """What commands have written before the first prompt, with which it is sent."""
        self._background_ended = False
        """Whether a background task has ended since the main agent was last given all results."""

    def reserve_id(self, session: str) -> None:
        """Give the conversation this id with its first prompt."""
        self._reserved_id = session

    @property
    def main_agent(self) -> AgentView | None:
        """The main agent, once there is one."""
        return self.view.agents.get(self.session) if self.session else None

    @property
    def running(self) -> bool:
        """Whether a turn is open: working, or waiting for background tasks."""
        return self._job is not None and not self._job.over

    @property
    def working(self) -> bool:
        """Whether the main agent works; not when it only waits for background tasks."""
        return self.running and (self.main_agent is None or self.main_agent.working)

    @property
    def running_elsewhere(self) -> bool:
        """Whether another process runs a turn of this conversation."""
        return self.main_agent is not None and not self.main_agent.status.ended and not self.running

    async def listen(self) -> None:
        """Follow all events until cancelled."""
        listener = self.gen.listen()
        beside = (self._remote_tasks.run(), self.gen.recover())
        looking = [asyncio.create_task(report_errors(each, self.notify)) for each in beside]
        try:
            async for event in listener:
                self.receive(event)
        finally:
            for each in looking:
                each.cancel()
            listener.close()

    def receive(self, event: Event) -> None:
        """Apply one event; a stored event is applied once."""
        if event.seq is not None:
            if event.seq <= self._seqs.get(event.task, 0):
                return
            self._seqs[event.task] = event.seq
        self.view = fold(self.view, event)
        if self.session is None and isinstance(event.fact, TaskCreated) and event.fact.conversation:
            self.session = event.task
        agent = self.view.agents.get(event.task)
        self._partial_replies.receive(event, ended=agent is not None and agent.status.ended)
        self._drop_delivered(event)
        self._note_question(event)
        if notice := notice_of(self.view, event):
            self.notify(notice)
        self._on_event(event)
        if isinstance(event.fact, TaskEnded):
            self._after_end(event.task)
        elif isinstance(event.fact, CommandEnded) and event.task == self.session:
            self._background_ended = True
            self._start(self._start_followup(event.task, only_messages=False))

    def last_seq(self, task: str) -> int:
        """The number of the last stored event of a task that was applied."""
        return self._seqs.get(task, 0)

    async def send(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Send a message: it starts a turn, or is queued for the next reply of the open one.

        Pictures begin a turn, and are refused while one is open.
        """
        async with self._turn_lock:
            if self.session is None or not (self.running or self.running_elsewhere):
                said = UserMessage("\n\n".join((text, *self._early_outputs)), images=images)
                await self._begin(
                    self.gen.start_turn(said, self.session, self._agent, named=self._reserved_id)
                )
                self._show_early_outputs([])
            elif images:
                raise UserMistake(NO_PICTURES_NOW)
            else:
                await self._queue_message(self.session, text)

    async def run_command(self, command: str, task: str = "") -> str:
        """Run a shell command of the person; its output joins the conversation, and is returned.

        An agent at work reads it before its next reply, an idle one with the next message.
        """
        if self._user_command is not None:
            raise UserMistake("Your last command is still running. Stop it with Esc, then try again.")
        ran = self._user_command = asyncio.create_task(run_user_command(command, self.gen.workspace.cwd))
        try:
            if not (await asyncio.wait([ran], timeout=QUICK_SECONDS))[0]:
                self.notify(Notice(f"Running: {visible_line(command, 100)} (Esc stops it)"))
            await asyncio.wait([ran])
        finally:
            ran.cancel()
            self._user_command = None
        if ran.cancelled():
            self.notify(Notice(f"Stopped: {visible_line(command, 100)}", "warning"))
            return ""
        if task and task != self.session:
            await self.steer(task, ran.result())
        elif self.session is None:
            self._show_early_outputs([*self._early_outputs, ran.result()])
        elif self.running or self.running_elsewhere:
            await self._queue_message(self.session, ran.result())
        else:
            await self.gen.post(self.session, ran.result())
            await self._read_queue(self.session)
        return ran.result()

    def stop_command(self) -> bool:
        """Stop the command of the person that runs; whether there was one."""
        return self._user_command is not None and self._user_command.cancel()

    def _show_early_outputs(self, outputs: list[str]) -> None:
        if outputs or self._early_outputs:
            self._early_outputs = outputs
            self.queued = dict(enumerate(outputs))

    async def steer(self, task: str, text: str) -> None:
        """Send a message to any agent; a finished one is resumed by it."""
        found = await self.gen.find(task)
        if found.id == self.session:
            await self.send(text)
            return
        # Here, so that it stands in line with the others, and nobody who leaves leaves it behind.
        sent = await self.gen.send(found.id, text, here=not self.gen.uses_workers)
        now = sent.outcome
        who = f"{visible_line(now.agent)} {now.agent_id}"
        if sent.resumed:
            self._remote_tasks.woken.add(now.agent_id)
            way = "its questions appear here" if self.woken_can_ask else CANNOT_ASK
            self.notify(
                Notice(f"{who} had finished. It resumes in the background; {way}.", task=now.agent_id)
            )
        elif not now.status.ended:
            self.notify(Notice(f"Message queued for {who}.", task=now.agent_id))

    @property
    def woken_can_ask(self) -> bool:
        """Whether a resumed agent can ask somebody here: it may run on another machine."""
        here = not self.gen.uses_workers or self._relays_questions
        return self.gen.settings.background_questions and here

    async def affected_tasks(self, task: str, verb: StopAction) -> Sequence[Outcome]:
        """The tasks that an action would affect at this moment."""
        return await self.gen.affected(task, verb)

    async def apply_action(self, task: str, verb: StopAction, message: str = "") -> Sequence[Outcome]:
        """Interrupt or stop a task, and report what was stopped and what still runs."""
        found = await self.gen.find(task)
        if verb == "interrupt":
            result = await self.gen.interrupt(found.id, message, why=INTERRUPTED)
        else:
            result = await self.gen.stop(found.id, keep=verb == "keep", tree=verb == "tree", why=STOPPED)
        affected = {each.agent_id for each in result.affected}
        behind = [
            f"{name_of(each)} ({each.id})"
            for each in busy(self.view, found.id)
            if each.background and each.id not in affected
        ]
        self.notify(Notice(action_report(verb, found, result.affected, behind), task=found.id))
        return result.affected

    async def compact(self) -> bool:
        """Summarise the conversation, which must be idle; False when there is too little of it."""
        return self.session is not None and await self.gen.compact(self.session, self._agent)

    async def interrupt(self) -> None:
        """Interrupt the turn and what it waits for; background tasks continue and are reported."""
        if self.running and self.session is not None:
            await self.apply_action(self.session, "interrupt")

    async def move_to_background(self, task: str = "") -> None:
        """Move an agent, or all that the conversation waits for, to the background."""
        waited = [task] if task else [each.id for each in self.foreground_agents()]
        if not waited:
            raise UserMistake("No agent is running in the foreground.")
        for each in waited:
            await self.gen.send_to_background(each)

    def foreground_agents(self) -> list[AgentView]:
        """The agents that the conversation waits for at this moment."""
        return [
            agent
            for agent in self.view.agents.values()
            if agent.parent == self.session and not agent.background and not agent.status.ended
        ]

    async def open(self, session: str) -> None:
        """Resume an earlier conversation: read all of it, and report results that came meanwhile."""
        found = await self.gen.find(session, conversation=True)
        if not found.conversation:
            raise UserMistake(f"{found.id} is a subagent, not a conversation. Open it with /open {found.id}.")
        self.start_new()
        self.session = found.id
        self._agent = "" if found.agent == "main" else found.agent
        await self._read_descendants(found)
        await self._read_questions()
        self.queued = {each.number: each.text for each in await self.gen.history.unread(found.id)}
        children = await self.gen.history.tasks(TaskQuery(parent=found.id))
        for notice in results_while_closed(found, children):
            self.notify(notice)

    async def latest_session(self) -> str:
        """The conversation of this folder that was used last."""
        found = await self.gen.history.tasks(TaskQuery(cwd=str(self.gen.workspace.cwd), conversations=True))
        if not found:
            raise UserMistake("No earlier conversation in this folder. Start a new one without --continue.")
        return max(found, key=lambda task: task.touched_at).id

    def start_new(self) -> None:
        """The next message starts a new conversation."""
        if self.running:
            raise UserMistake(STILL_RUNNING)
        self.session = None
        self._job = None
        self.queued = {}
        self._early_outputs = []
        self.remote_questions.clear()

    async def transcript(self, task: str, most: int = MOST_KEPT) -> Transcript:
        """An agent's transcript up to now, with its partial reply."""
        events = (await self.gen.journal(task)).events
        agent = self.view.agents.get(task)
        if agent is not None and not agent.context:  # read from the store: no reply was seen live
            self.view = View({**self.view.agents, task: replace(agent, context=context_of(events))})
        found = retold(task, events, most)
        for child in await self.gen.history.tasks(TaskQuery(parent=task)):
            if child.created.call:
                found = adopt(found, child.id, child.created.call)
        return self._partial_replies.added_to(found, self.last_seq(task))

    async def wait_until_idle(self) -> None:
        """Wait until no turn is open and all events of the last one were applied."""
        while self._job is not None and self.running:
            await self._job.wait(ENDING_SECONDS)
        if self._job is not None:  # what is written down and still on its way to us
            for event in await self.gen.history.events(self._job.id, self.last_seq(self._job.id)):
                self.receive(event)

    async def close(self) -> None:
        """Cancel everything that was started here."""
        for chore in self._background_work:
            chore.cancel()
        if self._background_work:
            await asyncio.wait(self._background_work)

    async def _begin(self, starting: "Awaitable[LocalTask | None]") -> None:
        job = await starting
        if job is not None:
            self._job = job
            self.session = job.id

    async def _queue_message(self, session: str, text: str) -> None:
        """Queue a message; if the turn ends without reading it, start one that does."""
        sending = asyncio.ensure_future(self.gen.post(session, text))
        await asyncio.wait([sending], timeout=0.05)
        await self._read_queue(session)
        now = await sending
        if now.status.ended:
            await self._begin(self.gen.start_follow_up(session, self._agent))
        await self._read_queue(session)

    async def _read_queue(self, session: str) -> None:
        self.queued = {each.number: each.text for each in await self.gen.history.unread(session)}

    def _drop_delivered(self, event: Event) -> None:
        match event.fact:
            case MessageAdded(UserMessage(mail=mail)) if mail and event.task == self.session:
                self.queued = {number: text for number, text in self.queued.items() if number > mail}
            case _:
                pass

    def _note_question(self, event: Event) -> None:
        if event.seq is not None and self.gen.running.find(event.task) is None:
            self.remote_questions.receive(event)

    def report_questions(self) -> None:
        """Report questions of other processes that still wait for an answer."""
        for task, tool in self.remote_questions.unreported():
            if agent := self.view.agents.get(task):
                text = f"{name_of(agent)} ({task}) needs approval to use {visible_line(tool, 60)}: "
                self.notify(Notice(f"{text}{ANSWER_THERE}.", "warning", task, asks=True))

    async def _read_questions(self) -> None:
        """Find the questions that were open already when the conversation was opened."""
        for agent in list(self.view.agents.values()):
            if not agent.status.ended and self.gen.running.find(agent.id) is None:
                for event in (await self.gen.journal(agent.id)).events:
                    self.remote_questions.receive(event)

    def _after_end(self, task: str) -> None:
        """Start a turn for messages that were not read, or for the result of a background task."""
        agent = self.view.agents[task]
        if task == self.session and agent.status is Status.COMPLETED:
            self._start(self._start_followup(task, only_messages=True))
        elif agent.background and agent.parent == self.session and self.session:
            self._background_ended = True
            self._start(self._start_followup(self.session, only_messages=False))

    async def _start_followup(self, session: str, *, only_messages: bool) -> None:
        if self._job is not None and self.main_agent is not None and self.main_agent.status.ended:
            await self._job.wait(ENDING_SECONDS)
            if only_messages and not self._background_ended and not await self.gen.history.unread(session):
                return
        if not await self._ran_last_turn():
            if not self._background_ended:
                return
            await asyncio.sleep(FOLLOWUP_DELAY_SECONDS)
        async with self._turn_lock:
            if not self.running and session == self.session and await self._is_idle(session):
                self._background_ended = False
                try:
                    await self._begin(self.gen.start_follow_up(session, self._agent))
                except UserMistake:
                    if await self._is_idle(session):  # and nobody else has begun it at the same moment
                        raise

    async def _ran_last_turn(self) -> bool:
        """Whether the last turn ran here; of several terminals that one starts the next by itself."""
        if self._job is None:
            return False
        return (await self.gen.find(self._job.id)).end.at == self._job.task.end.at

    async def _is_idle(self, session: str) -> bool:
        """Whether no turn of a conversation runs, and nobody but us has stopped the last one."""
        now = await self.gen.find(session)
        return await self._ran_last_turn() or (now.status.ended and now.status is not Status.CANCELLED)

    def _start(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(report_errors(chore, self.notify))
        self._background_work.add(task)
        task.add_done_callback(self._background_work.discard)
        task.add_done_callback(lambda _: chore.close())  # it may be let go of before it began

    async def _read_descendants(self, root: Task) -> None:
        """Read a task and all its descendants from the journal."""
        level = [root]
        while level:
            fresh = {each.id: seen(each) for each in level}
            self.view = View({**self.view.agents, **fresh})
            self._seqs |= {each.id: each.seq for each in level}
            found = [await self.gen.history.tasks(TaskQuery(parent=each.id)) for each in level]
            level = [each for several in found for each in several if each.id not in self.view.agents]


class PartialReply:
    """The pieces of a reply that is still streamed; only the last ones are kept."""

    def __init__(self) -> None:
        self.text: deque[str] = deque(maxlen=MAX_PIECES)
        self.thinking: deque[str] = deque(maxlen=MAX_PIECES)


class PartialReplies:
    """The replies that are still streamed, each until it is stored."""

    def __init__(self) -> None:
        self._by_task: dict[str, PartialReply] = {}

    def receive(self, event: Event, *, ended: bool) -> None:
        """Apply one event; pieces of an agent that has `ended` were read from the journal already."""
        match event.fact:
            case TextArrived(text) if not ended:
                self._by_task.setdefault(event.task, PartialReply()).text.append(text)
            case ThinkingArrived(text) if not ended:
                self._by_task.setdefault(event.task, PartialReply()).thinking.append(text)
            case ReplyRestarted():
                self._by_task.pop(event.task, None)
            case _ if event.seq is not None:
                self._by_task.pop(event.task, None)
            case _:
                pass

    def added_to(self, transcript: Transcript, known: int) -> Transcript:
        """A transcript from the journal with the partial reply of its agent.

        `known` is the last event that was applied: where the journal has more, the reply may be in it.
        """
        voice = self._by_task.get(transcript.task)
        if voice is None or transcript.seq > known:
            return transcript
        return replace(transcript, text="".join(voice.text), thinking="".join(voice.thinking))


class RemoteQuestions:
    """Open questions of agents in other processes, by task and by call, as the journal tells them."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, str]] = {}
        self._reported: set[tuple[str, str]] = set()

    def receive(self, event: Event) -> None:
        """Apply one event of a task of another process."""
        match event.fact:
            case CallDecided(call=call, tool=tool, decision=decision) if decision.action is Action.ASK:
                self._waiting.setdefault(event.task, {})[call] = tool
            case CallDecided(call=call):
                self._waiting.get(event.task, {}).pop(call, None)
            case TaskEnded() | MessageAdded(ToolMessage()):
                self._waiting.pop(event.task, None)
            case _:
                pass

    def unreported(self) -> list[tuple[str, str]]:
        """The tasks that ask and the tools they ask about; each is reported once."""
        waits = [(task, call, tool) for task, calls in self._waiting.items() for call, tool in calls.items()]
        new = [(task, tool) for task, call, tool in waits if (task, call) not in self._reported]
        self._reported = {(task, call) for task, call, _ in waits}
        return new

    def clear(self) -> None:
        """Forget all of them: another conversation was opened."""
        self._waiting = {}

    @property
    def first(self) -> tuple[str, str] | None:
        """The task that waits longest, and the tool it asks about."""
        found = ((task, tool) for task, calls in self._waiting.items() for tool in calls.values())
        return next(found, None)


class RemoteTaskWatcher:
    """Follows the agents of a conversation that run in other processes, by their journals."""

    def __init__(self, chat: "ChatSession") -> None:
        self._chat = chat
        self._since = datetime.now(UTC)
        self.woken: set[str] = set()
        """Agents that were resumed here and have no new event yet; that was reported already."""

    async def run(self) -> None:
        """Check whenever something was stored, until cancelled."""
        async for _ in self._chat.gen.history.changes.looks(LOOK_SECONDS):
            await self._follow_running()
            await self._find_started()
            self._chat.report_questions()
            await asyncio.sleep(BATCH_SECONDS)

    async def _follow_running(self) -> None:
        """Read new events of agents that run elsewhere, and of the conversation itself."""
        chat = self._chat
        for agent in list(chat.view.agents.values()):
            rests = agent.status.ended and agent.id != chat.session
            if rests or chat.gen.running.find(agent.id) is not None:
                continue
            try:
                await chat.gen.history.current(agent.id)
                await self._catch_up(agent.id)
            except GenCodeError:
                continue

    async def _find_started(self) -> None:
        """Find agents that were started or resumed meanwhile, with one query."""
        chat, now = self._chat, datetime.now(UTC)
        if chat.session is None:
            return
        family = (chat.session, *chat.view.launched(chat.session))
        try:
            query = TaskQuery(parents=family, ended_after=stamp(self._since - CLOCK_TOLERANCE))
            for task in await chat.gen.history.tasks(query):
                if task.seq > chat.last_seq(task.id) and chat.gen.running.find(task.id) is None:
                    await self._catch_up(task.id)
            self._since = now
        except GenCodeError:
            return

    async def _catch_up(self, task: str) -> None:
        """Apply the new events of a task, and report that a finished one was resumed."""
        chat = self._chat
        await asyncio.sleep(0)  # what a turn that ended here has said is still queued, and is taken in first
        written = (await chat.gen.journal(task, chat.last_seq(task))).events
        before = chat.view.agents.get(task)
        fresh = [each for each in written if (each.seq or 0) > chat.last_seq(task)]
        if before is not None and before.status.ended and task != chat.session and _has_start(fresh):
            self._report_woken(before)
        for event in fresh:
            chat.receive(event)

    def _report_woken(self, agent: AgentView) -> None:
        if agent.id not in self.woken:
            text = f"{name_of(agent)} ({agent.id}) was resumed in another process."
            self._chat.notify(Notice(text, task=agent.id))
        self.woken.discard(agent.id)


def _has_start(events: Iterable[Event]) -> bool:
    return any(isinstance(each.fact, TaskStarted | TaskQueued) for each in events)
