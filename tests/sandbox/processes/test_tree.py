"""Who belongs to a family, by both ways the kernel tells it."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gencode.sandbox.processes.process_tree import below, descendants, list_processes


def test_this_process_and_its_parent_are_counted() -> None:
    assert list_processes()[os.getpid()] == (os.getppid(), os.getpgrp())


def test_a_name_with_a_bracket_does_not_confuse_the_count(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) S 1 (b) S 3 5 5 0 -1")
    (tmp_path / "8").mkdir()
    (tmp_path / "self").mkdir()
    assert list_processes(str(tmp_path)) == {7: (3, 5)}


def test_children_are_found_through_every_thread(tmp_path: Path) -> None:
    """Where the kernel lists children, everybody else on the machine need not be looked at."""
    lists = {"1/1": "2 3 ", "1/9": "4 ", "2/2": "", "3/3": "5 ", "4/4": "2000000001 ", "5/5": ""}
    for thread, children in lists.items():
        process, number = thread.split("/")
        (tmp_path / process / "task" / number).mkdir(parents=True)
        (tmp_path / process / "task" / number / "children").write_text(children)
    assert descendants(1, str(tmp_path)).keys() == {2, 3, 4, 5, 2_000_000_001}


@given(st.dictionaries(st.integers(2, 30), st.integers(1, 30)))
def test_a_family_is_everybody_whose_ancestors_lead_to_its_root(parents: dict[int, int]) -> None:
    def leads_to_root(process: int) -> bool:
        seen: set[int] = set()
        while process in parents and process not in seen:
            seen.add(process)
            process = parents[process]
        return process == 1 and bool(seen)

    found = below((1,), {process: (parent, 0) for process, parent in parents.items()})
    assert set(found) == {process for process in parents if leads_to_root(process)}
