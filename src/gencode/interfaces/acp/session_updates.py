"""Events of one conversation as an editor hears them: text, thoughts, plans, calls, agents (surfaces, ACP).

The calls of the agent that leads are shown one by one. Every agent below it is one call: the one that sent it
where the leading agent did, one of its own where another did. Of their calls those are shown that a person is
asked about.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from acp.helpers import update_plan
from acp.schema import Cost, UsageUpdate
from msgspec.structs import replace

from gencode.core.events import (
    CallDecided,
    CallStarted,
    Event,
    MessageAdded,
    ReplyRestarted,
    TaskCreated,
    TaskEnded,
    TextArrived,
    ThinkingArrived,
)
from gencode.core.ids import new_id, stamp
from gencode.core.messages import AssistantMessage, Image, ToolMessage, ToolResult
from gencode.core.questions import Question
from gencode.core.rules import Action
from gencode.core.status import Status
from gencode.interfaces.acp.call_display import (
    PLAN,
    Change,
    Shown,
    agent_shown,
    asked_title,
    call_shown,
    fenced,
    plan_entries,
)
from gencode.interfaces.acp.update_queue import Outbox
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.render.agent_tree import path, spent
from gencode.interfaces.render.transcript import Call, Transcript, hear

MOST_ENTRIES = 200
_QUIET_ENDS = (Status.COMPLETED, Status.CANCELLED)
Changes = dict[tuple[str, str], Change]
"""What calls made of files, or would make, by task and call."""


class Narrator:
    """Tells one editor about one conversation. `changes` is filled by the tools that change files."""

    def __init__(
        self, out: Outbox, cwd: Path, changes: Changes, context: Callable[[str], int | None]
    ) -> None:
        self.out = out
        self._cwd = cwd
        self._changes = changes
        self._context = context
        self._chat: ChatSession | None = None
        self._script = Transcript("")
        self._spoken = ""
        self._pictures: Mapping[str, Sequence[Image]] = {}
        """What the calls show that are just being told of."""
        self._told: dict[int, Call] = {}
        """The calls of the leading agent as they were told last, by their place in its transcript."""
        self._names: dict[tuple[str, str], str] = {}
        """What an open call is called, by task and call."""
        self._placed: dict[int, str] = {}
        self._agents: dict[str, str] = {}
        """The call that an agent is shown as."""
        self._marks: dict[str, object] = {}
        """What an agent did when it was last told of."""
        self._asked: dict[tuple[str, str], Call] = {}
        """The calls of other agents that a person was asked about, until they are over."""

    def lead(self, chat: ChatSession, script: Transcript | None = None) -> None:
        """Tell of this conversation, from behind what `script` holds of it."""
        self._chat = chat
        self._script = script or Transcript(chat.session or "", most=MOST_ENTRIES)
        self._told = dict(self._calls())
        self.out.forget()

    def retell(self, at: int, call: Call) -> None:
        """A call of an earlier turn at its place in the transcript."""
        if self._chat is not None:
            self._tell_call(self._chat, at, call, first=True)

    def tell(self, notice: Notice) -> None:
        """A line for the person."""
        self.out.note(notice.text)

    def hear(self, event: Event) -> None:
        """Tell what is new in an event that the view has taken in already."""
        chat = self._chat
        if chat is None or chat.session is None:
            return
        if not self._script.task:
            self._script = Transcript(chat.session, most=MOST_ENTRIES)
        if event.task == chat.session:
            self._voice(event)
        if not isinstance(event.fact, TextArrived | ThinkingArrived):
            self._script = hear(self._script, event)
            self._pictures = _pictures(event) if event.task == chat.session else {}
            self._tell_calls(chat)
            self._pictures = {}
        if event.task != chat.session and event.task in chat.view.agents:
            self._tell_agent(chat, event)
            self._follow_asked(event)

    async def asked(self, question: Question) -> Shown:
        """The call that a question is about, shown before the editor is asked."""
        call = question.call
        key = (question.task, call.id)
        change = self._changes.get(key)
        title = asked_title(question)
        asked = Call(call.id, self._tool(call.name), title, call.input, "asked")
        shown = replace(call_shown(self.name_of(*key), asked, self._cwd, change), title=title)
        if self._chat is not None and question.task != self._chat.session:
            self.out.show(shown.start())
            self._asked[key] = asked
        await self.out.flush()
        return shown

    def name_of(self, task: str, call: str) -> str:
        """What an open call is called; calls of different replies may have the same id."""
        return self._names.setdefault((task, call), f"{task}-{new_id()}")

    def _voice(self, event: Event) -> None:
        match event.fact:
            case TextArrived() if self._script.verbatim:
                pass  # it quotes files as they are, so it is shown whole, and not as Markdown
            case TextArrived(text):
                self._spoken += text
                self.out.say("agent_message_chunk", text)
            case ThinkingArrived(text):
                self.out.say("agent_thought_chunk", text)
            case ReplyRestarted(why):
                self._spoken = ""
                self.out.note(f"The reply is asked for anew: {why}")
            case MessageAdded(AssistantMessage() as reply):
                self._replied(reply)
            case TaskEnded(status=status, error=error) if status not in _QUIET_ENDS:
                self._spoken = ""
                self.out.note(f"Ended as {status}{f': {error}' if error else ''}")
            case TaskEnded():
                self._spoken = ""
            case _:
                pass

    def _replied(self, reply: AssistantMessage) -> None:
        """What was not heard of a reply while it was spoken, and what it cost."""
        rest = reply.text.removeprefix(self._spoken) if reply.text.startswith(self._spoken) else reply.text
        self.out.say("agent_message_chunk", fenced(rest) if self._script.verbatim and rest else rest)
        self.out.end()
        self._spoken = ""
        room = self._context(reply.model)
        chat = self._chat
        if reply.usage is None or room is None or chat is None or chat.session is None:
            return
        usd = spent(chat.view, chat.session).usd
        used = reply.usage.input_tokens + reply.usage.output_tokens
        cost = None if usd is None else Cost(amount=usd, currency="USD")
        self.out.show(UsageUpdate(session_update="usage_update", used=used, size=room, cost=cost))

    def _calls(self) -> list[tuple[int, Call]]:
        entries = enumerate(self._script.entries, start=self._script.dropped)
        return [(at, entry) for at, entry in entries if isinstance(entry, Call)]

    def _tell_calls(self, chat: ChatSession) -> None:
        for at, call in self._calls():
            before = self._told.get(at)
            if before is call:
                continue
            self._told[at] = call
            if self._tool(call.tool) == PLAN:
                if call.state == "done" and call.result:
                    self.out.show(update_plan(plan_entries(call.input)))
                continue
            self._tell_call(chat, at, call, first=before is None)
        for at in [at for at in self._told if at < self._script.dropped]:
            del self._told[at]
            self._placed.pop(at, None)

    def _tell_call(self, chat: ChatSession, at: int, call: Call, *, first: bool) -> None:
        task = self._script.task
        name = self._placed[at] = self._placed.get(at) or self.name_of(task, call.id)
        if call.child:
            self._agents[call.child] = name
        shown = self._shown(chat, name, call)
        self.out.show(shown.start() if first else shown.progress())
        if call.state in ("done", "failed", "denied") and call.result:
            self._names.pop((task, call.id), None)
            self._changes.pop((task, call.id), None)

    def _shown(self, chat: ChatSession, name: str, call: Call) -> Shown:
        """A call, or the agent it has sent."""
        agent = chat.view.agents.get(call.child) if call.child else None
        if agent is not None and agent.agent:
            return agent_shown(name, agent, stamp())
        change = self._changes.get((self._script.task, call.id))
        images = self._pictures.get(call.id, ())
        return call_shown(name, replace(call, tool=self._tool(call.tool)), self._cwd, change, images)

    def _tool(self, name: str) -> str:
        """A tool's own name; models know some by others."""
        known = self._chat.gen.toolbox.get(name) if self._chat is not None else None
        return known.name if known is not None else name

    def _tell_agent(self, chat: ChatSession, event: Event) -> None:
        """An agent whenever what it does is new; one that no call of the leading agent sent has its own."""
        task = event.task
        agent = chat.view.agents[task]
        mark = (agent.agent, agent.status, agent.step, agent.turns, agent.background)
        if not agent.agent or self._marks.get(task) == mark:
            return
        self._marks[task] = mark
        below = () if agent.parent == chat.session else path(chat.view, task)[1:]
        name = self._agents.get(task)
        if name is not None:
            self.out.show(agent_shown(name, agent, stamp(), below).progress())
        elif agent.parent != chat.session or (isinstance(event.fact, TaskCreated) and not event.fact.call):
            name = self._agents[task] = f"agent-{task}"
            self.out.show(agent_shown(name, agent, stamp(), below).start())

    def _follow_asked(self, event: Event) -> None:
        """How a call of another agent goes on that a person was asked about."""
        match event.fact:
            case CallStarted(call=call):
                self._asked_is(event.task, call, state="running")
            case CallDecided(call=call, decision=decision) if decision.action is Action.DENY:
                self._asked_is(event.task, call, state="denied", why=decision.why)
            case MessageAdded(ToolMessage(results=results)):
                for result in results:
                    self._tell_change(event.task, result)
                    state = "failed" if result.error else "done"
                    self._asked_is(event.task, result.call, result.images, state=state, result=result.text)
                    self._changes.pop((event.task, result.call), None)
            case _:
                pass

    def _tell_change(self, task: str, result: ToolResult) -> None:
        """A file that another agent changed without a question."""
        change = self._changes.get((task, result.call))
        if change is None or result.error or (task, result.call) in self._asked or self._chat is None:
            return
        who = " › ".join(path(self._chat.view, task)[1:])
        line = f"{who}: {result.name}({Path(change.path).name})"
        arguments = {"file_path": change.path}
        call = Call(result.call, result.name, line, arguments, "done", result.text)
        self.out.show(call_shown(self.name_of(task, result.call), call, self._cwd, change).start())
        self._names.pop((task, result.call), None)

    def _asked_is(self, task: str, call: str, images: Sequence[Image] = (), **fields: str) -> None:
        before = self._asked.get((task, call))
        if before is None:
            return
        if before.state == "denied" and "result" in fields:
            fields = {"result": fields["result"]}
        after = self._asked[task, call] = replace(before, **fields)
        name = self.name_of(task, call)
        change = self._changes.get((task, call))
        self.out.show(call_shown(name, after, self._cwd, change, images).progress())
        if after.result:
            del self._asked[task, call]
            self._names.pop((task, call), None)


def _pictures(event: Event) -> Mapping[str, Sequence[Image]]:
    """The pictures that an event brings, by call."""
    match event.fact:
        case MessageAdded(ToolMessage(results=results)):
            return {result.call: result.images for result in results if result.images}
        case _:
            return {}
