"""The attacks of `bench/security.py`, a few of each: none goes through."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench import security

FEW = 60


def test_no_url_leads_to_an_address_that_is_not_public(tmp_path: Path) -> None:
    found = security.SECTIONS["addresses"](random.Random(7), 2_000, tmp_path)
    assert found.through == []


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("section", security.RUNS_COMMANDS)
def test_what_is_allowed_changes_nothing_when_it_is_run(section: str) -> None:
    program = Path(security.__file__)
    words = [sys.executable, str(program), section, "--count", str(FEW), "--seed", "7"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, "0 went through" in ended.stdout) == (0, True), ended


def test_what_writes_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a section that finds nothing would say nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    watched = security.Watched(tmp_path)

    async def seen() -> list[str]:
        try:
            return await watched.changed([("ls", True), ("touch canary", False), ("cat a.py", True)])
        finally:
            await watched.close()

    assert security.asyncio.run(seen()) == ["touch canary"]


def test_a_denied_command_is_tried_in_every_spelling() -> None:
    made = [security.spelled(form, "touch canary") for form in security.SPELLED]
    assert all("touch" in text or "to''" in text for text in made)
