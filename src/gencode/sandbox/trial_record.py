"""Caches which sandbox works, until the machine differs from what it was when that was tried.

A trial takes longer than most commands. What it depends on is the kernel, our rights and the programs that
build the wall. One that cannot be built any more fails when a command starts, and that does not run.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gencode.sandbox.choose_sandbox import Sandbox, best_sandbox, candidates, program_paths
from gencode.sandbox.trial import TrialResult

_FILE = "sandbox.json"
_STATUS = ("CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:", "Uid:")
_SPACES = ("user", "pid", "net")
_LARGEST = 100_000


class TrialRecord(Struct, frozen=True):
    """What a trial found, and on which machine."""

    machine: tuple[str, ...]
    name: str
    possible: frozenset[str]
    passed_over: tuple[str, ...]
    shares_network: bool


def known_sandbox(state: Path) -> Sandbox:
    """The best sandbox of this machine: as it was found before, or tried now and noted in `state`."""
    machine = _machine()
    if machine and (record := _read(state)) is not None and record.machine == machine:
        walls = {each.name: each.enclose for each in candidates()}
        seen = TrialResult(record.possible)
        if record.name in walls:
            return Sandbox(record.name, seen, walls[record.name], record.passed_over, record.shares_network)
    found = best_sandbox()
    if machine and found.exists:
        shares = found.shares_network
        _write(state, TrialRecord(machine, found.name, found.seen.possible, found.passed_over, shares))
    return found


def _read(state: Path) -> TrialRecord | None:
    try:
        with (state / _FILE).open("rb") as file:
            return msgspec.json.decode(file.read(_LARGEST), type=TrialRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _write(state: Path, record: TrialRecord) -> None:
    new = state / f"{_FILE}.{os.getpid()}"
    with suppress(OSError):  # then it is tried again the next time
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_bytes(msgspec.json.encode(record))
        new.replace(state / _FILE)


def _machine() -> tuple[str, ...]:
    """What a trial depends on; empty where that cannot be told."""
    if sys.platform != "linux":
        return ()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        status = Path("/proc/self/status").read_text().splitlines()
        spaces = [os.readlink(f"/proc/self/ns/{name}") for name in _SPACES]  # noqa: PTH115
        programs = [_stamp(path) for path in program_paths()]
    except OSError:
        return ()
    return (boot, *spaces, *(line for line in status if line.startswith(_STATUS)), *programs)


def _stamp(path: str) -> str:
    found = Path(path).stat()
    return f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns}"
