"""Agents as every screen shows them: a pure fold of their events, their tree, and short texts about one."""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.tool_calls import summary
from gencode.core.budget import Budget
from gencode.core.events import (
    BudgetSet,
    CallDecided,
    CallFinished,
    CallStarted,
    CostEstimated,
    Event,
    MessageAdded,
    ProgressMade,
    QueueMoved,
    TaskBackgrounded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStalled,
    TaskStarted,
    TextArrived,
    ThinkingArrived,
    TranscriptCompacted,
)
from gencode.core.ids import SHELL, moment
from gencode.core.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from gencode.core.outcome import title_of, titled
from gencode.core.status import Status
from gencode.core.task import RefusedToolCall, Task, handed_over, with_refusal
from gencode.core.text import visible_line
from gencode.interfaces.render.number_format import BudgetBar, bars, money, ordinal, seconds, tokens, turns

STEP_ROOM = 200
MOST_ENDS = 8
"""So many ends of an agent are at hand; its journal has all of them."""
CUT_SHORT = frozenset({Status.LIMIT_REACHED, Status.TIMED_OUT, Status.FAILED})
"""How an agent ends that had no turn left for what it was told last."""


class RunSummary(Struct, frozen=True):
    """How one run of an agent ended, and what it came to."""

    at: str
    status: Status
    result: str
    error: str | None = None


class AgentView(Struct, frozen=True):
    """One agent as a screen shows it.

    `since` is when the run began that it is in, `worked` how many seconds those took that have ended.
    `place` is its place in the queue while it waits to begin, `stalled` for how many seconds it had been
    silent when that was noticed. It is `resting` when it has answered and waits for what comes back to it.
    `unanswered` are the results it has got since its last reply: receipts of what agents came to, and the
    bare ids of those that it has sent since. `ends` are how its last few runs ended, `refused` the calls that
    it was refused, `warnings` what its receipt warns of.
    """

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
    background: bool = False
    usage: Usage = Usage()
    budget: Budget = Budget()
    place: int = 0
    stalled: float = 0.0
    resting: bool = False
    unanswered: tuple[str, ...] = ()
    ends: tuple[RunSummary, ...] = ()
    since: str | None = None
    worked: float = 0.0
    refused: tuple[RefusedToolCall, ...] = ()
    warnings: tuple[str, ...] = ()

    def elapsed(self, now: str) -> float:
        """The seconds of all its runs, of one that goes on until `now`; not those between two."""
        if self.since is None:
            return self.worked
        return self.worked + max((moment(now) - moment(self.since)).total_seconds(), 0.0)

    def as_of(self, end: RunSummary) -> "AgentView":
        """The same as it was at one of its ends."""
        return replace(self, status=end.status, result=end.result, error=end.error, ended_at=end.at)

    @property
    def working(self) -> bool:
        """Whether it is at work at this moment, or waits for its turn to be."""
        return not self.status.ended and not self.resting


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


def seen(task: Task) -> AgentView:
    """An agent as its folded task tells it, for those whose events nobody heard."""
    ends = [
        RunSummary(each.end.at or "", each.status, each.report.text, each.end.error) for each in task.past
    ]
    if task.end.at:
        ends.append(RunSummary(task.end.at, task.status, task.result, task.end.error))
    return AgentView(
        id=task.id,
        agent=task.agent,
        title=title_of(task)[:STEP_ROOM],
        parent=task.parent,
        conversation=task.conversation,
        model=task.run.model,
        status=task.status,
        turns=task.totals.turns,
        started_at=task.run.started_at,
        ended_at=task.end.at,
        result=task.result if task.status.ended else "",
        error=task.end.error,
        background=task.terms.background,
        usage=task.totals.usage,
        budget=task.terms.budget,
        stalled=task.run.stalled,
        ends=tuple(ends[-MOST_ENDS:]),
        since=task.run.since,
        worked=task.totals.worked_ms / 1000,
        refused=task.evidence.refused,
        warnings=task.evidence.warnings,
    )


def fold(view: View, event: Event) -> View:
    """The view after one more event; events of tasks whose beginning was not heard are welcome."""
    before = view.agents.get(event.task) or AgentView(event.task)
    after = _after(before, event)
    return view if after is before else View({**view.agents, event.task: after})


def _after(agent: AgentView, event: Event) -> AgentView:
    if agent.stalled:
        agent = replace(agent, stalled=0.0)
    match event.fact:
        case TaskCreated() as fact:
            title = titled(fact.description, fact.prompt, fact.forked)
            named = replace(agent, agent=fact.agent, title=title[:STEP_ROOM], parent=fact.parent)
            return replace(
                named, conversation=fact.conversation, background=fact.background, budget=fact.budget
            )
        case TaskStarted() as fact:
            begun = agent.started_at or event.at
            model = fact.model or agent.model
            budget = agent.budget if fact.budget is None else fact.budget
            running = replace(agent, status=Status.RUNNING, model=model, step="thinking", budget=budget)
            running = replace(running, started_at=begun, since=event.at)
            return replace(running, ended_at=None, place=0, resting=False)
        case TaskQueued() as fact:
            budget = agent.budget if fact.budget is None else fact.budget
            waits = replace(agent, status=Status.PENDING, step="", budget=budget)
            return replace(waits, error=None, ended_at=None, place=0, resting=False)
        case BudgetSet(budget):
            return replace(agent, budget=budget)
        case TaskBackgrounded():
            return replace(agent, background=True)
        case TaskEnded() as fact:
            end = replace(agent, status=fact.status, result=fact.told, error=fact.error)
            end = replace(end, warnings=fact.warnings)
            end = replace(end, ended_at=event.at, since=None, worked=agent.elapsed(event.at))
            last = RunSummary(event.at, fact.status, fact.told, fact.error)
            return replace(end, step="", place=0, resting=False, ends=(*agent.ends, last)[-MOST_ENDS:])
        case TranscriptCompacted() | CostEstimated() as fact:
            return replace(agent, usage=agent.usage + (fact.usage or Usage()))
        case MessageAdded() as fact:
            return _told(agent, fact)
        case CallDecided() as fact:
            refused = with_refusal(agent.refused, fact)
            return agent if refused is agent.refused else replace(agent, refused=refused)
        case QueueMoved(position):
            return replace(agent, place=position, step=f"waiting in the queue ({ordinal(position)})")
        case TaskStalled(seconds):
            return replace(agent, stalled=seconds, step=f"no activity for {seconds:.0f} s")
        case _:
            step = _step(event)
            return agent if step is None or step == agent.step else replace(agent, step=step)


def unanswered_after(before: tuple[str, ...], message: Message) -> tuple[str, ...]:
    """The results that an agent has got and not answered, after one more message: by their receipts.

    Who was sent meanwhile has none yet, and so only its id.
    """
    match message:
        case AssistantMessage(partial=partial):
            return before if partial else ()
        case ToolMessage(results):
            for trace in (result.trace for result in results):
                sent = [child for child in trace.children if child not in trace.delivered]
                given = [each for each in trace.delivered if not each.startswith(SHELL)]
                before = handed_over(handed_over(before, sent, ()), given, trace.ends)
            return before
        case UserMessage(delivers=delivers, ends=ends):
            return handed_over(before, [each for each in delivers if not each.startswith(SHELL)], ends)


def _told(agent: AgentView, fact: MessageAdded) -> AgentView:
    unanswered = unanswered_after(agent.unanswered, fact.message)
    if unanswered != agent.unanswered:
        agent = replace(agent, unanswered=unanswered)
    match fact.message:
        case AssistantMessage() as reply:
            step = ", ".join(summary(call) for call in reply.calls)[:STEP_ROOM] or agent.step
            usage = agent.usage + (reply.usage or Usage())
            turns = agent.turns + (not reply.again)
            spoken = replace(agent, turns=turns, model=reply.model or agent.model, usage=usage)
            return replace(spoken, step=step, resting=not reply.calls and not reply.partial)
        case ToolMessage():
            return replace(agent, step="thinking")
        case UserMessage():
            return replace(agent, resting=False) if agent.resting else agent


def _step(event: Event) -> str | None:
    """What an agent is doing, in a few words; None when the event does not tell."""
    match event.fact:
        case CallStarted() as fact:
            return (fact.summary or fact.tool)[:STEP_ROOM]
        case CallFinished() as fact if fact.error:
            return f"{fact.tool} failed: {fact.summary}"[:STEP_ROOM]
        case ProgressMade(text):
            return text[:STEP_ROOM]
        case TextArrived():
            return "answering"
        case ThinkingArrived():
            return "thinking"
        case _:
            return None


SIGNS = {
    Status.PENDING: "◌",
    Status.RUNNING: "●",
    Status.COMPLETED: "✓",
    Status.EMPTY: "∅",
    Status.LIMIT_REACHED: "▲",
    Status.TIMED_OUT: "⧗",
    Status.FAILED: "✗",
    Status.CANCELLED: "■",
    Status.INTERRUPTED: "‖",
}


def state(agent: AgentView) -> str:
    """How an agent stands, in a word or two."""
    if agent.stalled:
        return f"stalled {agent.stalled:.0f} s"
    if agent.status is Status.PENDING and agent.place:
        return f"queued ({ordinal(agent.place)})"
    if agent.resting:
        return "waiting"
    return agent.status.replace("_", " ")


def figures(agent: AgentView, now: str) -> str:
    """Turns, tokens, cost and time of one agent."""
    cost = money(agent.usage.usd)
    used = (turns(agent.turns), tokens(agent.usage), *((cost,) if cost else ()))
    return " · ".join((*used, seconds(agent.elapsed(now))))


def progress_line(agent: AgentView, most: int = 100) -> str:
    """The last step of an agent below the call that sent it."""
    return f"↳ {visible_line(agent.agent, 40)}: {visible_line(agent.step or state(agent), most)}"


def name_of(agent: AgentView, most: int = 60) -> str:
    """An agent by its type and what it was sent for."""
    title = visible_line(agent.title, most)
    return f"{visible_line(agent.agent, 40)}: {title}" if title else visible_line(agent.agent, 40)


class AgentRow(Struct, frozen=True):
    """One agent in its tree: `lead` draws its branch, `below` counts everything that hangs from it."""

    agent: AgentView
    depth: int
    lead: str
    below: int
    spent: Usage
    turns: int

    @property
    def bars(self) -> list[BudgetBar]:
        """Its budget, which everything below it is paid from as well."""
        return bars(self.agent.budget, self.spent, self.turns, self.below)


class _Sum(Struct):
    usage: Usage
    turns: int
    below: int


def rows(view: View, root: str | None = None) -> list[AgentRow]:
    """Every agent below its sender, the root first; without a root everything there is."""
    children = _children(view.agents)
    tops = [root] if root in view.agents else [] if root else children.get(None, [])
    found: list[AgentRow] = []
    sums: dict[str, _Sum] = {}
    for top in tops:
        order = _walk(top, children)
        _add_up(view.agents, order, sums)
        for task, depth, lead in order:
            total = sums[task]
            found.append(AgentRow(view.agents[task], depth, lead, total.below, total.usage, total.turns))
    return found


def spent(view: View, root: str) -> Usage:
    """What a task and everything below it cost."""
    agents = [view.agents[task] for task in (root, *view.launched(root)) if task in view.agents]
    total = Usage()
    for agent in agents:
        total = total + agent.usage
    return total


def path(view: View, task: str) -> tuple[str, ...]:
    """The agents from the root down to one, by their types."""
    names: list[str] = []
    at: str | None = task
    seen: set[str] = set()
    while at is not None and at in view.agents and at not in seen:
        seen.add(at)
        names.append(view.agents[at].agent or at)
        at = view.agents[at].parent
    return tuple(reversed(names))


def busy(view: View, root: str) -> list[AgentView]:
    """The agents below a task that have not ended, in the order of launch."""
    return [view.agents[task] for task in view.launched(root) if not view.agents[task].status.ended]


def _children(agents: Mapping[str, AgentView]) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for task, agent in agents.items():
        above = agent.parent if agent.parent in agents else None
        found.setdefault(above, []).append(task)
    return found


def _walk(top: str, children: Mapping[str | None, list[str]]) -> list[tuple[str, int, str]]:
    """A subtree, parents before children, with the line that leads to each; circles are left out."""
    order: list[tuple[str, int, str]] = []
    seen: set[str] = set()
    waiting: list[tuple[str, int, str, str]] = [(top, 0, "", "")]
    while waiting:
        task, depth, lead, trunk = waiting.pop()
        if task in seen:
            continue
        seen.add(task)
        order.append((task, depth, lead))
        below = children.get(task, [])
        for number, child in reversed(list(enumerate(below, start=1))):
            last = number == len(below)
            waiting.append(
                (child, depth + 1, f"{trunk}{'└─' if last else '├─'}", trunk + ("  " if last else "│ "))
            )
    return order


def _add_up(
    agents: Mapping[str, AgentView], order: Iterable[tuple[str, int, str]], sums: dict[str, _Sum]
) -> None:
    tasks = [task for task, _, _ in order]
    for task in tasks:
        sums[task] = _Sum(agents[task].usage, agents[task].turns, 0)
    for task in reversed(tasks):
        above = sums.get(agents[task].parent or "")
        if above is not None and task != tasks[0]:
            own = sums[task]
            above.usage, above.turns = above.usage + own.usage, above.turns + own.turns
            above.below += own.below + 1
