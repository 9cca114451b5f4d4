"""Builds spans from events, without any library: session, agent, model call and tool call.

Span ids are derived from the journal: the ids of tasks, when they were created, which reply made a call. So
all processes that work on a tree of tasks compute the same ids, and their spans fit together without any
communication.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, Protocol

from msgspec import Struct

from gencode.core.events import (
    CallDecided,
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    ReplyRestarted,
    TaskCreated,
    TaskEnded,
    TaskForked,
    TaskStarted,
    TranscriptCompacted,
)
from gencode.core.ids import moment
from gencode.core.messages import AssistantMessage, Message, ToolMessage, ToolResult, Usage
from gencode.core.rules import Action
from gencode.core.status import Status
from gencode.core.task import Task, transcript_of
from gencode.core.text import one_line
from gencode.telemetry.attributes import ContentAttributes, agent_attributes, chat_attributes, tool_attributes

LONGEST_NAME = 64
MOST_ANCESTORS = 64
"""The most tasks between one and the root of its tree, whatever a journal says."""


class TaskSource(Protocol):
    """Reads tasks and events from the store."""

    async def task(self, task: str) -> Task | None:
        """The folded state of a task."""
        ...

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The events of a task after a sequence number, in order."""
        ...


class Span(Struct, frozen=True):
    """A finished span. `parent` 0 is none; `error` is the type of the error."""

    name: str
    operation: Literal["session", "invoke_agent", "chat", "execute_tool"]
    trace: int
    id: int
    parent: int
    began: str
    ended: str
    attributes: dict[str, Any]
    error: str = ""
    usage: Usage | None = None
    again: tuple[str, ...] = ()
    """When the reply was retried."""

    @property
    def seconds(self) -> float:
        """Its duration."""
        return (moment(self.ended) - moment(self.began)).total_seconds()


class TracedCall(Struct):
    """A tool call without a result so far."""

    name: str
    reply: int
    asked: str
    began: str
    input: dict[str, Any]
    ended: str = ""
    denied: bool = False


class TracedRun(Struct):
    """One run of a task so far."""

    seq: int
    began: str
    last: str
    model: str
    first: bool
    usage: Usage = Usage()
    turns: int = 0
    calls: dict[str, TracedCall] = {}
    again: tuple[str, ...] = ()


class TracedTask(Struct):
    """The fields of a task that its spans need."""

    id: str
    created: str
    agent: str
    root: str
    trace: int
    session: int
    parent: int
    prompt: str = ""
    run: TracedRun | None = None
    told: list[Message] = []
    """The messages of its model so far; none if content capture is off."""


class SpanBuilder:
    """Takes events in order, and returns the spans that end with each."""

    def __init__(self, facts: TaskSource, elsewhere: Callable[[str], bool], *, content: bool = False) -> None:
        """`elsewhere` says whether a task runs in another process, which then exports it."""
        self._facts = facts
        self._elsewhere = elsewhere
        self._content = ContentAttributes(content)
        self._with_content = content
        self._tasks: dict[str, TracedTask | None] = {}

    async def add(self, event: Event) -> Sequence[Span]:
        """The spans that ended with an event."""
        if event.task not in self._tasks:
            if not isinstance(event.fact, TaskCreated | TaskStarted):
                return ()
            self._tasks[event.task] = None if self._elsewhere(event.task) else await self._new_task(event)
        known = self._tasks[event.task]
        if isinstance(event.fact, TaskEnded):  # a resumed task is loaded again
            del self._tasks[event.task]
        if known is None:
            return ()
        spans = tuple(self._spans_of(known, event))
        if self._with_content and isinstance(event.fact, MessageAdded | TaskForked | TranscriptCompacted):
            known.told = transcript_of([event], known.told)
        return spans

    def _spans_of(self, known: TracedTask, event: Event) -> Iterator[Span]:
        fact, run = event.fact, known.run
        if isinstance(fact, TaskStarted):
            first = fact.was is Status.PENDING
            known.run = TracedRun(event.seq or 0, event.at, event.at, fact.model, first, calls={})
        elif run is None:
            return
        elif isinstance(fact, MessageAdded):
            yield from self._message(known, run, event, fact)
        elif isinstance(fact, TranscriptCompacted):
            if fact.model:
                summary = AssistantMessage(fact.summary.text, usage=fact.usage, model=fact.model)
                yield self._chat(known, run, event, summary)
            run.last = event.at
        elif isinstance(fact, TaskEnded):
            yield from self._end(known, run, event, fact)
        else:
            _add_passing(run, event)

    def _message(self, known: TracedTask, run: TracedRun, event: Event, fact: MessageAdded) -> Iterator[Span]:
        message = fact.message
        if isinstance(message, AssistantMessage) and not message.again:
            run.turns += message.is_turn
            run.usage += message.usage or Usage()
            for call in message.calls:
                run.calls[call.id] = TracedCall(call.name, event.seq or 0, event.at, event.at, call.input)
            yield self._chat(known, run, event, message)
        elif isinstance(message, ToolMessage):
            for result in message.results:
                if call := run.calls.pop(result.call, None):
                    yield self._tool(known, run, call, result, event.at)
        run.last = event.at

    def _chat(self, known: TracedTask, run: TracedRun, event: Event, reply: AssistantMessage) -> Span:
        again, run.again = run.again, ()
        words = chat_attributes(known, run.model, known.told, reply, self._content)
        return Span(
            f"chat {words['gen_ai.request.model']}",
            "chat",
            known.trace,
            span_number(known.id, known.created, "chat", str(event.seq)),
            _run_span(known, run),
            run.last,
            event.at,
            words,
            "cut" if reply.partial else "",
            reply.usage,
            again,
        )

    def _tool(self, known: TracedTask, run: TracedRun, call: TracedCall, result: ToolResult, at: str) -> Span:
        error = "denied" if call.denied else "tool_error" if result.error else ""
        began, ended = call.began, call.ended or at
        if ended <= began:  # both events came at once, so the times of the events around them are used
            began, ended = call.asked, at
        return Span(
            f"execute_tool {one_line(call.name, LONGEST_NAME)}",
            "execute_tool",
            known.trace,
            tool_span(known.id, known.created, result.call, call.reply),
            _run_span(known, run),
            began,
            ended,
            tool_attributes(known, call, result, self._content),
            error,
        )

    def _end(self, known: TracedTask, run: TracedRun, event: Event, fact: TaskEnded) -> Iterator[Span]:
        """The open calls, which were cut off, then the run itself and, of a root, the session."""
        for name, call in run.calls.items():
            cut = ToolResult(name, call.name, "", error=True)
            yield self._tool(known, run, call, cut, event.at)
        error = "" if fact.status is Status.COMPLETED else fact.status.value
        words = agent_attributes(known, run, fact, self._content)
        name = f"invoke_agent {one_line(known.agent, LONGEST_NAME)}"
        run_span = _run_span(known, run)
        yield Span(
            name, "invoke_agent", known.trace, run_span, known.parent, run.began, event.at, words, error
        )
        if known.root == known.id and run.first:
            session = {"gen_ai.conversation.id": known.root}
            yield Span(
                "session",
                "session",
                known.trace,
                known.session,
                0,
                known.created,
                event.at,
                session,
                error,
            )

    async def _new_task(self, event: Event) -> TracedTask | None:
        """A task seen for the first time, with its place in the tree."""
        if isinstance(event.fact, TaskCreated):
            task = Task(event.task, event.fact, event.at, Status.PENDING, 1)
        else:
            found = await self._facts.task(event.task)
            if found is None:
                return None
            task = found
        parent, call = task.parent, task.created.call
        root = await self._root(task, parent)
        trace, session = span_number(*root, "trace", size=16), span_number(*root, "session")
        above = session
        if parent is not None and call is not None:
            above = await self._parent_call(parent, call, task.created_at) or session
        told: list[Message] = []
        if self._with_content and event.seq is not None and event.seq > 1:
            told = transcript_of(
                each for each in await self._facts.events(task.id) if (each.seq or 0) < event.seq
            )
        return TracedTask(
            task.id,
            task.created_at,
            task.agent,
            root[0],
            trace,
            session,
            above,
            task.created.prompt,
            told=told,
        )

    async def _root(self, task: Task, parent: str | None) -> tuple[str, str]:
        """The id of the root of a tree and when it was created: unique to the tree."""
        at = (task.id, task.created_at)
        for _ in range(MOST_ANCESTORS):
            if parent is None:
                break
            above = await self._facts.task(parent)
            if above is None:
                break
            at, parent = (above.id, above.created_at), above.parent
        return at

    async def _parent_call(self, parent: str, call: str, created: str) -> int:
        """The span id of the call that started a task; 0 if there is none."""
        known = self._tasks.get(parent)
        if known is not None and known.run is not None and call in known.run.calls:
            return tool_span(known.id, known.created, call, known.run.calls[call].reply)
        events = await self._facts.events(parent)
        replies = [
            event.seq or 0
            for event in events
            if event.at <= created and isinstance(event.fact, MessageAdded)
            if isinstance(event.fact.message, AssistantMessage)
            if any(each.id == call for each in event.fact.message.calls)
        ]
        return tool_span(parent, events[0].at, call, replies[-1]) if replies else 0


def _add_passing(run: TracedRun, event: Event) -> None:
    """Passing events only make the times more exact."""
    match event.fact:
        case CallStarted(call=call) if call in run.calls:
            run.calls[call].began = event.at
        case CallFinished(call=call) if call in run.calls:
            run.calls[call].ended = event.at
        case CallDecided(call=call, decision=decision) if call in run.calls:
            run.calls[call].denied = decision.action is Action.DENY
        case ReplyRestarted():
            run.again = (*run.again, event.at)
        case _:
            pass


def _run_span(known: TracedTask, run: TracedRun) -> int:
    return span_number(known.id, known.created, "run", str(run.seq))


def tool_span(task: str, created: str, call: str, reply: int) -> int:
    """The span id of a call. It includes the reply: some models reuse the ids of calls in each reply."""
    return span_number(task, created, "call", call, str(reply))


def span_number(*parts: str, size: int = 8) -> int:
    """A span or trace id of `size` bytes, never 0, the same in every process."""
    digest = blake2b("\0".join(parts).encode(errors="replace"), digest_size=size, person=b"gencode").digest()
    return int.from_bytes(digest, "big") or 1


def nanoseconds(stamp: str) -> int:
    """The time of an event in nanoseconds."""
    since: datetime = moment(stamp)
    return round(since.timestamp() * 1_000_000) * 1_000
