"""Which amounts can be a budget, and the sentence about those that cannot."""

import pytest

from gencode.budgets.limits import check_budget
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake

COUNTED = "a whole number from 1 to 9,007,199,254,740,992"
MEASURED = "a number from 0.000000001 to 1,000,000,000"


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(tokens=0), f"tokens is {COUNTED}, not 0"),
        (Budget(tokens=2**53 + 1), f"tokens is {COUNTED}, not 9007199254740993"),
        (Budget(turns=-1), f"turns is {COUNTED}, not -1"),
        (Budget(usd=0.0), f"USD is {MEASURED}, not 0.0"),
        (Budget(usd=float("nan")), f"USD is {MEASURED}, not nan"),
        (Budget(usd=1e-12), f"USD is {MEASURED}, not 1e-12"),
        (Budget(usd=1e30), f"USD is {MEASURED}, not 1e+30"),
        (Budget(spawns=-1), "agents is a whole number from 0 to 9,007,199,254,740,992, not -1"),
        (Budget(seconds=0), f"seconds is {MEASURED}, not 0"),
    ],
)
def test_a_budget_of_nothing_or_beyond_all_measure_is_a_mistake(budget: Budget, why: str) -> None:
    sentence = f"A budget of {why}; leave it out for no limit."
    with pytest.raises(UserMistake) as caught:
        check_budget(budget)
    assert str(caught.value) == sentence
