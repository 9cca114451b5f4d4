"""A name that leads to another address at its next look-up reaches nothing that was not judged."""

import json
from pathlib import Path

import pytest

from tests.web.rebinding import in_own_network


@pytest.mark.needs("bwrap")
@pytest.mark.needs("ip")
def test_names_that_change_their_address_lead_to_no_private_one(tmp_path: Path) -> None:
    ended = in_own_network(tmp_path, 60, 1)
    if "namespace" in ended.stderr or "Permission" in ended.stderr:
        pytest.skip(ended.stderr)
    found = json.loads(ended.stdout)
    assert (found["tried"], found["private"]) == (120, {})
    assert found["answered"] > 10
