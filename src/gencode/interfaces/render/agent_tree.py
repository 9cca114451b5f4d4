"""All agents of a session as a tree: who was sent by whom, and what each cost with everything below it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gencode.core.messages import Usage
from gencode.interfaces.render.agent_view import AgentView, View
from gencode.interfaces.render.number_format import Bar, bars


class Row(Struct, frozen=True):
    """One agent in its tree: `lead` draws its branch, `below` counts everything that hangs from it."""

    agent: AgentView
    depth: int
    lead: str
    below: int
    spent: Usage
    turns: int

    @property
    def bars(self) -> list[Bar]:
        """Its budget, which everything below it is paid from as well."""
        return bars(self.agent.budget, self.spent, self.turns, self.below)


class _Sum(Struct):
    usage: Usage
    turns: int
    below: int


def rows(view: View, root: str | None = None) -> list[Row]:
    """Every agent below its sender, the root first; without a root everything there is."""
    children = _children(view.agents)
    tops = [root] if root in view.agents else [] if root else children.get(None, [])
    found: list[Row] = []
    sums: dict[str, _Sum] = {}
    for top in tops:
        order = _walk(top, children)
        _add_up(view.agents, order, sums)
        for task, depth, lead in order:
            total = sums[task]
            found.append(Row(view.agents[task], depth, lead, total.below, total.usage, total.turns))
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
