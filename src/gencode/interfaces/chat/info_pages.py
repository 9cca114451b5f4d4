"""Pages about a conversation: the state of an agent, costs, budgets, permission rules and MCP servers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from gencode.core.budget import Budget
from gencode.core.outcome import Outcome, refusals, titled
from gencode.core.rules import Mode
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.agent_view import View, rows, spent
from gencode.interfaces.render.number_format import bar_text, bars, money, seconds, tokens, turns
from gencode.interfaces.render.plain_text import WIDE, table

if TYPE_CHECKING:
    from gencode.app import GenCode

MODES = {
    Mode.PLAN: "read only",
    Mode.DEFAULT: "needs approval to change anything",
    Mode.ACCEPT_EDITS: "edits files without approval",
    Mode.UNATTENDED: "refuses what needs approval",
    Mode.DONT_ASK: "full autonomy: allows everything without approval",
}
CYCLE = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN)
"""The modes that a key steps through; full autonomy has to be named."""


def next_mode(mode: Mode) -> Mode:
    """The mode after this one; from one that is not in the cycle, its beginning."""
    return CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)] if mode in CYCLE else CYCLE[0]


def status_page(outcome: Outcome, place: int = 0) -> str:
    """How one agent stands, and what it has found."""
    took = "" if outcome.duration_ms is None else f" in {seconds(outcome.duration_ms / 1000)}"
    line = f", position {place} in the queue" if place else ""
    lines = [
        f"{visible_line(outcome.agent)} {outcome.agent_id}: {outcome.status}{line} after "
        f"{turns(outcome.turns)}{took}",
        f"  task     {visible_line(titled(outcome.description, outcome.prompt, outcome.forked_from), 200)}",
        f"  model    {visible_line(outcome.model)}",
        f"  usage    {tokens(outcome.usage.tree)} {money(outcome.usage.tree.usd)}".rstrip(),
        f"  parent   {outcome.parent_id or 'you'}{' (in the background)' if outcome.background else ''}",
    ]
    if outcome.error:
        lines.append(f"  error    {visible_line(outcome.error)}")
    lines += [f"  refused  {visible_line(each)}" for each in refusals(outcome.evidence)]
    lines += [f"  warning  {visible_line(each)}" for each in outcome.evidence.warnings]
    said = "Result:" if outcome.status.ended else "Last reply:"
    return "\n".join((*lines, "", said, visible(outcome.result) or "(no output)"))


def cost_page(view: View, session: str) -> str:
    """What a conversation has cost, agent by agent."""
    head = ("AGENT", "STATUS", "TURNS", "TOKENS IN", "OUT", "CACHED", "COST")
    listed = [
        (
            f"{row.lead}{visible_line(row.agent.agent, 30)} {row.agent.id}",
            str(row.agent.status),
            str(row.agent.turns),
            f"{row.agent.usage.input_tokens:,}",
            f"{row.agent.usage.output_tokens:,}",
            f"{row.agent.usage.cached_tokens:,}",
            money(row.agent.usage.usd) or "?",
        )
        for row in rows(view, session)
    ]
    total = spent(view, session)
    cost = money(total.usd) or "cost unknown"
    return f"{table(head, listed, WIDE)}\n\nTotal: {tokens(total)} ({cost})"


def budget_page(budget: Budget, view: View, session: str | None) -> str:
    """What a conversation may spend, and what of it is spent."""
    total = rows(view, session)[0] if session and session in view.agents else None
    found = bars(budget, total.spent, total.turns, total.below) if total else []
    lines = [bar_text(bar, 20) for bar in found] or [
        f"{name}: at most {limit:g}"
        for name, limit in (("tokens", budget.tokens), ("usd", budget.usd), ("agents", budget.spawns))
        if limit is not None
    ]
    bound = "\n".join(lines) or "This conversation has no budget."
    ways = "tokens 200000, usd 2.5 or spawns 8. Remove it with /budget none or /budget usd none."
    return f"{bound}\n\nSet one with /budget {ways}"


def rules_page(gen: "GenCode") -> str:
    """The policy of the session: its mode and its rules, each with the place it was written at."""
    policy = gen.policy
    lines = [f"mode {policy.mode}: {MODES[policy.mode]}"]
    lines += [
        f"{rule.action:5} {visible_line(f'{rule.tool}({rule.pattern})')}   ({visible_line(str(rule.origin))})"
        for rule in policy.rules
    ]
    if not policy.rules:
        lines.append("There are no rules besides the mode.")
    return "\n".join((*lines, "", 'To check a call: /permissions Bash "git push"'))


class ServerStatus(Protocol):
    """How an MCP server is."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def tools(self) -> tuple[str, ...]: ...
    @property
    def why(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


_SERVER_STATES = {
    "off": "not started yet",
    "unapproved": "needs approval (asked when an agent needs it)",
    "starting": "starting",
    "ready": "ready",
    "down": "down, restarting soon",
    "failed": "failed",
}
MOST_TOOLS = 40


def servers_page(gen: "GenCode") -> str:
    """Every MCP server: how it is, where it was named, its tools, and what is wrong with it."""
    found = gen.mcp_servers.status()
    if not found:
        return "No MCP servers. Add one to settings.toml as [mcp_servers.NAME], or to .mcp.json."
    fixes = [each.fix or "" for each in gen.mcp_servers.reports()]
    return "\n\n".join("\n".join(_server_lines(each, fix)) for each, fix in zip(found, fixes, strict=True))


def _server_lines(server: ServerStatus, fix: str) -> Iterator[str]:
    version = f" {visible_line(server.version, 40)}" if server.version else ""
    state = _SERVER_STATES.get(server.state, server.state)
    yield f"{visible_line(server.name, 60)}{version} ({server.kind}) · {state}"
    if server.why:
        yield f"  why     {visible_line(server.why, 400)}"
    if fix:
        yield f"  approve {visible_line(fix, 400)}"
    yield f"  from    {visible_line(server.origin, 200)}"
    more = f" and {len(server.tools) - MOST_TOOLS} more" if len(server.tools) > MOST_TOOLS else ""
    tools = ", ".join(visible_line(name, 60) for name in server.tools[:MOST_TOOLS])
    yield f"  tools   {tools or 'none'}{more}"
    for text in server.notes:
        yield f"  note    {visible_line(text, 400)}"
