"""A field that a record does not have is found before the line runs, by the types of `core/structs.py`."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import pytest

from gencode.core.budget import Budget
from gencode.core.structs import replace


def test_a_record_does_not_take_a_field_that_it_does_not_have() -> None:
    with pytest.raises(TypeError):
        # Where `replace` is not checked any more, this comment is needless, and pyright says so.
        replace(Budget(), tockens=1)  # pyright: ignore[reportCallIssue]
