"""The transcript of one agent as screens show it: a pure fold of its events, with what is just arriving.

Only the last entries are kept; what came before them is in the journal and can be folded again. Also here:
the steps of a TodoWrite, the transcript as plain text, and the results of subagents that their parent could
not summarise any more because it was cut short.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import Struct

from gencode.agent.models import OFFLINE
from gencode.agent.tool_calls import summary, target
from gencode.core.events import (
    CallDecided,
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    OutputArrived,
    ProgressMade,
    ReplyRestarted,
    SessionRewound,
    TaskCreated,
    TaskEnded,
    TaskForked,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
    TranscriptCompacted,
)
from gencode.core.ids import moment
from gencode.core.messages import (
    AssistantMessage,
    Message,
    NoticeKind,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gencode.core.rules import Action, DecidedBy
from gencode.core.status import EndReason, Status
from gencode.core.structs import replace
from gencode.core.task import Task, as_rewound, receipt
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.agent_view import CUT_SHORT, AgentView, View, name_of, seen, unanswered_after
from gencode.interfaces.render.number_format import counted
from gencode.tasks.delivery import as_delivered, undelivered

if TYPE_CHECKING:
    from gencode.app import GenCode

MOST_KEPT = 500
LONGEST_LIVE = 200_000
SENDS = frozenset({"Task", "spawn", "spawn_subagent"})
"""The tools whose calls are agents."""


class IncomingMessage(Struct, frozen=True):
    """A message to the agent.

    `mail` is its number if it was queued, `notice` what it is about if GenCode wrote it. `results` are the
    background tasks and commands whose results it brings.
    """

    text: str
    sender: str = "user"
    mail: int = 0
    notice: NoticeKind | None = None
    results: tuple[str, ...] = ()

    @property
    def is_note(self) -> bool:
        """Whether GenCode wrote it for the model alone; people see it with all details only."""
        shown = self.mail or self.results or self.notice is NoticeKind.FILES
        return self.sender == "system" and not shown


class Thought(Struct, frozen=True):
    """What the model thought before it spoke."""

    text: str


class Reply(Struct, frozen=True):
    """What the model said; `partial` when it was cut, `verbatim` when it is no Markdown."""

    text: str
    partial: bool = False
    verbatim: bool = False


CallState = Literal["asked", "waiting", "running", "done", "failed", "denied"]


class Call(Struct, frozen=True):
    """A tool call and its result.

    `child` is the agent that it started, `group` how many its reply started, `number` which of them this one
    is. `since` is when the tool began to run and `seconds` how long it took, as far as that was seen here.
    `tail` are the last lines that a running command has written, `exit` is how it ended; `lines` are where
    the replacements of an edit begin.
    """

    id: str
    tool: str
    line: str
    input: dict[str, Any] = {}
    state: CallState = "waiting"
    result: str = ""
    why: str = ""
    declined: bool = False
    """Whether a person declined it."""
    said: str = ""
    """What they wrote when they declined it."""
    step: str = ""
    child: str = ""
    group: int = 1
    number: int = 1
    since: str = ""
    seconds: float | None = None
    tail: str = ""
    ran: bool = False
    """Whether a command ended; `exit` is None where it was stopped."""
    exit: int | None = None
    lines: tuple[int, ...] = ()
    about: str = ""
    """What it is about, in one short line: a path, a command."""

    @property
    def sends(self) -> bool:
        """Whether it starts an agent."""
        return self.tool in SENDS


class Remark(Struct, frozen=True):
    """What GenCode says about the run itself."""

    text: str
    bad: bool = False


class HandedBack(Struct, frozen=True):
    """The results that the agent had no turn left for, by their receipts."""

    receipts: tuple[str, ...]


Entry = IncomingMessage | Thought | Reply | Call | Remark | HandedBack


class Transcript(Struct, frozen=True):
    """The last entries of one agent, how many came before them, and what is just being spoken.

    `seq` is the number of the last fact that was taken in, so that facts may come twice.
    """

    task: str
    entries: tuple[Entry, ...] = ()
    dropped: int = 0
    text: str = ""
    thinking: str = ""
    seq: int = 0
    most: int = MOST_KEPT
    unanswered: tuple[str, ...] = ()
    """The results that came since the last reply, by their receipts."""
    verbatim: bool = False
    """Whether what is being spoken is no Markdown: the offline search quotes files as they are."""

    @property
    def running(self) -> list[Call]:
        """The calls that run at this moment."""
        return [each for each in self.entries if isinstance(each, Call) and each.state == "running"]


def hear(transcript: Transcript, event: Event) -> Transcript:
    """The transcript after one more event of its agent, or the birth of one that it sent."""
    match event.fact:
        case TaskCreated(parent=parent, call=call) if parent == transcript.task and call:
            return adopt(transcript, event.task, call)
        case _ if event.task != transcript.task:
            return transcript
        case _ if event.seq is not None and event.seq <= transcript.seq:
            return replace(transcript, text="", thinking="")  # it was read before, with what led up to it
        case _:
            after = _heard(transcript, event)
            return after if event.seq is None else replace(after, seq=event.seq)


def adopt(transcript: Transcript, child: str, call: str) -> Transcript:
    """The transcript once it is known which agent a call has sent."""
    return _changed(transcript, call, child=child)


def retold(task: str, events: Iterable[Event], most: int = MOST_KEPT) -> Transcript:
    """The transcript that a journal tells, and whatever lines up behind it."""
    transcript = Transcript(task, most=most)
    for event in as_rewound(events):
        transcript = hear(transcript, event)
    return transcript


def _heard(now: Transcript, event: Event) -> Transcript:
    match event.fact:
        case TextArrived(text):
            return replace(now, text=(now.text + text)[-LONGEST_LIVE:])
        case ThinkingArrived(text):
            return replace(now, thinking=(now.thinking + text)[-LONGEST_LIVE:])
        case ReplyRestarted(why):
            return _grown(replace(now, text="", thinking=""), Remark(f"Reply restarted: {why}"))
        case MessageAdded(message):
            return _told(now, message)
        case TaskForked() as fact:
            for message in fact.messages:
                now = _told(now, message)
            return _grown(now, Remark(f"Forked from {fact.source} at event {fact.upto}."))
        case TranscriptCompacted() as fact:
            what = (
                f"Earlier messages were summarised ({fact.why})."
                if fact.why
                else "Earlier messages were summarised."
            )
            notice = fact.summary.notice
            text = notice.summary if notice and notice.summary else fact.summary.text
            return _grown(now, Remark(what), IncomingMessage(text, "summary"))
        case SessionRewound() as fact:
            return _grown(now, Remark(rewind_line(fact)))
        case CallDecided() as fact:
            return _decided(now, fact)
        case CallStarted() as fact:
            line = fact.summary or fact.tool
            return _changed(now, fact.call, state="running", line=line, since=event.at)
        case OutputArrived(call, text):
            return _changed(now, call, tail=text)
        case CallFinished() as fact:
            known = _find(now, fact.call)
            denied = known is not None and known.state == "denied"
            state: CallState = "denied" if denied else "failed" if fact.error else "done"
            took = (moment(event.at) - moment(known.since)).total_seconds() if known and known.since else None
            return _changed(now, fact.call, state=state, step=fact.summary, seconds=took)
        case ProgressMade(text):
            return _changed(now, now.running[-1].id, step=text) if now.running else now
        case TaskStarted(model=model):
            return replace(now, verbatim=model == OFFLINE)
        case TaskEnded() as fact:
            return _ended(now, fact)
        case _:
            return now


def _ended(now: Transcript, fact: TaskEnded) -> Transcript:
    """A good end needs no remark; every other one says why. Half a reply that nobody kept is gone."""
    now = replace(now, text="", thinking="")
    if fact.status is Status.COMPLETED:
        return now
    now = _grown(now, Remark(_end_text(fact), bad=fact.status is not Status.CANCELLED))
    lost = fact.status in CUT_SHORT and now.unanswered
    return _grown(now, HandedBack(now.unanswered)) if lost else now


def _end_text(fact: TaskEnded) -> str:
    """How a run ended that did not end well: `Interrupted by you`, `Failed: no such model`."""
    if fact.reason is EndReason.INTERRUPTED:
        return "Interrupted by you"
    status = fact.status.replace("_", " ").capitalize()
    return f"{status}: {fact.error}" if fact.error else status


def _decided(now: Transcript, fact: CallDecided) -> Transcript:
    match fact.decision.action:
        case Action.DENY:
            declined = fact.decision.by is DecidedBy.USER
            return _changed(
                now,
                fact.call,
                state="denied",
                why=fact.decision.why,
                declined=declined,
                said=fact.decision.said,
            )
        case Action.ASK:
            return _changed(now, fact.call, state="asked", why=fact.decision.why)
        case Action.ALLOW:
            return _changed(now, fact.call, state="waiting", why=fact.decision.why)


def _told(now: Transcript, message: Message) -> Transcript:
    now = replace(now, unanswered=unanswered_after(now.unanswered, message))
    match message:
        case UserMessage():
            kind = message.notice.kind if message.notice else None
            come = IncomingMessage(message.text, message.sender, message.mail, kind, message.delivers)
            return _grown(now, come)
        case AssistantMessage():
            return _replied(now, message)
        case ToolMessage():
            for result in message.results:
                now = _answered(now, result)
            return now


def _replied(now: Transcript, message: AssistantMessage) -> Transcript:
    thought = "\n\n".join(each.text for each in message.thinking if each.text)
    sends = sum(call.name in SENDS for call in message.calls)
    entries: list[Entry] = [Thought(thought)] if thought else []
    if message.text.strip() or message.partial:
        entries.append(Reply(message.text, message.partial, message.model == OFFLINE))
    number = 0
    for call in message.calls:
        one = Call(call.id, call.name, summary(call), call.input, about=target(call))
        number += one.sends
        entries.append(replace(one, group=sends, number=number) if one.sends else one)
    return _grown(replace(now, text="", thinking=""), *entries)


def _answered(now: Transcript, result: ToolResult) -> Transcript:
    known = _find(now, result.call)
    denied = known is not None and known.state == "denied"
    state: CallState = "denied" if denied else "failed" if result.error else "done"
    child = known.child if known else ""
    if not child and result.trace.children:
        child = result.trace.children[0]
    ran = [each for each in result.trace.commands if not each.shell]
    return _changed(
        now,
        result.call,
        state=state,
        result=result.for_people,
        child=child,
        tail="",
        ran=bool(ran),
        exit=ran[-1].exit if ran else None,
        lines=result.trace.lines,
    )


def _grown(now: Transcript, *more: Entry) -> Transcript:
    entries = (*now.entries, *more)
    over = max(len(entries) - now.most, 0)
    if over <= now.most // 4:  # cut rarely, and then a good piece
        return replace(now, entries=entries)
    return replace(now, entries=entries[over:], dropped=now.dropped + over)


def _place(now: Transcript, call: str) -> int | None:
    """The last call of this id: providers may give the same one in every reply."""
    for place in range(len(now.entries) - 1, -1, -1):
        entry = now.entries[place]
        if isinstance(entry, Call) and entry.id == call:
            return place
    return None


def _find(now: Transcript, call: str) -> Call | None:
    place = _place(now, call)
    entry = now.entries[place] if place is not None else None
    return entry if isinstance(entry, Call) else None


def _changed(now: Transcript, call: str, **fields: Any) -> Transcript:
    place = _place(now, call)
    if place is None:
        return now
    entry = now.entries[place]
    if not isinstance(entry, Call):
        return now
    after = replace(entry, **fields)
    return replace(now, entries=(*now.entries[:place], after, *now.entries[place + 1 :]))


MOST_STEPS = 200


class Step(Struct, frozen=True):
    """One step of an agent's list."""

    text: str
    done: bool = False
    active: bool = False


def todos_of(tool: str, arguments: dict[str, Any]) -> list[Step]:
    """The steps that a TodoWrite lists; none for other tools."""
    listed = arguments.get("todos") if tool in ("TodoWrite", "todo") else None
    steps: list[Step] = []
    for each in cast("list[Any]", listed)[:MOST_STEPS] if isinstance(listed, list) else []:
        step = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        status = step.get("status")
        text = visible_line(str(step.get("content", "")), 200)
        steps.append(Step(text, done=status == "completed", active=status == "in_progress"))
    return steps


def current_steps(transcript: Transcript) -> list[Step]:
    """The steps as the agent listed them last; none where all are done."""
    no_steps: list[Step] = []
    calls = (each for each in reversed(transcript.entries) if isinstance(each, Call))
    steps = next((found for each in calls if (found := todos_of(each.tool, each.input))), no_steps)
    return [] if all(step.done for step in steps) else steps


RESULT_LINES = 8


async def transcript_text(gen: "GenCode", task: str) -> str:
    """What was said and decided in a task, as far as its journal can be read."""
    events = (await gen.journal(task)).events
    return "\n".join(told(events))


def told(events: Iterable[Event]) -> Iterator[str]:
    """The lines of a task's messages and decisions, in the order in which they came."""
    for event in as_rewound(events):
        match event.fact:
            case MessageAdded(message):
                yield from said(message)
            case SessionRewound() as fact:
                yield f"= {rewind_line(fact)}"
            case TranscriptCompacted() as fact:
                yield f"= summarised, because it had become long: {visible_line(fact.why)}"
            case CallDecided() as fact:
                chain = visible_line(" > ".join(fact.chain))
                why = visible_line(fact.decision.why)
                yield f"= {fact.decision.action}: {why}" + (f" ({chain})" if chain else "")
            case _:
                pass


def rewind_line(fact: SessionRewound) -> str:
    """What was taken back, in a line."""
    files = [counted(len(fact.files), "file")] if fact.files else []
    what = " and ".join([*(["the conversation"] if fact.conversation else []), *files])
    return f"You took {what} back to an earlier prompt."


def said(message: Message) -> Iterator[str]:
    """The lines of one message: text whole, calls as one line, results by their first lines."""
    match message:
        case UserMessage():
            yield f"── {visible_line(message.sender)} ──"
            yield from _indented(message.text)
        case AssistantMessage():
            mark = f" (answered from the journal: task {message.again})" if message.again else ""
            yield "── assistant ──" + (" (cut)" if message.partial else visible_line(mark))
            if message.text:
                yield from _indented(message.text)
            for call in message.calls:
                yield f"→ {visible_line(call.name)} {msgspec.json.encode(call.input).decode()}"
        case ToolMessage():
            for result in message.results:
                lines = _indented(said) if (said := result.for_people) else []
                yield f"← {visible_line(result.name)}{' (error)' if result.error else ''}"
                yield from lines[:RESULT_LINES]
                if len(lines) > RESULT_LINES:
                    yield f"… {counted(len(lines) - RESULT_LINES, 'more line')}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in visible(text).removesuffix("\n").split("\n")]


NOT_SUMMED_UP = "Results that were not summarised, because the agent was cut short:"
STOPPED = frozenset({Status.CANCELLED, Status.TIMED_OUT, Status.INTERRUPTED})


def handed_back(view: View, task: str) -> list[AgentView]:
    """The agents whose results a task that was cut short has not answered, if they said anything."""
    lead = view.agents.get(task)
    if lead is None or lead.status not in CUT_SHORT:
        return []
    return results_of(lead.unanswered, view.agents)


def come_late(session: Task, children: Sequence[Task]) -> list[AgentView]:
    """What came back to a conversation when it heard nothing any more; not who was stopped with it.

    Each is an agent as it was at one of its ends, and may be at work again.
    """
    came = [end for each in as_delivered(session, children) for end in undelivered(session, each)]
    return with_results([seen(end) for end in came if end.status not in STOPPED])


def results_of(receipts: Sequence[str], agents: Mapping[str, AgentView]) -> list[AgentView]:
    """The agents that some receipts or bare ids tell of, each as it was at the end that is meant."""
    return with_results([_meant(each, receipts, agents) for each in receipts])


def tasks_of(receipts: Sequence[str]) -> list[str]:
    """The tasks that some receipts tell of, each once."""
    return [*dict.fromkeys(each.partition("@")[0] for each in receipts)]


def _meant(what: str, receipts: Sequence[str], agents: Mapping[str, AgentView]) -> AgentView | None:
    """Who was sent is meant as it is now, unless that was handed over by itself."""
    task, _, at = what.partition("@")
    agent = agents.get(task)
    if agent is None or not agent.ends or (not at and not agent.status.ended):
        return agent
    ends = [end for end in agent.ends if end.at == at or (not at and receipt(task, end.at) not in receipts)]
    return agent.as_of(ends[-1]) if ends else None


def with_results(agents: Sequence[AgentView | None]) -> list[AgentView]:
    """Those of some agents that have ended and said something."""
    return [each for each in agents if each is not None and each.status.ended and each.result.strip()]


def in_words(agents: Sequence[AgentView]) -> str:
    """What agents came to, for a person who reads; nothing where there are none."""
    told = [f"{name_of(each)} ({each.id}), {each.status}:\n{each.result.strip()}" for each in agents]
    return "\n\n".join((NOT_SUMMED_UP, *told)) if told else ""
