"""The systemd units that come with the wheel are units that systemd would load."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.house.source import ROOT

UNITS = sorted((ROOT / "packaging" / "systemd").iterdir())


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit_of(unit: Path, tmp_path: Path) -> None:
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--user", unit],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, verified.stderr) == (0, "")
