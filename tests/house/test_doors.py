"""A test is marked by what it reaches for, through the helpers of its file as well."""

from pathlib import Path

from tests.doors import reaches_inside

FILE = """
from gencode import GenCode
from gencode.core.status import Status
from gencode.agent.stop import StopScope

def helper(): return StopScope()

SCOPES = [helper]

def test_outside(): assert GenCode and Status
def test_directly(): assert StopScope
def test_through_a_constant(): assert SCOPES
"""


def test_a_test_that_names_something_behind_the_doors_is_one_of_a_mechanism(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(FILE)
    names = ("test_outside", "test_directly", "test_through_a_constant")
    assert [reaches_inside(file, name) for name in names] == [False, True, True]


def test_what_a_helper_of_another_file_or_a_fixture_names_counts_for_the_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from gencode.agent.stop import StopScope\ndef scope(): return StopScope()"
    )
    file = tmp_path / "test_y.py"
    file.write_text(
        "from tests.interfaces.tui.driving import seated\n"
        "from tests.stores.earlier_database import made_by_version\n"
        "def test_through_a_harness(): assert seated\n"
        "def test_through_a_helper(): assert made_by_version\n"
        "def test_through_a_fixture(scope): assert scope\n"
    )
    names = ("test_through_a_harness", "test_through_a_helper", "test_through_a_fixture")
    assert [reaches_inside(file, name) for name in names] == [False, True, True]
