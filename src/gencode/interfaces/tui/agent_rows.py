"""Agents in a transcript: one row each, with what it does or found below it."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from gencode.core.outcome import work_done
from gencode.core.spec import same_name
from gencode.core.status import Status
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.agent_view import SIGNS, AgentView, figures, name_of, state, step_style
from gencode.interfaces.render.number_format import counted, seconds
from gencode.interfaces.render.plain_text import refused_count, warning_lines
from gencode.interfaces.render.transcript import Call

RESULT_LINES = 4
"""So many lines of the result of an agent that was started alone are shown."""
MOST_NAME = 20
MOST_TITLE = 48
MIN_TITLE = 12
BRANCH = "  └ "
INDENT = "    "


def started_agents(
    calls: Sequence[Call], agents: Sequence[AgentView | None], now: str, width: int
) -> RenderableType:
    """The agents that one reply started: one row each, below a line that counts several of them."""
    alone = len(calls) == 1 and calls[0].group == 1
    names = max((cell_len(_kind(call)) for call in calls), default=0)
    titles = max((cell_len(_title(call)) for call in calls), default=0)
    columns = (min(names, MOST_NAME), min(titles, MOST_TITLE))
    lines: list[Text] = [] if alone else [_heading(calls, agents)]
    for call, agent in zip(calls, agents, strict=True):
        lines.append(_row(call, agent, now, width, columns, lead="" if alone else "  "))
        lines += _below(call, agent, "" if alone else "  ", RESULT_LINES if alone else 1)
    return Group(*lines)


def result_rows(agent: AgentView, now: str, most: int) -> RenderableType:
    """An agent that has ended, and the first lines of its result."""
    call = Call("", "Task", "", {"subagent_type": agent.agent, "description": agent.title}, "done")
    columns = (cell_len(_kind(call)), cell_len(_title(call)))
    return Group(_row(call, agent, now, 10_000, columns), *_result(agent, "", most))


def working_agent(agent: AgentView, now: str) -> Text:
    """An agent in the background in one line: its last tool call, and how long it works."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{SIGNS[agent.status]} ", _colour(agent))
    line.append(name_of(agent, 40), "bold")
    line.append(f" · {visible_line(agent.doing, 100)}", step_style(agent, "bad", "call"))
    line.append(f" · {figures(agent, now)}", "faint")
    return line


def fit_cells(text: str, width: int) -> str:
    """A text of exactly so many cells."""
    has = cell_len(text)
    return f"{set_cell_size(text, width - 1)}…" if has > width else text + " " * (width - has)


def fitting(texts: Sequence[str], room: int) -> str:
    """The first of these texts for which there is room, else the last."""
    return next((text for text in texts if cell_len(text) <= room), texts[-1])


def _heading(calls: Sequence[Call], agents: Sequence[AgentView | None]) -> Text:
    """How many agents were started together, and how many of them still work."""
    count = calls[0].group
    same = len({same_name(_kind(each)) for each in calls}) == 1
    kind = f"{visible_line(_kind(calls[0]), 40)} " if same else ""
    working = sum(agent is not None and not agent.status.ended for agent in agents)
    started = any(agent is not None for agent in agents)
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append("● ", "busy" if working or not started else "good")
    head.append(f"{count} {kind}agents in parallel", "bold")
    if 0 < working < count:
        head.append(f" · {working} working", "faint")
    first, last = calls[0].number, calls[-1].number
    if last - first + 1 < count:
        above = f" (1 to {first - 1} are further up)" if first > 1 else ""
        head.append(f" · {first} to {last}{above}", "faint")
    return head


def _row(
    call: Call, agent: AgentView | None, now: str, width: int, columns: tuple[int, int], lead: str = ""
) -> Text:
    """Name, task and figures, in columns as far as there is room for them."""
    line = Text(lead, no_wrap=True, overflow="ellipsis")
    sign, style = (SIGNS[agent.status], _colour(agent)) if agent else _unstarted_sign(call)
    line.append(f"{sign} ", style)
    line.append(fit_cells(visible_line(_kind(call), 40), columns[0]), "bold")
    used: tuple[str, ...] = ("",)
    if agent is not None and agent.background and not agent.status.ended:
        used = (" · in the background",)  # the line above the input shows what it does
    elif agent is not None:
        failed = "" if agent.status in (Status.RUNNING, Status.COMPLETED) else f" · {state(agent)}"
        refused = f" · {refused_count(agent)}" if agent.refused else ""
        time = seconds(agent.elapsed(now))
        shorter = (figures(agent, now), figures(agent, now, unit=False), time)
        used = tuple(f"{failed} · {each}{refused}" for each in shorter)
    room = width - line.cell_len - 2
    shown = fitting(used, room - max(min(columns[1], room // 2), MIN_TITLE))
    title = max(min(columns[1], room - cell_len(shown)), 0)
    line.append(f"  {fit_cells(_title(call), title)}" if title >= min(MIN_TITLE, columns[1]) else "", "call")
    line.append(shown, "faint")
    return line


def _below(call: Call, agent: AgentView | None, lead: str, most: int) -> Iterator[Text]:
    """What an agent does now or what it found, in the lines below its row."""
    if agent is None:
        if why := _not_started(call):
            yield Text(f"{lead}{BRANCH}{why}", "bad" if call.state in ("denied", "failed") else "warn")
    elif agent.status.ended:
        yield from _result(agent, lead, most)
    elif not agent.background:
        style = "warn" if agent.stalled else step_style(agent, "bad", "faint")
        text = state(agent) if agent.stalled else visible_line(agent.doing, 200)
        yield Text(f"{lead}{BRANCH}{text}", style, no_wrap=True, overflow="ellipsis")


def _result(agent: AgentView, lead: str, most: int) -> Iterator[Text]:
    """The first lines of a result, the error, and what a receipt warns of."""
    lines = [line for line in visible(agent.result).strip().splitlines() if most > 1 or line.strip()]
    for number, line in enumerate(lines[:most]):
        yield Text(
            f"{lead}{INDENT if number else BRANCH}{line}",
            "faint",
            no_wrap=most <= RESULT_LINES,
            overflow="ellipsis",
        )
    if len(lines) > most > 1:
        yield Text(f"{lead}{INDENT}… {counted(len(lines) - most, 'more line')} (Enter opens)", "faint")
    if agent.error or not lines:
        bad = agent.status is not Status.COMPLETED
        yield Text(
            f"{lead}{INDENT if lines else BRANCH}{visible_line(agent.error or '(no output)', 300)}",
            "bad" if bad else "faint",
        )
    if most > 1 and agent.saw.files_changed:
        yield Text(f"{lead}{INDENT}{'; '.join(work_done(agent.saw))}", "faint")
    for line in warning_lines(agent):
        yield Text(f"{lead}{INDENT}{line}", "warn", no_wrap=True, overflow="ellipsis")


def _kind(call: Call) -> str:
    return visible_line(
        str(call.input.get("subagent_type") or call.input.get("type") or "general-purpose"), 40
    )


def _title(call: Call) -> str:
    words = call.input.get("description") or call.input.get("label") or call.input.get("prompt")
    return visible_line(str(words or call.input.get("task") or call.input.get("input") or ""), 120)


def _unstarted_sign(call: Call) -> tuple[str, str]:
    match call.state:
        case "denied":
            return "⊘", "bad"
        case "failed":
            return "✗", "bad"
        case "asked":
            return "?", "warn"
        case _:
            return "○", "faint"


def _not_started(call: Call) -> str:
    """Why an agent has not started."""
    match call.state:
        case "denied":
            return refusal_text(call)
        case "failed":  # `why` says then why it was allowed
            return visible_line(call.result or call.step, 200)
        case "asked":
            return "needs your approval"
        case _:
            return ""


def refusal_text(call: Call) -> str:
    """Why a call was refused; what the person wrote who declined it."""
    if not call.declined:
        return visible_line(call.why or call.result, 300)
    return f"You declined this: {visible_line(call.said, 300)}" if call.said else "You declined this."


def _colour(agent: AgentView) -> str:
    if not agent.status.ended:
        return "warn" if agent.stalled else "busy"
    return "good" if agent.status is Status.COMPLETED else "bad"
