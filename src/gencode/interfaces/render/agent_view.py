"""Agents as every screen shows them: a pure fold of their events, their tree, and short texts about one."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

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
from gencode.core.structs import replace
from gencode.core.subsession_events import ALONE, Lineage
from gencode.core.task import (
    Evidence,
    RefusedToolCall,
    Task,
    evidence_after,
    transcript_of,
    with_receipts,
    with_refusal,
)
from gencode.core.text import visible_line
from gencode.interfaces.render.number_format import (
    BudgetBar,
    bars,
    counted,
    money,
    ordinal,
    seconds,
    tokens,
    turns,
)

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


Activity = Literal["thinking", "answering", "calling", "waiting"]


class AgentView(Struct, frozen=True):
    """One agent as a screen shows it.

    `since` is when the run began that it is in, `worked` how many seconds those took that have ended.
    `place` is its place in the queue while it waits to begin, `stalled` for how many seconds it had been
    silent when that was noticed. It is `resting` when it has answered and waits for what comes back to it.
    `unanswered` are the results it has got since its last reply: receipts of what agents came to, and the
    bare ids of those that it has sent since. `ends` are how its last few runs ended, `refused` the calls that
    it was refused, `warnings` what its receipt warns of, `saw` what else GenCode saw it do. `call` is its
    last tool call and what that found, `activity` what it does now. `context` are the tokens of its last
    request and reply, `before` is what it had used when its present run began.
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
    saw: Evidence = Evidence()
    call: str = ""
    activity: Activity = "thinking"
    context: int = 0
    before: Usage = Usage()
    said: str = ""
    """The end of the reply that is arriving."""
    failed: bool = False
    """Whether its last call failed."""
    colour: str = ""
    display_name: str = ""

    @property
    def doing(self) -> str:
        """What it writes or does now, in a line."""
        lines = self.said.strip().splitlines() if self.activity == "answering" else ()
        return lines[-1] if lines else self.step or state(self)

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

    def lineage(self, task: str) -> Lineage:
        """Where a task belongs, as far as its beginning was heard."""
        known = self.agents.get(task)
        return Lineage(known.parent, known.conversation) if known else ALONE

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
        saw=task.evidence,
        colour=task.created.colour,
        display_name=task.created.display_name,
    )


def fold(view: View, event: Event) -> View:
    """The view after one more event; events of tasks whose beginning was not heard are welcome."""
    before = view.agents.get(event.task) or AgentView(event.task)
    after = _after(before, event)
    return view if after is before else View({**view.agents, event.task: after})


def _after(agent: AgentView, event: Event) -> AgentView:
    if agent.stalled:
        agent = replace(agent, stalled=0.0, step=agent.call or agent.activity)
    match event.fact:
        case TaskCreated() as fact:
            title = titled(fact.description, fact.prompt, fact.forked)
            named = replace(agent, agent=fact.agent, title=title[:STEP_ROOM], parent=fact.parent)
            named = replace(named, colour=fact.colour, display_name=fact.display_name)
            named = replace(named, conversation=fact.conversation, background=fact.background)
            return replace(named, budget=fact.budget)
        case TaskStarted() as fact:
            begun = agent.started_at or event.at
            model = fact.model or agent.model
            budget = agent.budget if fact.budget is None else fact.budget
            running = replace(agent, status=Status.RUNNING, model=model, step="thinking", budget=budget)
            running = replace(running, started_at=begun, since=event.at, before=agent.usage)
            running = replace(running, said="", failed=False)
            return replace(running, ended_at=None, place=0, resting=False, call="", activity="thinking")
        case TaskQueued() as fact:
            budget = agent.budget if fact.budget is None else fact.budget
            waits = replace(agent, status=Status.PENDING, step="", budget=budget)
            return replace(waits, error=None, ended_at=None, place=0, resting=False)
        case BudgetSet(budget):
            return replace(agent, budget=budget)
        case TaskBackgrounded():
            return replace(agent, background=True)
        case TaskEnded() as fact:
            end = replace(agent, status=fact.status, result=fact.full_text, error=fact.error)
            end = replace(end, warnings=fact.warnings, call="", activity="thinking", before=Usage())
            end = replace(end, ended_at=event.at, since=None, worked=agent.elapsed(event.at))
            last = RunSummary(event.at, fact.status, fact.full_text, fact.error)
            return replace(end, step="", place=0, resting=False, ends=(*agent.ends, last)[-MOST_ENDS:])
        case TranscriptCompacted() | CostEstimated() as fact:
            context = 0 if isinstance(fact, TranscriptCompacted) else agent.context
            return replace(agent, usage=agent.usage + (fact.usage or Usage()), context=context)
        case MessageAdded() as fact:
            return _told(agent, fact)
        case CallDecided() as fact:
            refused = with_refusal(agent.refused, fact)
            return agent if refused is agent.refused else replace(agent, refused=refused)
        case QueueMoved(position):
            return replace(agent, place=position, step=f"waiting in the queue ({ordinal(position)})")
        case TaskStalled(seconds):
            return replace(agent, stalled=seconds, step=f"no activity for {seconds:.0f} s")
        case TextArrived(text):
            active = _active(agent, "answering")  # what a conversation says is shown as it is
            return active if agent.conversation else replace(active, said=(agent.said + text)[-STEP_ROOM:])
        case ThinkingArrived():
            return _active(agent, "thinking")
        case CallStarted() as fact:
            call = (fact.summary or fact.tool)[:STEP_ROOM]
            return replace(agent, call=call, step=call, activity="calling", failed=False)
        case CallFinished() as fact if fact.error:
            return replace(agent, step=f"{fact.tool} failed: {fact.summary}"[:STEP_ROOM], failed=True)
        case ProgressMade() as fact:
            return _progressed(agent, fact)
        case _:
            return agent


def _active(agent: AgentView, activity: Activity) -> AgentView:
    """The agent thinking or answering; its last call stays what is shown of it, once there was one."""
    if agent.activity == activity and agent.step:
        return agent
    return replace(agent, activity=activity, step=agent.call or activity)


def _progressed(agent: AgentView, fact: ProgressMade) -> AgentView:
    """The progress of a tool, or what the agent waits for; that it asks its model is no news."""
    if fact.waits_for is not None:
        return replace(agent, activity="waiting", step=fact.text[:STEP_ROOM])
    if agent.activity == "calling" or not agent.call:
        return replace(agent, step=fact.text[:STEP_ROOM])
    return _active(agent, "thinking")


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
                before = with_receipts(with_receipts(before, sent, ()), given, trace.ends)
            return before
        case UserMessage(delivers=delivers, ends=ends):
            return with_receipts(before, [each for each in delivers if not each.startswith(SHELL)], ends)


def _told(agent: AgentView, fact: MessageAdded) -> AgentView:
    unanswered = unanswered_after(agent.unanswered, fact.message)
    if unanswered != agent.unanswered:
        agent = replace(agent, unanswered=unanswered)
    saw = evidence_after(agent.saw, fact.message)
    if saw is not agent.saw:
        agent = replace(agent, saw=saw)
    match fact.message:
        case AssistantMessage() as reply:
            called = [summary(call) for call in reply.calls]
            step = ", ".join(called)[:STEP_ROOM] or agent.step
            usage = agent.usage + (reply.usage or Usage())
            context = _context_after(reply.usage) if reply.usage else agent.context
            agent = replace(agent, call=called[-1][:STEP_ROOM] if called else agent.call, context=context)
            turns = agent.turns + reply.is_turn
            spoken = replace(agent, turns=turns, model=reply.model or agent.model, usage=usage)
            return replace(spoken, step=step, said="", resting=not reply.calls and not reply.partial)
        case ToolMessage(results) if results:
            call = f"{agent.call} → {gist(results[-1].for_people, results[-1].error)}"[:STEP_ROOM]
            return replace(agent, call=call, step=call, activity="thinking", failed=results[-1].error)
        case ToolMessage():
            return replace(agent, step=agent.call or "thinking", activity="thinking")
        case UserMessage():
            return replace(agent, resting=False) if agent.resting else agent


def _context_after(usage: Usage) -> int:
    """The tokens of a transcript after a reply: what the model read, and what it wrote."""
    return usage.input_tokens + usage.output_tokens


def context_of(events: Iterable[Event]) -> int:
    """The tokens of a stored transcript after its last reply; 0 where none came since it was summarised."""
    usages = (each.usage for each in transcript_of(events) if isinstance(each, AssistantMessage))
    known = [usage for usage in usages if usage]
    return _context_after(known[-1]) if known else 0


def gist(text: str, error: bool = False) -> str:
    """What a call found, in a few words: its only line, or how many there are."""
    lines = text.strip().splitlines()
    if error:
        return f"failed: {visible_line(lines[0] if lines else '', 120)}"
    if len(lines) > 1:
        return counted(len(lines), "line")
    return visible_line(lines[0], 80) if lines else "nothing"


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


def figures(agent: AgentView, now: str, *, unit: bool = True) -> str:
    """Turns, tokens, cost and time of one agent."""
    cost = money(agent.usage.usd)
    used = (turns(agent.turns), tokens(agent.usage, unit=unit), *((cost,) if cost else ()))
    return " · ".join((*used, seconds(agent.elapsed(now))))


_TERMINAL_COLOURS = {"orange": "dark_orange", "pink": "hot_pink"}
"""Colours of agents whose names a terminal does not know."""
_RGB = re.compile(r"#[0-9a-f]{6}")


def step_style(agent: AgentView, failed: str, usual: str) -> str:
    """The style of what an agent does: `failed` after a failed call, else its own colour, else `usual`."""
    from rich.color import ANSI_COLOR_NAMES  # whoever asks for a style draws with Rich

    name = _TERMINAL_COLOURS.get(agent.colour.casefold(), agent.colour.casefold())
    known = name in ANSI_COLOR_NAMES or _RGB.fullmatch(name)  # a style could also hide text or make links
    return failed if agent.failed else name if known else usual


def name_of(agent: AgentView, most: int = 60) -> str:
    """An agent by its name for people, else its type, and its task."""
    name, title = visible_line(agent.display_name or agent.agent, 40), visible_line(agent.title, most)
    return f"{name}: {title}" if title else name


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
