"""A test is marked by what it reaches for, through the helpers of its file as well."""

from pathlib import Path

from tests.doors import reaches_inside

FILE = """
from gencode import GenCode
from gencode.core.status import Status
from gencode.runtime.stop import StopScope

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
