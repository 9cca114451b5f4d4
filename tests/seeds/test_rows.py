"""The page of the seeds: it is what the tests say, and every row is there once."""

import pytest

from tests.seeds.page import PAGE, here, wanted, written


def test_the_page_of_the_seeds_is_what_the_tests_say() -> None:
    way = "python -m tests.seeds.page"
    assert PAGE.read_text("utf-8") == written(), f"write it again: {way}"


@pytest.mark.needs("shared")
def test_every_row_of_the_tables_has_one_test_or_a_reason() -> None:
    assert sorted(here()) == sorted(wanted())
