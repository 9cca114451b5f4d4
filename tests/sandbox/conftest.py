"""The walls this machine can build. A kernel that cannot build one skips its tests, and says why."""

from functools import cache, partial
from pathlib import Path

import pytest

from gencode.sandbox import landlock
from gencode.sandbox.choose_sandbox import SandboxCandidate, candidates
from gencode.sandbox.trial import TrialResult, try_sandbox
from tests.sandbox.yard import Yard

WALLS = {
    "namespaces": SandboxCandidate("Landlock with namespaces", partial(landlock.enclose, namespaces=True)),
    "landlock": SandboxCandidate("Landlock", partial(landlock.enclose, namespaces=False)),
}


@cache
def seen(name: str) -> TrialResult:
    return try_sandbox(wall_named(name).enclose)


def wall_named(name: str) -> SandboxCandidate:
    return WALLS[name] if name in WALLS else next(iter(candidates()))


def built(name: str, base: Path) -> Yard:
    if not seen(name).works:
        pytest.skip(f"{name} does not work here: {seen(name).trouble}")
    return Yard.build(base, wall_named(name))


BUBBLEWRAP = pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap"))


@pytest.fixture(params=[BUBBLEWRAP, "namespaces", "landlock"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    """A yard behind each wall in turn."""
    return built(request.param, tmp_path)


@pytest.fixture(params=[BUBBLEWRAP, "namespaces"])
def strong(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    """A yard behind each wall that can do more than Landlock's rules alone."""
    return built(request.param, tmp_path)
