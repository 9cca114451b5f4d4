"""All agents of a session as a tree, with what each cost."""

from gencode.core.budget import Budget
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.interfaces.render.agent_view import AgentView, View, busy, path, rows, spent
from gencode.interfaces.render.number_format import BudgetBar


def family(*agents: AgentView) -> View:
    return View({agent.id: agent for agent in agents})


VIEW = family(
    AgentView("m", "main", conversation=True, turns=2, usage=Usage(10, 5), budget=Budget(tokens=100)),
    AgentView("a", "Explore", parent="m", turns=1, usage=Usage(1, 1, usd=0.5)),
    AgentView("b", "Plan", parent="m", status=Status.COMPLETED),
    AgentView("c", "Explore", parent="a", turns=3, usage=Usage(20, 2)),
    AgentView("z", "other", conversation=True),
)


def test_every_agent_stands_below_its_sender() -> None:
    found = [(row.agent.id, row.depth, row.lead, row.below) for row in rows(VIEW, "m")]
    assert found == [("m", 0, "", 3), ("a", 1, "├─", 1), ("c", 2, "│ └─", 0), ("b", 1, "└─", 0)]


def test_what_is_below_an_agent_counts_for_it() -> None:
    totals = {row.agent.id: (row.turns, row.spent) for row in rows(VIEW, "m")}
    assert totals["m"] == (6, Usage(31, 8, usd=0.5))
    assert totals["a"] == (4, Usage(21, 3, usd=0.5))
    assert spent(VIEW, "m") == Usage(31, 8, usd=0.5)


def test_a_budget_is_a_bar_of_everything_below() -> None:
    assert rows(VIEW, "m")[0].bars == [BudgetBar("tokens", 39.0, 100.0)]


def test_without_a_root_every_tree_is_shown() -> None:
    assert [row.agent.id for row in rows(VIEW)] == ["m", "a", "c", "b", "z"]
    assert rows(VIEW, "nobody") == []


def test_the_path_leads_from_the_main_agent_down() -> None:
    assert path(VIEW, "c") == ("main", "Explore", "Explore")
    assert path(VIEW, "nobody") == ()


def test_a_circle_that_was_imported_ends() -> None:
    circle = family(AgentView("a", "x", parent="b"), AgentView("b", "y", parent="a"))
    assert path(circle, "a") == ("y", "x")
    assert [row.agent.id for row in rows(circle, "a")] == ["a", "b"]


def test_those_that_have_not_ended_are_busy() -> None:
    assert [agent.id for agent in busy(VIEW, "m")] == ["a", "c"]
