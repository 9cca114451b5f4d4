"""One folded state of all agents for every screen: pure, no colours, no clock of its own."""

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.events import (
    CallFinished,
    CallStarted,
    Event,
    MessageAdded,
    ProgressMade,
    QueueMoved,
    TaskCreated,
    TaskEnded,
    TaskStalled,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
)
from gencode.core.ids import moment
from gencode.core.messages import AssistantMessage, ToolMessage
from gencode.core.status import Status
from gencode.runtime.calls import summary

STEP_ROOM = 200


class AgentView(Struct, frozen=True):
    """One agent as a screen shows it."""

    id: str
    agent: str = ""
    title: str = ""
    parent: str | None = None
    conversation: bool = False
    model: str = ""
    status: Status = Status.PENDING
    step: str = ""
    turns: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    result: str = ""
    error: str | None = None

    def elapsed(self, now: str) -> float:
        """Seconds since it started, until `now` or its end."""
        if self.started_at is None:
            return 0.0
        return max((moment(self.ended_at or now) - moment(self.started_at)).total_seconds(), 0.0)


class View(Struct, frozen=True):
    """All agents by id, in the order they were launched."""

    agents: dict[str, AgentView] = {}

    def parent(self, task: str) -> str | None:
        """The task that asked for this one."""
        known = self.agents.get(task)
        return known.parent if known else None

    def launched(self, root: str) -> list[str]:
        """The ids of everything below a task, in the order of launch."""
        below = {root}
        for each in self.agents.values():
            if each.parent in below:
                below.add(each.id)
        return [task for task in self.agents if task in below and task != root]


def fold(view: View, event: Event) -> View:
    """The view after one more event; events of tasks whose beginning was not heard are welcome."""
    before = view.agents.get(event.task) or AgentView(event.task)
    after = _after(before, event)
    return view if after is before else View({**view.agents, event.task: after})


def _after(agent: AgentView, event: Event) -> AgentView:
    match event.fact:
        case TaskCreated() as fact:
            title = fact.description or fact.prompt
            named = replace(agent, agent=fact.agent, title=title[:STEP_ROOM])
            return replace(named, parent=fact.parent, conversation=fact.conversation)
        case TaskStarted() as fact:
            begun = agent.started_at or event.at
            model = fact.model or agent.model
            running = replace(agent, status=Status.RUNNING, model=model, step="thinking")
            return replace(running, started_at=begun, ended_at=None)
        case TaskEnded() as fact:
            end = replace(agent, status=fact.status, result=fact.result, error=fact.error)
            return replace(end, ended_at=event.at, step="")
        case MessageAdded(AssistantMessage() as message):
            step = ", ".join(summary(call) for call in message.calls)[:STEP_ROOM]
            model = message.model or agent.model
            return replace(agent, turns=agent.turns + 1, model=model, step=step or agent.step)
        case MessageAdded(ToolMessage()):
            return replace(agent, step="thinking")
        case _:
            step = _step(event)
            return agent if step is None or step == agent.step else replace(agent, step=step)


def _step(event: Event) -> str | None:
    """What an agent is doing, in a few words; None when the event does not tell."""
    match event.fact:
        case CallStarted() as fact:
            return (fact.summary or fact.tool)[:STEP_ROOM]
        case CallFinished() as fact if fact.error:
            return f"{fact.tool} failed: {fact.summary}"[:STEP_ROOM]
        case ProgressMade(text):
            return text[:STEP_ROOM]
        case QueueMoved(position):
            return f"waiting, {position}. in line"
        case TaskStalled(seconds):
            return f"silent for {seconds:.0f} s"
        case TextArrived():
            return "answering"
        case ThinkingArrived():
            return "thinking"
        case _:
            return None
