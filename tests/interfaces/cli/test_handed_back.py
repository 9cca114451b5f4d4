"""What agents handed back is shown also where nothing is left to sum it up."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gencode.core.events import Event, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, Trace, UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import Task
from gencode.core.task import fold as fold_task
from gencode.interfaces.render.agent_view import AgentView, View, fold, seen, unanswered_after
from gencode.interfaces.render.transcript import NOT_SUMMED_UP, come_late, handed_back, in_words
from tests.interfaces.cli.running import SECONDS, gen, script, send, start
from tests.waiting import Gate, wait_until

COSTS = {"inputTokens": 30_000, "outputTokens": 1_000}
BOTH = ("b", "d@3", "c@1", "c@2")
BUDGET = ("--max-tokens-total", "50000")


def spends_it_all(folder: Path, *more: dict[str, Any]) -> str:
    """Two agents spend the budget of a conversation, whose first reply costs next to nothing."""
    sends = {"text": "I send two.", "calls": send("alpha", "beta"), "usage": {"inputTokens": 100}}
    explore = [{"text": "It is in a.py:\n- line 7", "usage": COSTS}]
    plan = [{"text": "a plan", "usage": {"inputTokens": 100}}]
    return script(folder, main=[*more, sends, {"text": "never said"}], Explore=explore, Plan=plan)


def behind(agent: str) -> dict[str, Any]:
    """A call that sends an agent to the background."""
    words = {"subagent_type": agent, "prompt": "look", "run_in_background": True}
    return {"name": "Task", "input": words}


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
    why = ": limit_reached: The budget of 50,000 tokens of the session is spent."
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
    assert "main: limit_reached. The budget of 50,000 tokens of the session is spent." in before
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


@pytest.mark.parametrize(
    ("unanswered", "shown"),
    [
        (("b@1", "b@2"), ["found", "you are welcome"]),
        (("b@2",), ["you are welcome"]),
        (("b@1",), ["found"]),
        (("b",), ["you are welcome"]),
        (("b", "b@2"), ["found", "you are welcome"]),  # it was waited for, and woken after that
        (("b", "b@1", "b@2"), ["found", "you are welcome"]),  # it was sent to the background
    ],
)
def test_what_each_run_of_an_agent_came_to_is_shown_by_itself(
    unanswered: tuple[str, ...], shown: list[str]
) -> None:
    view = View({"a": AgentView("a", status=Status.TIMED_OUT, unanswered=unanswered)})
    for at, said in (("1", "found"), ("2", "you are welcome")):
        view = fold(view, Event("b", 1, at, TaskEnded(Status.COMPLETED, said, reason=EndReason.FINISHED)))
    assert [each.result for each in handed_back(view, "a")] == shown


def test_who_hears_nothing_of_other_processes_shows_what_they_woke_its_agents_for(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    # So long that its process has looked for what others came to when it goes on.
    waits = {"name": "Bash", "input": {"command": "cat gate; sleep 2"}}
    model = script(
        tmp_path,
        main=[{"calls": [behind("Explore"), waits]}, {"error": "no more of it"}],
        Explore=[{"text": "It is in a.py."}, {"text": "You are welcome."}],
    )
    process = start("-p", "go", "--permission-mode", "dontAsk", "--model", model, cwd=tmp_path)
    wait_until(lambda: ended(tmp_path) == [("It is in a.py.", "completed")], "the agent has ended")
    [task] = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    gen("task", "send", task["agentId"], "thanks", cwd=tmp_path)
    wait_until(lambda: ended(tmp_path) == [("You are welcome.", "completed")], "it has ended again")
    gate.open()
    out, _ = process.communicate(timeout=SECONDS)
    title = f"Explore: look ({task['agentId']}), completed:"
    assert out == f"{NOT_SUMMED_UP}\n\n{title}\nIt is in a.py.\n\n{title}\nYou are welcome.\n"


def lives(task: str, parent: str | None = None, *said: str) -> Task:
    """A task that ended once for each of these, one after the other."""
    born = TaskCreated("Explore", parent=parent, background=parent is not None)
    found = fold_task(None, Event(task, 1, at(1), born))
    for seq, text in zip(count(2, 2), said, strict=False):
        found = fold_task(found, Event(task, seq, at(seq), TaskStarted("m")))
        found = fold_task(
            found,
            Event(task, seq + 1, at(seq + 1), TaskEnded(Status.COMPLETED, text, reason=EndReason.FINISHED)),
        )
    return found


def at(second: int) -> str:
    """A moment."""
    return f"2026-01-01T00:00:{second:02}.000000Z"


def test_what_came_too_late_is_every_end_that_was_not_told() -> None:
    agent = lives("b", "a", "found", "you are welcome")
    late = come_late(lives("a"), [agent])
    assert [(each.id, each.result) for each in late] == [("b", "found"), ("b", "you are welcome")]
    assert seen(agent).ends == tuple(end for each in late for end in each.ends)


def ended(folder: Path) -> list[tuple[str, str]]:
    """What agents came to, and how they ended."""
    tasks = gen("task", "list", "--json", cwd=folder).json["tasks"]
    return [(each["result"], each["status"]) for each in tasks]


def test_results_are_unanswered_until_the_next_whole_reply() -> None:
    sent = ToolResult("c1", "Task", "found", trace=Trace(children=("b",)))
    read = ToolResult("c2", "TaskOutput", "seen", trace=Trace(delivered=("d",), ends=("3",)))
    heard: tuple[str, ...] = ()
    for message, expected in (
        (AssistantMessage("", (ToolCall("c1", "Task", {}),)), ()),
        (ToolMessage((sent, read)), ("b", "d@3")),
        (UserMessage("it came", sender="system", delivers=("c", "c"), ends=("1", "2")), BOTH),
        (AssistantMessage("Bo", partial=True), BOTH),
        (UserMessage("go on"), BOTH),
        (AssistantMessage("Both are there."), ()),
    ):
        heard = unanswered_after(heard, message)
        assert heard == expected
