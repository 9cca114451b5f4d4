"""Numbers of agents as a person reads them."""

import pytest

from gencode.core.budget import Budget
from gencode.core.messages import Usage
from gencode.core.status import Status
from gencode.interfaces.render.agent_view import AgentView, figures, name_of, state, step_style
from gencode.interfaces.render.number_format import BudgetBar, bar_text, bars, money, number


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        *((0, "0"), (999, "999"), (1_000, "1.0k"), (99_949, "99.9k"), (123_456, "123k"), (2_500_000, "2.5M")),
        *((3_000_000_000, "3.0B"), (10**26, "1e+26")),
    ],
)
def test_counts_are_short(amount: int, text: str) -> None:
    assert number(amount) == text


def test_money_is_shown_when_it_is_known() -> None:
    known = {0.0: "$0.00", 1e-9: "<$0.0001", 0.0123: "$0.0123", 1.5: "$1.50", 1e30: "$1e+30"}
    assert (money(None), {usd: money(usd) for usd in known}) == ("", known)


def test_every_bound_of_a_budget_is_a_bar() -> None:
    found = bars(Budget(turns=4, tokens=100, usd=2.0, spawns=3), Usage(30, 20, usd=1.0), 2, 1)
    assert found == [
        BudgetBar("turns", 2, 4),
        BudgetBar("tokens", 50, 100),
        BudgetBar("usd", 1.0, 2.0),
        BudgetBar("spawns", 1, 3),
    ]
    assert [bar_text(bar, 4) for bar in found] == [
        "██░░ 2/4 turns",
        "██░░ 50/100 tokens",
        "██░░ $1.00/$2.00",
        "█░░░ 1/3 agents",
    ]


def test_a_bar_is_never_more_than_full() -> None:
    assert bar_text(BudgetBar("tokens", 300, 100), 4) == "████ 300/100 tokens"


def test_how_an_agent_stands_is_a_word() -> None:
    agents = [
        AgentView("a", place=3),
        AgentView("a", place=3, stalled=60.0),
        AgentView("a", status=Status.RUNNING, stalled=120.0),
        AgentView("a", status=Status.RUNNING, resting=True),
        AgentView("a", status=Status.FAILED),
    ]
    words = ["queued (3rd)", "stalled 60 s", "stalled 120 s", "waiting", "failed"]
    assert [state(agent) for agent in agents] == words


def test_one_agent_fits_on_a_line() -> None:
    agent = AgentView("a", "Explore", "find\nit", step="Glob(*.py)", turns=2, usage=Usage(900, 300, usd=0.5))
    assert figures(agent, "") == "2 turns · 1.2k tokens · $0.50 · 0.0 s"
    assert name_of(agent) == "Explore: find it"


def test_the_colour_of_an_agent_is_a_colour_and_no_other_style() -> None:
    named = {"Purple": "purple", "orange": "dark_orange", "#FF8800": "#ff8800", "": "dim"}
    odd = dict.fromkeys(("link https://example.org", "red on red", "conceal"), "dim")
    shown = {each: step_style(AgentView("a", colour=each), "red", "dim") for each in (*named, *odd)}
    assert shown == {**named, **odd}
    assert step_style(AgentView("a", colour="blue", failed=True), "red", "dim") == "red"
