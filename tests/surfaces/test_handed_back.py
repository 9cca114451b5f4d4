"""What agents handed back is shown also where nothing is left to sum it up."""

from pathlib import Path
from typing import Any

import pytest

from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, Trace, UserMessage
from gencode.core.status import Status
from gencode.surfaces.handed_back import NOT_SUMMED_UP, handed_back, in_words
from gencode.surfaces.view import AgentView, View, unanswered_after
from tests.surfaces.running import gen, script, send

COSTS = {"inputTokens": 30_000, "outputTokens": 1_000}
BUDGET = ("--max-tokens-total", "50000")


def spends_it_all(folder: Path, *more: dict[str, Any]) -> str:
    """Two agents spend the budget of a conversation, whose first reply costs next to nothing."""
    sends = {"text": "I send two.", "calls": send("alpha", "beta"), "usage": {"inputTokens": 100}}
    explore = [{"text": "It is in a.py:\n- line 7", "usage": COSTS}]
    plan = [{"text": "a plan", "usage": {"inputTokens": 100}}]
    return script(folder, main=[*more, sends, {"text": "never said"}], Explore=explore, Plan=plan)


def test_a_spent_budget_leaves_what_the_agents_found(tmp_path: Path) -> None:
    words = ("-p", "go", *BUDGET, "--model", spends_it_all(tmp_path))
    ended = gen(*words, cwd=tmp_path)
    told = gen(*words, "--json", cwd=tmp_path).json
    listed = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    first, second = (each["agentId"] for each in listed[:2])
    assert ended.out == (
        f"I send two.\n\n{NOT_SUMMED_UP}\n\n"
        f"Explore: alpha ({first}), completed:\nIt is in a.py:\n- line 7\n\n"
        f"Explore: beta ({second}), completed:\nIt is in a.py:\n- line 7\n"
    )
    why = "ended as limit_reached: The budget of 50,000 tokens of the session is spent."
    assert (ended.code, why in ended.err) == (1, True)
    # For programs each result stands in its task, and that of the conversation is what its agent said.
    assert (told["result"], [each["result"] for each in told["tasks"]]) == (
        "I send two.",
        ["It is in a.py:\n- line 7"] * 2,
    )


def test_line_by_line_it_is_told_after_the_end(tmp_path: Path) -> None:
    words = ("--plain", *BUDGET, "--model", spends_it_all(tmp_path))
    ended = gen(*words, cwd=tmp_path, piped="go\n")
    before, shown, after = ended.out.partition(f"{NOT_SUMMED_UP}\n\n")
    assert "main ended: limit_reached. The budget of 50,000 tokens of the session is spent." in before
    assert (shown != "", after.count("It is in a.py:\n- line 7")) == (True, 2)


def test_what_was_answered_before_is_not_shown_again(tmp_path: Path) -> None:
    plan = {"name": "Task", "input": {"subagent_type": "Plan", "prompt": "x", "description": "gamma"}}
    first = {"text": "A plan first.", "calls": [plan], "usage": {"inputTokens": 100}}
    ended = gen("-p", "go", *BUDGET, "--model", spends_it_all(tmp_path, first), cwd=tmp_path)
    assert (ended.out.count("It is in a.py:"), "gamma" in ended.out) == (2, False)


@pytest.mark.parametrize("status", list(Status))
def test_only_who_was_cut_short_leaves_results_unanswered(status: Status) -> None:
    found = AgentView("b", "Explore", "look", status=Status.COMPLETED, result="found")
    silent = AgentView("c", "Explore", status=Status.FAILED)
    working = AgentView("d", "Explore", status=Status.RUNNING, result="half")
    lead = AgentView("a", status=status, unanswered=("c", "b", "d", "unknown"))
    view = View({each.id: each for each in (lead, found, silent, working)})
    cut = status in (Status.LIMIT_REACHED, Status.TIMED_OUT, Status.FAILED)
    assert handed_back(view, "a") == ([found] if cut else [])
    assert (in_words([]), handed_back(view, "nobody")) == ("", [])


def test_results_are_unanswered_until_the_next_whole_reply() -> None:
    result = ToolResult("c1", "Task", "found", trace=Trace(children=("b",)))
    heard: tuple[str, ...] = ()
    for message, expected in (
        (AssistantMessage("", (ToolCall("c1", "Task", {}),)), ()),
        (ToolMessage((result,)), ("b",)),
        (UserMessage("it came", sender="system", delivers=("c",)), ("b", "c")),
        (AssistantMessage("Bo", partial=True), ("b", "c")),
        (UserMessage("go on"), ("b", "c")),
        (AssistantMessage("Both are there."), ()),
    ):
        heard = unanswered_after(heard, message)
        assert heard == expected
