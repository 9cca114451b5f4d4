"""What is kept of an output: its ends in constant memory, and a file that stops at its limit."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import ToolError
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.output import CommandOutput, HeadAndTail, OutputFile, OutputLimits

MEGABYTES = int(os.environ.get("GEN_FLOOD_MEGABYTES", "300"))
SMALL = OutputLimits(head=100, tail=50, file=1000)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 20), st.integers(1, 20))
def test_ends_are_the_ends_of_the_whole(chunks: list[bytes], head: int, tail: int) -> None:
    ends, whole = HeadAndTail(OutputLimits(head, tail)), b"".join(chunks)
    for chunk in chunks:
        ends.add(chunk)
    first, last = whole[:head], whole[head:][-tail:]
    between = whole[head : len(whole) - len(last)]
    assert (ends.head_and_tail(), ends.total) == ((first, last), len(whole))
    assert (ends.lines_between(), ends.complete) == (between.count(b"\n"), len(whole) <= head + tail)


async def test_a_short_output_makes_no_file(state: Path, tmp_path: Path) -> None:
    async with CommandRunner(state, keep=SMALL) as commands:
        ended = await commands.run(Command("printf %0150d 0", tmp_path, file=tmp_path / "long"))
    assert ended.output == CommandOutput(head=b"0" * 100, tail=b"0" * 50, total=150)
    assert (ended.output.text(), (tmp_path / "long").exists()) == ("0" * 150, False)


async def test_a_long_output_is_in_its_file_from_the_first_byte_on(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "long"
    async with CommandRunner(state, keep=SMALL) as commands:
        ended = await commands.run(Command("seq 100 199; echo end", tmp_path, file=file))
    whole = "".join(f"{number}\n" for number in range(100, 200)) + "end\n"
    kept = CommandOutput(whole[:100].encode(), whole[-50:].encode(), 404, 63, file, 404)
    assert (ended.output, file.read_text()) == (kept, whole)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    assert ended.output.text() == (
        f"{whole[:100].rstrip()}\n\n"
        f"[254 of 404 bytes (63 lines) are left out here; everything is in {file}]\n\n"
        f"{whole[-50:].lstrip()}"
    )


async def test_a_file_stops_at_its_limit_and_says_so(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "long"
    async with CommandRunner(state, keep=SMALL) as commands:
        ended = await commands.run(Command("yes | head -c 5000", tmp_path, file=file))
    assert (ended.output.total, ended.output.filed) == (5000, 1000)
    note = "\n[4,000 bytes more were written and are not in this file]\n"
    assert file.read_text() == "y\n" * 500 + note
    assert f"the first 1,000 bytes are in {file}]" in ended.output.text()


async def test_an_output_that_is_not_text_is_shown_as_far_as_it_is(state: Path, tmp_path: Path) -> None:
    async with CommandRunner(state) as commands:
        ended = await commands.run(Command(r"printf 'a\377b\n'", tmp_path))
    assert (ended.output.head, ended.output.text()) == (b"a\xffb\n", "a\ufffdb\n")


async def test_a_character_that_was_cut_is_left_out(state: Path, tmp_path: Path) -> None:
    async with CommandRunner(state, keep=OutputLimits(head=4, tail=4)) as commands:
        ended = await commands.run(Command("printf üüüüüüüü", tmp_path))
    assert ended.output.text() == "üü\n\n[8 of 16 bytes are left out here]\n\nüü"
    async with CommandRunner(state, keep=OutputLimits(head=3, tail=3)) as commands:
        ended = await commands.run(Command("printf üüüüüüüü", tmp_path))
    assert ended.output.text() == "ü\n\n[10 of 16 bytes are left out here]\n\nü"


async def test_a_file_that_cannot_be_made_is_told_and_does_not_stop_the_command(
    state: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    async with CommandRunner(state, keep=SMALL) as commands:
        ended = await commands.run(Command("seq 1000; touch ran", tmp_path, file=tmp_path / "link"))
    assert (ended.exit_code, (tmp_path / "ran").exists(), (tmp_path / "elsewhere").exists()) == (
        0,
        True,
        False,
    )
    assert ended.output.trouble == f"{tmp_path / 'link'} cannot be written: File exists"
    assert f"left out here; {ended.output.trouble}]" in ended.output.text()


def test_a_file_in_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match="The output has no place: .* cannot be written"):
        OutputFile(tmp_path / "file" / "long", 10).create()


FULL = """
import asyncio, resource, sys
from pathlib import Path
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner

async def main():
    file = Path(sys.argv[1]) / "long"
    async with CommandRunner(Path(sys.argv[1])) as commands:
        await commands.run(Command("true", Path("/")))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))
        ended = await commands.run(Command("yes | head -c 1000000", Path("/"), file=file))
        print(ended.exit_code, ended.output.total, ended.output.filed, ended.output.trouble == str(
            f"the rest could not be written to {file}: File too large"))

asyncio.run(main())
"""


def test_a_disk_that_is_full_ends_the_file_and_not_the_command(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert (said.stdout, said.stderr) == ("0 1000000 100000 True\n", "")
    assert (tmp_path / "long").stat().st_size == 100_000


FLOOD = """
import asyncio, resource, sys
from pathlib import Path
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner

async def main():
    async with CommandRunner(Path(sys.argv[1])) as commands:
        await commands.run(Command("echo warm", Path("/"), file=Path(sys.argv[1]) / "warm", growing=True))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ended = await commands.run(
            Command(sys.argv[2], Path("/"), separate=sys.argv[3] == "apart", file=Path(sys.argv[1]) / "flood")
        )
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        total = ended.output.total + ended.errors.total
        print(ended.exit_code, total, ended.output.filed, grown < 32 * 1024, grown)

asyncio.run(main())
"""

FLOODS = {
    "lines": ("yes 'some words of a line' | head -c BYTES", "together"),
    "one line": ("head -c BYTES /dev/zero", "together"),
    "both at once": ("head -c HALF /dev/zero >&2 & head -c HALF /dev/zero; wait", "together"),
    "both at once, apart": ("head -c HALF /dev/zero >&2 & head -c HALF /dev/zero; wait", "apart"),
}


@pytest.mark.parametrize(("text", "kept"), FLOODS.values(), ids=FLOODS)
def test_a_flood_is_kept_in_constant_memory(tmp_path: Path, text: str, kept: str) -> None:
    size = MEGABYTES * 1_000_000
    filled = text.replace("BYTES", str(size)).replace("HALF", str(size // 2))
    command = [sys.executable, "-c", FLOOD, str(tmp_path), filled, kept]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    filed = min(64 * 1024 * 1024, size if kept == "together" else size // 2)
    assert (said.stdout.split()[:4], said.stderr) == (["0", str(size), str(filed), "True"], "")
