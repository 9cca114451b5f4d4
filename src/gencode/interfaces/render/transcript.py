"""The transcript of one agent as screens show it: a pure fold of its events, with what is just arriving.

Only the last entries are kept; what came before them is in the journal and can be folded again.
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.models import OFFLINE
from gencode.agent.tool_calls import summary
from gencode.core.events import (
    CallDecided,
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    ProgressMade,
    ReplyRestarted,
    TaskCreated,
    TaskEnded,
    TaskForked,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
    TranscriptCompacted,
)
from gencode.core.messages import AssistantMessage, Message, ToolMessage, ToolResult, UserMessage
from gencode.core.reasons import EndReason
from gencode.core.rules import Action, DecidedBy
from gencode.core.status import Status
from gencode.interfaces.render.agent_view import CUT_SHORT, unanswered_after

MOST_KEPT = 500
LONGEST_LIVE = 200_000
SENDS = frozenset({"Task", "spawn", "spawn_subagent"})
"""The tools whose calls are agents."""


class Said(Struct, frozen=True):
    """Something that was said to the agent; `mail` is the number of the letter it came as."""

    text: str
    sender: str = "user"
    mail: int = 0


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
    """A call and what came of it.

    `child` is the agent that it sent, `group` how many its reply sent, `number` which of them this one is.
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
    step: str = ""
    child: str = ""
    group: int = 1
    number: int = 1

    @property
    def sends(self) -> bool:
        """Whether it sends an agent."""
        return self.tool in SENDS


class Remark(Struct, frozen=True):
    """What the harness says about the run itself."""

    text: str
    bad: bool = False


class HandedBack(Struct, frozen=True):
    """The results that the agent had no turn left for, by their receipts."""

    receipts: tuple[str, ...]


Entry = Said | Thought | Reply | Call | Remark | HandedBack


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
    for event in events:
        transcript = hear(transcript, event)
    return transcript


def _heard(now: Transcript, event: Event) -> Transcript:
    match event.fact:
        case TextArrived(text):
            return replace(now, text=(now.text + text)[-LONGEST_LIVE:])
        case ThinkingArrived(text):
            return replace(now, thinking=(now.thinking + text)[-LONGEST_LIVE:])
        case ReplyRestarted(why):
            return _grown(replace(now, text="", thinking=""), Remark(f"Retrying the reply: {why}"))
        case MessageAdded(message):
            return _told(now, message)
        case TaskForked() as fact:
            for message in fact.messages:
                now = _told(now, message)
            return _grown(now, Remark(f"Forked from {fact.source} at event {fact.upto}."))
        case TranscriptCompacted() as fact:
            what = f"Conversation summarised ({fact.why})." if fact.why else "Conversation summarised."
            return _grown(now, Remark(what), Said(fact.summary.text, "summary"))
        case CallDecided() as fact:
            return _decided(now, fact)
        case CallStarted() as fact:
            return _changed(now, fact.call, state="running", line=fact.summary or fact.tool)
        case CallFinished() as fact:
            known = _find(now, fact.call)
            denied = known is not None and known.state == "denied"
            state: CallState = "denied" if denied else "failed" if fact.error else "done"
            return _changed(now, fact.call, state=state, step=fact.summary)
        case ProgressMade(text):
            running = [each for each in now.entries if isinstance(each, Call) and each.state == "running"]
            return _changed(now, running[-1].id, step=text) if running else now
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
            return _changed(
                now,
                fact.call,
                state="denied",
                why=fact.decision.why,
                declined=fact.decision.by is DecidedBy.USER,
            )
        case Action.ASK:
            return _changed(now, fact.call, state="asked", why=fact.decision.why)
        case Action.ALLOW:
            return _changed(now, fact.call, state="waiting", why=fact.decision.why)


def _told(now: Transcript, message: Message) -> Transcript:
    now = replace(now, unanswered=unanswered_after(now.unanswered, message))
    match message:
        case UserMessage():
            return _grown(now, Said(message.text, message.sender, message.mail))
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
        one = Call(call.id, call.name, summary(call), call.input)
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
    return _changed(now, result.call, state=state, result=result.text, child=child)


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
