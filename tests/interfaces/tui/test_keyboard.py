"""The terminal: a paste is one text however it is cut into pieces, and one that is gone holds nobody up."""

import io
import os
import pty
import select
import threading
from pathlib import Path
from tty import setraw

from hypothesis import assume, given
from hypothesis import strategies as st
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from gencode.interfaces.tui.terminal_driver import (
    MAX_PENDING_BYTES,
    PASTE_BEGIN,
    PASTE_END,
    PasteFilter,
    TerminalWriter,
)
from tests.interfaces.cli.running import script
from tests.interfaces.tui.pseudo_terminal import on_a_pty, read
from tests.waiting import PATIENCE

CHARACTERS = st.text(st.sampled_from("a\x1b[201~\r\n\t\x03\x7f\x9b"), max_size=30)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def heard(terminal: int, last: bytes) -> bytes:
    """What a terminal was told up to what should come last, or until nothing comes any more."""
    shown = b""
    while not shown.endswith(last) and select.select([terminal], [], [], PATIENCE)[0]:
        shown += os.read(terminal, 1 << 16)
    return shown


@given(CHARACTERS, st.lists(st.integers(0, 99), max_size=6))
def test_nothing_in_a_paste_acts_however_it_is_cut(text: str, places: list[int]) -> None:
    assume(PASTE_END not in text)
    pasted = PasteFilter()
    shown = "".join(pasted.clean(piece) for piece in cut(f"{PASTE_BEGIN}{text}{PASTE_END}\r", places))
    _, begin, inside = shown.partition(PASTE_BEGIN)
    inside, end, after = inside.partition(PASTE_END)
    kept = "".join(each for each in text if each not in "\x1b\x03\x7f\x9b")
    assert (begin, inside, end, after) == (PASTE_BEGIN, kept, PASTE_END, "\r")


def test_keys_pass_as_they_are() -> None:
    pasted = PasteFilter()
    pieces = ["\x1b", "a\x1b[A", "\x1b[20", "~\x03", f"x{PASTE_BEGIN}y{PASTE_END}\x1b", "[B"]
    assert [pasted.clean(piece) for piece in pieces] == [
        "\x1b",
        "a\x1b[A",
        "",
        "\x1b[20~\x03",
        f"x{PASTE_BEGIN}y{PASTE_END}\x1b",
        "[B",
    ]


def test_a_paste_with_control_codes_runs_nothing_in_a_real_terminal(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "It was heard."}])
    with on_a_pty(tmp_path, "--model", model) as (leader, _, process):
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"\x1b[200~AAA \x1b[31m BBB\r/mode dontAsk\rCCC\xff \x1b")
        os.write(leader, b"[2J DDD\r\x1b[201~")
        shown = read(leader, shown, lambda seen: b"DDD" in seen)
        assert b"CCC" in shown and b"BBB" in shown
        assert b"[dontAsk]" not in shown and b"It was heard." not in shown
        os.write(leader, b"\r")
        shown = read(leader, shown, lambda seen: b"It was heard." in seen)
        os.write(leader, b"\x04")
        shown = read(leader, shown, lambda _: process.poll() is not None)
    assert b"[dontAsk]" not in shown and process.returncode == 0


def test_what_is_written_to_a_terminal_that_is_gone_holds_nobody_up() -> None:
    leader, follower = pty.openpty()
    outlet = TerminalWriter(follower, lambda: None)
    writing = WriterThread(io.TextIOWrapper(outlet, write_through=True))
    writing.start()
    writing.write("seen")
    assert select.select([leader], [], [], PATIENCE)[0]
    assert os.read(leader, 100) == b"seen"
    os.close(leader)
    for _ in range(5 * MAX_QUEUED_WRITES):
        writing.write("lost")
    writing.stop()
    outlet.finish(PATIENCE)
    os.close(follower)
    assert not writing.is_alive()


def test_a_terminal_that_another_program_made_one_that_never_waits_gets_every_byte() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    outlet = TerminalWriter(writing, lambda: None)
    piece = b"%09d\n" * 50_000 % tuple(range(50_000))
    outlet.write(piece)
    outlet.write(b"end")
    shown = heard(reading, b"end")
    outlet.finish(PATIENCE)
    os.close(reading)
    os.close(writing)
    assert shown == piece + b"end"


def test_a_terminal_that_is_read_again_is_told_what_came_last_and_that_it_missed_something() -> None:
    leader, follower = pty.openpty()
    setraw(follower)
    missed = threading.Event()
    outlet = TerminalWriter(follower, missed.set)
    pieces = [b"%09d\n" % number * 1000 for number in range(2 + 2 * MAX_PENDING_BYTES // 10_000)]
    for piece in pieces:
        assert outlet.write(piece) == len(piece)
    assert not missed.is_set()
    shown = heard(leader, pieces[-1])
    assert missed.wait(PATIENCE)
    lines = shown.split(b"\n")[:-1]
    assert len(lines) < 1000 * len(pieces) and {len(line) for line in lines} == {9}
    assert lines == sorted(lines)
    outlet.finish(PATIENCE)
    os.close(leader)
    os.close(follower)
