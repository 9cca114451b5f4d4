"""What a command gets, what comes back, and what is said when it cannot run."""

import asyncio
import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from gencode.core.errors import ToolError
from gencode.sandbox.processes.command import Command, CommandOutcome, start_error
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.output import CommandOutput
from tests.sandbox.processes.living import alive, eventually, new_word, python


def written(text: bytes) -> CommandOutput:
    return CommandOutput(head=text, total=len(text))


def timeless(ended: CommandOutcome) -> CommandOutcome:
    """The same end, whenever it was."""
    return CommandOutcome(
        ended.exit_code, ended.signal, ended.cause, ended.output, ended.errors, 0.0, ended.left_over
    )


async def test_a_text_is_run_as_it_is(commands: CommandRunner, tmp_path: Path) -> None:
    text = "# a comment\nprintf '%s|' \"$0\" \"$#\" 'it'\"'\"'s' $'tab\\there' ünï\\ code\n\n"
    ended = await commands.run(Command(text, tmp_path))
    said = f"{commands.bash}|0|it's|tab\there|ünï code|".encode()
    assert timeless(ended) == CommandOutcome(0, None, "exited", written(said), CommandOutput(), 0.0)


async def test_bash_is_given_exactly_the_judged_words(commands: CommandRunner, tmp_path: Path) -> None:
    text = "cat /proc/$$/cmdline; true"
    ended = await commands.run(Command(text, tmp_path))
    assert ended.output.head.split(b"\0")[1:-1] == [b"--noprofile", b"--norc", b"-c", text.encode()]


async def test_a_program_is_run_without_a_shell(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await commands.run(Command(("printf", "%s|", "$HOME", "a b", "`id`", ""), tmp_path))
    assert ended.output.text() == "$HOME|a b|`id`||"


async def test_a_command_has_a_session_of_its_own_and_no_terminal(
    commands: CommandRunner, tmp_path: Path
) -> None:
    script = (
        "import os, sys\n"
        "print(os.getsid(0) == os.getpgid(0) == os.getpid(), os.getppid() == int(sys.argv[1]))\n"
        "print(os.readlink('/proc/self/fd/0'))\n"
        "try: os.open('/dev/tty', os.O_RDWR)\n"
        "except OSError: print('no terminal')\n"
    )
    ended = await commands.run(Command(python(script, str(os.getpid())), tmp_path))
    assert ended.output.text() == "True False\n/dev/null\nno terminal\n"


async def test_a_command_sees_none_of_our_files(commands: CommandRunner, tmp_path: Path) -> None:
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        ended = await commands.run(Command("ls /proc/$$/fd; true", tmp_path))
    assert ended.output.text() == "0\n1\n2\n"


async def test_signals_are_at_their_defaults(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await commands.run(Command(("cat", "/proc/self/status"), tmp_path))
    told = dict(line.split(":\t", 1) for line in ended.output.text().splitlines())
    assert [told[name] for name in ("SigBlk", "SigIgn", "SigCgt")] == ["0" * 16] * 3


async def test_the_umask_is_ours(tmp_path: Path, state: Path) -> None:
    before = os.umask(0o027)
    try:
        async with CommandRunner(state) as commands:
            await commands.run(Command("touch made", tmp_path))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640


async def test_a_command_runs_where_it_is_told(commands: CommandRunner, tmp_path: Path) -> None:
    folder = tmp_path / "a folder; with 'a name\n"
    folder.mkdir()
    assert (await commands.run(Command("pwd", folder))).output.text() == f"{folder.resolve()}\n"


async def test_both_outputs_are_one_stream_in_order(commands: CommandRunner, tmp_path: Path) -> None:
    text = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"
    ended = await commands.run(Command(text, tmp_path))
    assert ended.output.text() == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"


async def test_errors_can_be_kept_apart(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await commands.run(Command("echo out; echo err >&2; exit 3", tmp_path, separate=True))
    assert timeless(ended) == CommandOutcome(3, None, "exited", written(b"out\n"), written(b"err\n"), 0.0)
    assert ended.verdict == "Exit code 3."


async def test_a_command_that_dies_of_a_signal_says_which(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await commands.run(Command("kill -SEGV $$", tmp_path))
    assert timeless(ended) == CommandOutcome(
        None, signal.SIGSEGV, "exited", CommandOutput(), CommandOutput(), 0.0
    )
    assert ended.verdict == "Ended by signal 11 (Segmentation fault)."


async def test_many_commands_run_side_by_side(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await asyncio.gather(*(commands.run(Command(f"echo {n}", tmp_path)) for n in range(40)))
    assert [each.output.text() for each in ended] == [f"{n}\n" for n in range(40)]
    assert commands.running() == {}


async def test_a_command_that_takes_too_long_is_stopped(commands: CommandRunner, tmp_path: Path) -> None:
    word = new_word()
    ended = await commands.run(Command(f"echo begun; sleep 300; : {word}", tmp_path, seconds=0.3))
    assert timeless(ended) == CommandOutcome(
        None, signal.SIGTERM, "timed_out", written(b"begun\n"), CommandOutput(), 0.0
    )
    assert alive(word) == []
    assert ended.verdict.startswith("Timed out after 0.")


async def test_a_flood_does_not_delay_the_time_out(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await commands.run(Command("yes & yes >&2 & yes", tmp_path, seconds=0.5))
    assert (ended.cause, ended.output.left_out > 0) == ("timed_out", True)


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_command(
    commands: CommandRunner, tmp_path: Path
) -> None:
    word = new_word()
    ended = await commands.run(Command(f"setsid bash -c 'sleep 300; : {word}' & echo done", tmp_path))
    assert timeless(ended) == CommandOutcome(
        0, None, "exited", written(b"done\n"), CommandOutput(), 0.0, left_over=2
    )
    assert (
        ended.verdict
        == "2 processes left running by it had to be stopped; run long-lived processes in the background."
    )
    assert alive(word) == []


async def test_what_ends_soon_after_its_command_may_finish(commands: CommandRunner, tmp_path: Path) -> None:
    ended = await commands.run(Command("(sleep 0.05; echo late) & echo early", tmp_path))
    assert timeless(ended) == CommandOutcome(
        0, None, "exited", written(b"early\nlate\n"), CommandOutput(), 0.0
    )


async def test_a_cancelled_wait_ends_the_command(commands: CommandRunner, tmp_path: Path) -> None:
    word = new_word()
    waiting = asyncio.create_task(commands.run(Command(f"setsid sleep 300 & sleep 300; : {word}", tmp_path)))
    assert await eventually(lambda: alive(word))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (alive(word), commands.running()) == ([], {})


async def test_a_background_command_goes_on_until_it_is_stopped(
    commands: CommandRunner, tmp_path: Path
) -> None:
    word, file = new_word(), tmp_path / "out" / "it.log"
    text = f"echo one; while [ ! -e more ]; do sleep 0.01; done; echo two; sleep 300; : {word}"
    running = await commands.start(Command(text, tmp_path, file=file, growing=True))
    assert await eventually(lambda: file.read_text() == "one\n")
    (tmp_path / "more").touch()
    assert await eventually(lambda: file.read_text() == "one\ntwo\n")
    assert commands.running() == {running.id: running}
    assert (running.output_file, running.output().text()) == (file, "one\ntwo\n")
    ended = await running.stop()
    kept = CommandOutput(head=b"one\ntwo\n", total=8, file=file, filed=8)
    assert timeless(ended) == CommandOutcome(None, signal.SIGTERM, "stopped", kept, CommandOutput(), 0.0)
    assert (alive(word), await running.stop() == ended) == ([], True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_closing_ends_everything_and_starts_nothing_more(tmp_path: Path, state: Path) -> None:
    word = new_word()
    async with CommandRunner(state) as commands:
        started = [await commands.start(Command(f"sleep 300; : {word}", tmp_path)) for _ in range(3)]
        assert len(alive(word)) >= 3
    assert [(await each.wait()).cause for each in started] == ["stopped"] * 3
    assert (alive(word), list((state / "keepers").iterdir())) == ([], [])
    with pytest.raises(ToolError, match="shutting down"):
        await commands.run(Command("true", tmp_path))


async def test_an_exception_ends_everything(tmp_path: Path, state: Path) -> None:
    word = new_word()
    with pytest.raises(ZeroDivisionError):
        async with CommandRunner(state) as commands:
            await commands.start(Command(f"setsid sleep 300 & sleep 300; : {word}", tmp_path))
            _ = 1 // 0
    assert alive(word) == []


CANNOT = {
    "a folder that is not there": (
        Command("true", Path("/no/such/folder")),
        "/no/such/",
    ),
    "a folder that is a file": (
        Command("true", Path("/etc/passwd")),
        "/etc/passwd: Not a",
    ),
    "a text that is too long": (Command(": " + "x" * 200_000, Path("/")), "is too long to be started"),
    "too many arguments": (Command(("true", *["x" * 90_000] * 60), Path("/")), "is too long to be started"),
    "a program that is not there": (Command(("no-such-program",), Path("/")), "'no-such-program'"),
    "a path that is not there": (
        Command(("/no/such/program",), Path("/")),
        "/no/such/program does not exist",
    ),
    "a file that is no program": (Command(("/etc/passwd",), Path("/")), "/etc/passwd cannot be run: Perm"),
    "no program": (Command((), Path("/")), "name a program"),
    "a NUL": (Command("echo a\0b", Path("/")), "NUL"),
    "half a character": (Command("echo \ud800", Path("/")), "incomplete character"),
}


@pytest.mark.parametrize(("command", "said"), CANNOT.values(), ids=CANNOT)
async def test_what_cannot_run_is_told_in_a_sentence(
    commands: CommandRunner, command: Command, said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await commands.run(command)
    assert (await commands.run(Command("echo on", Path("/")))).output.text() == "on\n"


async def test_a_missing_shell_is_told(state: Path) -> None:
    async with CommandRunner(state, bash="/no/such/bash") as commands:
        with pytest.raises(ToolError, match="/no/such/bash does not exist"):
            await commands.run(Command("true", Path("/")))


async def test_a_file_that_cannot_be_made_is_told_before_anything_starts(
    commands: CommandRunner, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("theirs")
    with pytest.raises(ToolError, match="cannot be written: File exists"):
        await commands.start(Command("touch ran", tmp_path, file=tmp_path / "taken", growing=True))
    assert ((tmp_path / "taken").read_text(), (tmp_path / "ran").exists()) == ("theirs", False)


async def test_a_state_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with CommandRunner(tmp_path / "file" / "state") as commands:
        with pytest.raises(ToolError, match="cannot be written"):
            await commands.run(Command("true", Path("/")))


@pytest.mark.parametrize("spare", [1, 3, 5])
async def test_too_many_open_files_is_told_and_none_stays_open(
    commands: CommandRunner, tmp_path: Path, spare: int
) -> None:
    await commands.run(Command("true", tmp_path))
    before = open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [number for number in range(max(before) + 10) if number not in before]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], hard))
    try:
        with pytest.raises(ToolError, match="Too many open files"):
            await commands.run(Command("true", tmp_path, separate=True))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_files() == before
    assert (await commands.run(Command("echo on", tmp_path))).output.text() == "on\n"


def open_files() -> set[int]:
    with os.scandir("/proc/self/fd") as files:
        names = {int(file.name) for file in files}
    return {number for number in names if Path(f"/proc/self/fd/{number}").exists()}


def test_a_machine_without_room_for_a_process_is_told() -> None:
    trouble = start_error(Command("true", Path("/")), ("bash",), "fork", 11)
    assert str(trouble) == (
        "The machine cannot start another process now (Resource temporarily unavailable): "
        "stop something, or try again later."
    )
