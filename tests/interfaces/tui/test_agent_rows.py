"""Rows of agents that were started together: numbered as they were started, and with the error that was."""

from gencode.core.events import CallDecided, Event, MessageAdded
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult
from gencode.core.rules import Action, Decision
from gencode.core.status import Status
from gencode.interfaces.render.agent_view import AgentView
from gencode.interfaces.render.transcript import MOST_KEPT, Call, retold
from gencode.interfaces.tui.agent_rows import started_agents
from gencode.interfaces.tui.strip_renderer import StripRenderer
from gencode.interfaces.tui.transcript_view import BlockRenderer, group_blocks

NOW = "2026-01-01T00:00:07Z"


def event(seq: int, fact: MessageAdded | CallDecided) -> Event:
    return Event(task="m", seq=seq, at="2026-01-01T00:00:00Z", fact=fact)


def sends(count: int, prefix: str = "c") -> MessageAdded:
    calls = [
        ToolCall(f"{prefix}{number}", "Task", {"subagent_type": "Explore", "description": f"job {number}"})
        for number in range(1, count + 1)
    ]
    return MessageAdded(AssistantMessage(text="", calls=tuple(calls)))


def drawn(*facts: MessageAdded | CallDecided) -> list[str]:
    found = group_blocks(retold("m", [event(number, fact) for number, fact in enumerate(facts, start=1)]))
    drawing = BlockRenderer(StripRenderer(dark=True))
    for block in found:
        drawing.render(block, 80, {}, "2026-01-01T00:00:00Z", opened=False)
    return ["\n".join(strip.text for strip in block.strips) for block in found]


def rows(width: int, *agents: AgentView) -> list[str]:
    calls = [
        Call(
            each.id, "Task", "", {"subagent_type": each.agent, "description": each.title}, group=2, number=at
        )
        for at, each in enumerate(agents, 1)
    ]
    strips = StripRenderer(dark=True).lines(started_agents(calls, agents, NOW, width), width)
    return [strip.text.rstrip() for strip in strips]


def test_of_a_thousand_agents_the_last_are_numbered_as_they_were_started() -> None:
    (shown,) = drawn(sends(1000))
    first = 1000 - MOST_KEPT + 1
    assert f"1000 Explore agents in parallel · {first} to 1000 (1 to {first - 1} are further up)" in shown
    assert f"Explore  job {first} " in shown and "Explore  job 1000" in shown


def test_agents_of_two_replies_are_two_groups() -> None:
    assert [each.splitlines()[1] for each in drawn(sends(2), sends(3, "d"))] == [
        "● 2 Explore agents in parallel",
        "● 3 Explore agents in parallel",
    ]


def test_a_launch_that_failed_shows_its_error_and_not_why_it_was_allowed() -> None:
    why = CallDecided("c1", "Task", Decision(Action.ALLOW, "this built-in agent only reads"))
    error = ToolResult("c1", "Task", "The budget of 1 agent of the session is spent.", error=True)
    (shown,) = drawn(sends(1), why, MessageAdded(ToolMessage((error,))))
    assert "└ The budget of 1 agent of the session is spent." in shown
    assert "only reads" not in shown


def test_an_agent_at_work_shows_its_last_call_and_one_that_has_ended_what_it_found() -> None:
    since = "2026-01-01T00:00:00Z"
    working = AgentView(
        "a", "Explore", "find alpha", status=Status.RUNNING, turns=1, step="Grep(x) → 3 lines", since=since
    )
    ended = AgentView(
        "b", "Plan", "plan it", status=Status.COMPLETED, turns=2, result="Two steps.\nMore.", worked=3
    )
    assert rows(80, working, ended) == [
        "● 2 agents in parallel · 1 working",
        "  ● Explore  find alpha · 1 turn · 0 tokens · 7.0 s",
        "    └ Grep(x) → 3 lines",
        "  ✓ Plan     plan it    · 2 turns · 0 tokens · 3.0 s",
        "    └ Two steps.",
    ]


def test_a_narrow_row_shortens_the_figures_before_the_task() -> None:
    agent = AgentView("a", "Explore", "count the tokens", status=Status.RUNNING, turns=2)
    assert rows(51, agent)[1] == "  ● Explore  count the tokens · 2 turns · 0 · 0.0 s"
