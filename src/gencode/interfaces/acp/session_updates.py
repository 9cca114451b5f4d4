"""Turns the events of a conversation into ACP session updates: messages, thoughts, plans and tool calls.

Each tool call of the main agent is a tool call of the protocol. A subagent is one tool call: the Task call
that started it, or one of its own if another subagent did. Of the subagents' own calls only those are shown
that need the user's approval.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from acp.helpers import update_plan
from acp.schema import Cost, UsageUpdate

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
from gencode.core.structs import replace
from gencode.interfaces.acp.editor_client import UpdateQueue
from gencode.interfaces.acp.tool_call_updates import (
    PLAN,
    AcpToolCall,
    FileDiff,
    describe_agent,
    describe_call,
    fenced,
    plan_entries,
    question_title,
)
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.render.agent_view import path, spent
from gencode.interfaces.render.transcript import (
    Call,
    CallState,
    HandedBack,
    IncomingMessage,
    Remark,
    Reply,
    Thought,
    Transcript,
    hear,
)

MOST_ENTRIES = 200
_QUIET_ENDS = (Status.COMPLETED, Status.CANCELLED)
FileDiffs = dict[tuple[str, str], FileDiff]
"""How calls changed files, or would change them, by task and call."""


class SessionUpdates:
    """The updates of one session. `diffs` is filled by the tools that change files."""

    def __init__(
        self, out: UpdateQueue, cwd: Path, diffs: FileDiffs, context: Callable[[str], int | None]
    ) -> None:
        self.out = out
        self._cwd = cwd
        self._diffs = diffs
        self._context = context
        self._chat: ChatSession | None = None
        self._script = Transcript("")
        self._streamed = ""
        self._pictures: Mapping[str, Sequence[Image]] = {}
        """The pictures of the calls in the event that is being handled."""
        self._sent: dict[int, Call] = {}
        """The main agent's calls as they were last sent, by their position in its transcript."""
        self._open_ids: dict[tuple[str, str], str] = {}
        """The tool call ids of open calls, by task and call."""
        self._ids: dict[int, str] = {}
        """The tool call ids of the main agent's calls, by their position in its transcript."""
        self._agent_ids: dict[str, str] = {}
        """The tool call id that a subagent is shown under."""
        self._agent_states: dict[str, object] = {}
        """What was last sent about a subagent."""
        self._asked: dict[tuple[str, str], Call] = {}
        """The subagents' calls that the user was asked about, until they have finished."""

    def follow(self, chat: ChatSession, script: Transcript | None = None) -> None:
        """Send what happens in this conversation from now on; `script` is what it already holds."""
        self._chat = chat
        self._script = script or Transcript(chat.session or "", most=MOST_ENTRIES)
        self._sent = dict(self._calls())
        self.out.forget_sent()

    def replay_call(self, at: int, call: Call) -> None:
        """Send a call of an earlier turn, by its position in the transcript."""
        if self._chat is not None:
            self._send_call(self._chat, at, call, first=True)

    def add_notice(self, notice: Notice) -> None:
        """Send a notice to the user."""
        self.out.add_note(notice.text)

    def add_event(self, event: Event) -> None:
        """Send what an event changes; the view already contains it."""
        chat = self._chat
        if chat is None or chat.session is None:
            return
        if not self._script.task:
            self._script = Transcript(chat.session, most=MOST_ENTRIES)
        if event.task == chat.session:
            self._add_text(event)
        if not isinstance(event.fact, TextArrived | ThinkingArrived):
            self._script = hear(self._script, event)
            self._pictures = _pictures(event) if event.task == chat.session else {}
            self._send_calls(chat)
            self._pictures = {}
        if event.task != chat.session and event.task in chat.view.agents:
            self._send_agent(chat, event)
            self._follow_asked(event)

    async def show_question(self, question: Question) -> AcpToolCall:
        """Show the call that needs approval, before the editor asks for it."""
        call = question.call
        key = (question.task, call.id)
        change = self._diffs.get(key)
        title = question_title(question)
        asked = Call(call.id, self._tool(call.name), title, call.input, "asked")
        shown = replace(describe_call(self._id_of(*key), asked, self._cwd, change), title=title)
        if self._chat is not None and question.task != self._chat.session:
            self.out.add(shown.start())
            self._asked[key] = asked
        await self.out.flush()
        return shown

    def _id_of(self, task: str, call: str) -> str:
        """The tool call id of an open call; the model may use one id twice."""
        return self._open_ids.setdefault((task, call), f"{task}-{new_id()}")

    def _add_text(self, event: Event) -> None:
        match event.fact:
            case TextArrived() if self._script.verbatim:
                pass  # it quotes files, so the whole reply is sent as a code block and not as Markdown
            case TextArrived(text):
                self._streamed += text
                self.out.add_text("agent_message_chunk", text)
            case ThinkingArrived(text):
                self.out.add_text("agent_thought_chunk", text)
            case ReplyRestarted(why):
                self._streamed = ""
                self.out.add_note(f"Retrying the reply: {why}")
            case MessageAdded(AssistantMessage() as reply):
                self._replied(reply)
            case TaskEnded(status=status, error=error) if status not in _QUIET_ENDS:
                self._streamed = ""
                self.out.add_note(f"The turn has ended ({status}){f': {error}' if error else ''}")
            case TaskEnded():
                self._streamed = ""
            case _:
                pass

    def _replied(self, reply: AssistantMessage) -> None:
        """Send the part of a reply that was not streamed, and its usage."""
        rest = reply.text.removeprefix(self._streamed)
        self.out.add_text("agent_message_chunk", fenced(rest) if self._script.verbatim and rest else rest)
        self.out.end_message()
        self._streamed = ""
        room = self._context(reply.model)
        chat = self._chat
        if reply.usage is None or room is None or chat is None or chat.session is None:
            return
        usd = spent(chat.view, chat.session).usd
        used = reply.usage.input_tokens + reply.usage.output_tokens
        cost = None if usd is None else Cost(amount=usd, currency="USD")
        self.out.add(UsageUpdate(session_update="usage_update", used=used, size=room, cost=cost))

    def _calls(self) -> list[tuple[int, Call]]:
        entries = enumerate(self._script.entries, start=self._script.dropped)
        return [(at, entry) for at, entry in entries if isinstance(entry, Call)]

    def _send_calls(self, chat: ChatSession) -> None:
        for at, call in self._calls():
            before = self._sent.get(at)
            if before is call:
                continue
            self._sent[at] = call
            if self._tool(call.tool) == PLAN:
                if call.state == "done" and call.result:
                    self.out.add(update_plan(plan_entries(call.input)))
                continue
            self._send_call(chat, at, call, first=before is None)
        for at in [at for at in self._sent if at < self._script.dropped]:
            del self._sent[at]
            self._ids.pop(at, None)

    def _send_call(self, chat: ChatSession, at: int, call: Call, *, first: bool) -> None:
        task = self._script.task
        name = self._ids[at] = self._ids.get(at) or self._id_of(task, call.id)
        if call.child:
            self._agent_ids[call.child] = name
        shown = self._shown(chat, name, call)
        self.out.add(shown.start() if first else shown.progress())
        if call.state in ("done", "failed", "denied") and call.result:
            self._open_ids.pop((task, call.id), None)
            self._diffs.pop((task, call.id), None)

    def _shown(self, chat: ChatSession, name: str, call: Call) -> AcpToolCall:
        """A call, or the subagent that it started."""
        agent = chat.view.agents.get(call.child) if call.child else None
        if agent is not None and agent.agent:
            return describe_agent(name, agent, stamp())
        change = self._diffs.get((self._script.task, call.id))
        images = self._pictures.get(call.id, ())
        return describe_call(name, replace(call, tool=self._tool(call.tool)), self._cwd, change, images)

    def _tool(self, name: str) -> str:
        """The name of a tool; models know some tools by other names."""
        known = self._chat.gen.toolbox.get(name) if self._chat is not None else None
        return known.name if known is not None else name

    def _send_agent(self, chat: ChatSession, event: Event) -> None:
        """Send the state of a subagent if it is new; one of another subagent is a call of its own."""
        task = event.task
        agent = chat.view.agents[task]
        mark = (agent.agent, agent.status, agent.step, agent.turns, agent.background)
        if not agent.agent or self._agent_states.get(task) == mark:
            return
        self._agent_states[task] = mark
        below = () if agent.parent == chat.session else path(chat.view, task)[1:]
        name = self._agent_ids.get(task)
        if name is not None:
            self.out.add(describe_agent(name, agent, stamp(), below).progress())
        elif agent.parent != chat.session or (isinstance(event.fact, TaskCreated) and not event.fact.call):
            name = self._agent_ids[task] = f"agent-{task}"
            self.out.add(describe_agent(name, agent, stamp(), below).start())

    def _follow_asked(self, event: Event) -> None:
        """Send the progress of a subagent's call that the user was asked about."""
        match event.fact:
            case CallStarted(call=call):
                self._update_asked(event.task, call, "running")
            case CallDecided(call=call, decision=decision) if decision.action is Action.DENY:
                self._update_asked(event.task, call, "denied", why=decision.why)
            case MessageAdded(ToolMessage(results=results)):
                for result in results:
                    self._send_diff(event.task, result)
                    state = "failed" if result.error else "done"
                    self._update_asked(
                        event.task, result.call, state, result=result.for_people, images=result.images
                    )
                    self._diffs.pop((event.task, result.call), None)
            case _:
                pass

    def _send_diff(self, task: str, result: ToolResult) -> None:
        """Send a file change of a subagent that needed no approval."""
        change = self._diffs.get((task, result.call))
        if change is None or result.error or (task, result.call) in self._asked or self._chat is None:
            return
        who = " › ".join(path(self._chat.view, task)[1:])
        line = f"{who}: {result.name}({Path(change.path).name})"
        arguments = {"file_path": change.path}
        call = Call(result.call, result.name, line, arguments, "done", result.for_people)
        self.out.add(describe_call(self._id_of(task, result.call), call, self._cwd, change).start())
        self._open_ids.pop((task, result.call), None)

    def _update_asked(
        self,
        task: str,
        call: str,
        state: CallState,
        *,
        why: str = "",
        result: str = "",
        images: Sequence[Image] = (),
    ) -> None:
        before = self._asked.get((task, call))
        if before is None:
            return
        state = "denied" if before.state == "denied" else state
        after = self._asked[task, call] = replace(
            before, state=state, why=why or before.why, result=result or before.result
        )
        name = self._id_of(task, call)
        change = self._diffs.get((task, call))
        self.out.add(describe_call(name, after, self._cwd, change, images).progress())
        if after.result:
            del self._asked[task, call]
            self._open_ids.pop((task, call), None)


def _pictures(event: Event) -> Mapping[str, Sequence[Image]]:
    """The pictures in an event, by call."""
    match event.fact:
        case MessageAdded(ToolMessage(results=results)):
            return {result.call: result.images for result in results if result.images}
        case _:
            return {}


MOST_REPLAYED = 5_000


async def replay(chat: ChatSession, updates: SessionUpdates) -> None:
    """Send the conversation that is open in `chat` from its beginning, and follow it."""
    script = await chat.transcript(chat.session or "", MOST_REPLAYED)
    updates.follow(chat, script)
    out = updates.out
    if script.dropped:
        out.add_note(
            f"{script.dropped:,} earlier {'entry is' if script.dropped == 1 else 'entries are'} not shown. "
            f"To see everything, run: gen sessions show {script.task}"
        )
    for at, entry in enumerate(script.entries, start=script.dropped):
        match entry:
            case IncomingMessage(text, "user"):
                out.add_text("user_message_chunk", text)
                out.end_message()
            case IncomingMessage(text, sender):
                out.add_note(f"{sender}: {text[:2_000]}")
            case Thought(text):
                out.add_text("agent_thought_chunk", text)
            case Reply(text):
                out.add_text("agent_message_chunk", fenced(text) if entry.verbatim else text)
                out.end_message()
            case Remark(text):
                out.add_note(text)
            case Call(tool=tool, state="done") if tool == PLAN:
                pass
            case HandedBack():
                pass  # the result of a subagent is shown in the call that started it
            case Call():
                updates.replay_call(at, entry)
    _send_last_plan(script, updates)
    await out.flush()


def _send_last_plan(script: Transcript, updates: SessionUpdates) -> None:
    plans = [entry for entry in script.entries if isinstance(entry, Call) and entry.tool == PLAN]
    if plans and plans[-1].state == "done":
        updates.out.add(update_plan(plan_entries(plans[-1].input)))
