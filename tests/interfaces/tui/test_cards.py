"""Cards of agents that were sent together: numbered as they were sent, and with the error that was."""

from gencode.core.events import CallDecided, Event, MessageAdded
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult
from gencode.core.rules import Action, Decision
from gencode.interfaces.render.transcript import MOST_KEPT, retold
from gencode.interfaces.tui.strip_renderer import StripRenderer
from gencode.interfaces.tui.transcript_view import BlockRenderer, group_blocks


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


def test_of_a_thousand_agents_the_last_are_numbered_as_they_were_sent() -> None:
    (shown,) = drawn(sends(1000))
    first = 1000 - MOST_KEPT + 1
    assert f"[Launching 1000 Explore agents in parallel…] Showing agents {first} to 1000" in shown
    assert f"(1 to {first - 1} are further up)" in " ".join(shown.split())
    assert f"Agent {first}: job {first} " in shown and "Agent 1000: job 1000 " in shown


def test_agents_of_two_replies_are_two_groups() -> None:
    assert [each.splitlines()[1] for each in drawn(sends(2), sends(3, "d"))] == [
        "[Launching 2 Explore agents in parallel…]",
        "[Launching 3 Explore agents in parallel…]",
    ]


def test_a_launch_that_failed_shows_its_error_and_not_why_it_was_allowed() -> None:
    why = CallDecided("c1", "Task", Decision(Action.ALLOW, "this built-in agent only reads"))
    error = ToolResult("c1", "Task", "The budget of 1 agent of the session is spent.", error=True)
    (shown,) = drawn(sends(1), why, MessageAdded(ToolMessage((error,))))
    assert "✗ The budget of 1 agent of the session is spent." in shown
    assert "only reads" not in shown
