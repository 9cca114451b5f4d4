"""The benchmark's own driver goes the whole way: agents from files, the gate, the journal, real HTTP."""

import sys

import pytest
from bench.processes import Work, driven


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("journal", ["disk", "memory"])
def test_one_agent_makes_one_request_for_every_turn_over_one_connection(streamed: bool, journal: str) -> None:
    work = Work(("--workload", "w1", "--turns", "3", "--rounds", "2"), streamed=streamed)
    figures = driven("gencode_", work, extra={"BENCH_JOURNAL": journal})
    seen = figures["server"]
    counts = {name: len(sizes) for name, sizes in seen["conversations"].items()}
    assert (counts, seen["connections"], len(figures["rounds"])) == ({"warm": 3, "w1.0": 4, "w1.1": 4}, 1, 2)


def test_a_main_agent_sends_its_subagents_side_by_side() -> None:
    work = Work(("--workload", "w2", "--agents", "4", "--turns", "1"), latency_ms=100)
    seen = driven("gencode_", work)["server"]
    children = {f"w2.0-{number}": 2 for number in range(4)}
    counts = {name: len(sizes) for name, sizes in seen["conversations"].items()}
    assert (counts, seen["most_in_flight"]) == ({"warm": 3, "w2.0": 2, **children}, 4)


def test_many_agents_at_once_open_one_connection_each() -> None:
    work = Work(("--workload", "w3", "--agents", "5", "--turns", "2"), latency_ms=100)
    seen = driven("gencode_", work, python=sys.executable)["server"]
    assert (seen["requests"], seen["most_in_flight"], seen["connections"]) == (3 + 5 * 3, 5, 5)
