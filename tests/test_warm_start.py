"""A forked `gen` is to the system, and to whoever runs it, what one that was started anew is."""

import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interfaces.cli.running import GEN, SECONDS, gen, in_terminal, script, start
from tests.waiting import Gate, wait_until

WARM: dict[str, str] = {}
COLD = {"PYTHONHASHSEED": "random"}
"""It says what is so anyway, but a warm process was not started with it."""


class Seen(NamedTuple):
    """What the system tells of a process."""

    command: bytes
    name: str
    family: list[str]
    status: dict[str, str]
    folder: str
    streams: set[str]


def seen(process: int) -> Seen:
    place = Path(f"/proc/{process}")
    name, _, rest = (place / "stat").read_text().partition("(")[2].rpartition(")")
    status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
    kept = ("Umask", "Uid", "Groups", "SigBlk", "SigIgn", "SigCgt", "Seccomp", "PPid")
    files = {each.readlink() for each in (place / "fd").iterdir()}
    return Seen(
        (place / "cmdline").read_bytes().rstrip(b"\0"),
        name,
        rest.split()[1:6],  # parent, group, session, terminal
        {key: status[key] for key in kept},
        str((place / "cwd").readlink()),
        {each.name.partition(":")[0] for each in files if not each.is_absolute()},
    )


def test_the_system_sees_the_same_process(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = script(tmp_path, main=[{"calls": [gate.call]}, {"text": "done"}])
    found: list[tuple[Seen, str | None]] = []
    for environ in (WARM, COLD):
        process = start("-p", "go", "--model", model, cwd=tmp_path, **environ)
        wait_until(gate.opened, "the agent makes its call")
        found.append((seen(process.pid), process.communicate(timeout=SECONDS)[0]))
    warm, cold = found
    assert warm == cold


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_signal_ends_it_in_the_same_way(tmp_path: Path, number: signal.Signals) -> None:
    gate = Gate(tmp_path)
    model = script(tmp_path, main=[{"calls": [gate.call, gate.call]}, {"text": "done"}])
    ends: list[tuple[int, bool]] = []
    for environ in (WARM, COLD):
        process = start("-p", "go", "--model", model, cwd=tmp_path, **environ)
        wait_until(gate.opened, "the agent makes its call")
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS)
        ends.append((process.returncode, "Traceback" in err))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), ("nonsense",), ("task", "show", "00000000"), ("doctor",)]
)
def test_it_ends_with_the_same_code_and_words(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert gen(*words, cwd=tmp_path) == gen(*words, cwd=tmp_path, **COLD)


def test_it_has_the_terminal_it_is_given(tmp_path: Path) -> None:
    words = ("-p", "go", "--model", script(tmp_path, main=[{"text": "done"}]))
    ends = [in_terminal(*words, cwd=tmp_path), in_terminal(*words, cwd=tmp_path, PYTHONHASHSEED="random")]
    assert ends[0] == ends[1]
    assert "done" in ends[0].out


def test_what_nobody_reads_ends_it_in_the_same_way(tmp_path: Path) -> None:
    codes: list[int] = []
    for environ in (WARM, COLD):
        reads, writes = os.pipe()
        os.close(reads)
        given = {**os.environ, "PYTHONWARNINGS": "error", **environ}
        ended = subprocess.run([*GEN, "--help"], stdout=writes, cwd=tmp_path, env=given, check=False)
        os.close(writes)
        codes.append(ended.returncode)
    assert codes[0] == codes[1] != 0


def test_no_run_knows_of_another(tmp_path: Path, home: Path) -> None:
    model = script(tmp_path, main=[{"text": "one"}])
    assert gen("-p", "go", "--model", model, cwd=tmp_path).out == "one\n"
    other = gen("sessions", "list", "--all", "--json", cwd=tmp_path, GEN_HOME=str(home / "other"))
    assert other.json["sessions"] == []
    assert len(gen("sessions", "list", "--all", "--json", cwd=tmp_path).json["sessions"]) == 1
