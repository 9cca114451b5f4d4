"""A few trees of agents in many processes with a budget each; `bench/budgets.py` lets many of them spend."""

import os

import pytest

from bench import budgets

TREES = int(os.environ.get("GEN_TREES", "2"))


@pytest.mark.parametrize("seed", range(2, 2 + TREES))
def test_a_tree_in_many_processes_exceeds_its_budget_by_one_call_at_most(seed: int) -> None:
    found = budgets.tree(seed)
    assert found.well, found
    assert found.agents > 1


def test_a_crowd_of_processes_spends_nearly_all_before_the_limit_is_reported() -> None:
    found = budgets.crowd(1)
    assert found.well and found.agents == budgets.PROCESSES, found
    assert found.spent >= budgets.LEAST_SPENT * found.budget
