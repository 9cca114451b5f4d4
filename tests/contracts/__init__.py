"""What every implementation of a port must do, whoever wrote it: import the tests and give them a fixture."""

import pytest

pytest.register_assert_rewrite("tests.contracts.store", "tests.contracts.wishes", "tests.contracts.provider")
