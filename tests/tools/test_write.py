"""Write: new files, files that were read, and everything that is refused without a trace."""

import asyncio
import hashlib
import os
import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.toolbox import Tool, ToolOutput
from gencode.core.errors import Denied, ToolError
from gencode.core.messages import FileChange, FileSeen, ToolCall, Trace
from gencode.files.file_versions import FileVersions, SeenFiles
from gencode.permissions.paths import Resolved
from gencode.tools.edit import EDIT
from gencode.tools.file_changes import MOST_LINES
from gencode.tools.file_operations import DELETE_FILE
from gencode.tools.read import READ
from gencode.tools.write import WRITE
from tests.tools.desk import Desk

UNREAD = "^a.txt exists and was not read in this task; Read it first, then change it.$"


def changed(path: str, content: bytes) -> Trace:
    digest = hashlib.sha256(content).hexdigest()
    return Trace(changed=(FileChange(path, digest),), seen=(FileSeen(path, digest),))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """A limit on the size of files stands for a full disk: the write ends in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


async def shown(desk: Desk, tool: Tool, **arguments: Any) -> str:
    return await tool.shown(desk.ctx, tool.parse(ToolCall("c1", tool.name, arguments)))


@pytest.mark.parametrize(
    ("content", "size"),
    [
        ("one\ntwo\n", "2 lines, 8 bytes"),
        ("one\r\ntwo", "2 lines, 8 bytes"),
        ("größe", "1 line, 7 bytes"),
        ("", "0 lines, 0 bytes"),
        ("\ufeff\n\n", "2 lines, 5 bytes"),
    ],
)
async def test_a_new_file_is_made_with_its_folders_exactly_as_given(
    desk: Desk, content: str, size: str
) -> None:
    output = await desk.output(WRITE, file_path="new/er/a.txt", content=content)
    assert output == ToolOutput(f"Created new/er/a.txt: {size}.", changed("new/er/a.txt", content.encode()))
    assert tree(desk.root) == {"new/er/a.txt": content.encode()}


async def test_a_file_that_was_read_is_replaced_and_may_be_replaced_again(desk: Desk) -> None:
    desk.put("a.txt", "old\n")
    await desk.use(READ, file_path="a.txt")
    first = await desk.output(WRITE, file_path="./a.txt", content="new\n")
    second = await desk.use(WRITE, file_path=str(desk.root / "a.txt"), content="newer\n")
    assert first == ToolOutput("Replaced a.txt: 1 line, 4 bytes.", changed("a.txt", b"new\n"))
    assert (second, tree(desk.root)) == ("Replaced a.txt: 1 line, 6 bytes.", {"a.txt": b"newer\n"})


async def test_reading_a_part_of_a_file_is_reading_it(desk: Desk) -> None:
    desk.put("a.txt", "one\ntwo\nthree\n")
    await desk.use(READ, file_path="a.txt", offset=2, limit=1)
    assert (await desk.use(WRITE, file_path="a.txt", content="")).startswith("Replaced")


async def test_a_file_that_was_not_read_is_not_replaced(desk: Desk) -> None:
    desk.put("a.txt", "precious")
    with pytest.raises(ToolError, match=UNREAD):
        await desk.use(WRITE, file_path="a.txt", content="new")
    assert tree(desk.root) == {"a.txt": b"precious"}


async def test_what_another_agent_read_does_not_count(desk: Desk) -> None:
    desk.put("a.txt", "precious")
    await Desk(desk.root).use(READ, file_path="a.txt")
    with pytest.raises(ToolError, match=UNREAD):
        await desk.use(WRITE, file_path="a.txt", content="new")


async def test_a_file_that_changed_since_it_was_read_is_not_replaced(desk: Desk) -> None:
    desk.put("a.txt", "old")
    await desk.use(READ, file_path="a.txt")
    desk.put("a.txt", "changed by the user")
    with pytest.raises(ToolError, match="^a.txt changed since it was read; Read it again first.$"):
        await desk.use(WRITE, file_path="a.txt", content="new")
    await desk.use(READ, file_path="a.txt")
    assert (await desk.use(WRITE, file_path="a.txt", content="new")).startswith("Replaced")


async def test_a_file_that_changed_and_got_its_old_time_and_size_back_is_not_replaced(desk: Desk) -> None:
    desk.put("a.txt", "value = 1")
    await desk.use(READ, file_path="a.txt")
    path = desk.root / "a.txt"
    before = path.stat()
    path.write_text("value = 9")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ToolError, match="^a.txt changed since it was read; Read it again first.$"):
        await desk.use(WRITE, file_path="a.txt", content="new")


def beside(desk: Desk) -> Desk:
    """Another agent in the same folder and process."""
    versions, other = FileVersions(), Desk(desk.root)
    desk.seen, other.seen = SeenFiles(versions, "the agent main"), SeenFiles(versions, "the agent kid")
    return other


async def test_who_was_quicker_by_a_moment_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    other = beside(desk)
    desk.put("a.txt", "old")
    await desk.use(READ, file_path="a.txt")
    await other.use(READ, file_path="a.txt")
    loop, sync = asyncio.get_running_loop(), os.fsync

    def between(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        asyncio.run_coroutine_threadsafe(other.use(WRITE, file_path="a.txt", content="kid"), loop).result()
        sync(handle)

    monkeypatch.setattr(os, "fsync", between)
    with pytest.raises(
        ToolError, match=r"^a.txt changed since it was read \(by the agent kid\); Read it again first.$"
    ):
        await desk.use(WRITE, file_path="a.txt", content="mine")
    assert tree(desk.root) == {"a.txt": b"kid"}


@pytest.mark.parametrize("tool", ["Write", "Edit"])
async def test_a_file_that_somebody_deleted_since_it_was_read_is_not_made_again_unawares(
    desk: Desk, tool: str
) -> None:
    other = beside(desk)
    desk.put("a.txt", "old")
    await desk.use(READ, file_path="a.txt")
    await other.use(READ, file_path="a.txt")
    await other.use(DELETE_FILE, path="a.txt")
    gone = (
        r"^a.txt was deleted since it was read \(by the agent kid\); if it should be there, Write it again.$"
    )
    with pytest.raises(ToolError, match=gone):
        if tool == "Write":
            await desk.use(WRITE, file_path="a.txt", content="mine")
        else:
            await desk.use(EDIT, file_path="a.txt", old_string="old", new_string="mine")
    assert tree(desk.root) == {}
    assert (await desk.use(WRITE, file_path="a.txt", content="mine")).startswith("Created")


async def test_who_deleted_a_file_itself_makes_it_again_at_once(desk: Desk) -> None:
    beside(desk)
    await desk.use(WRITE, file_path="a.txt", content="one")
    await desk.use(DELETE_FILE, path="a.txt")
    assert (await desk.use(WRITE, file_path="a.txt", content="two")).startswith("Created")
    before = desk.seen.before()
    (desk.root / "a.txt").unlink()
    desk.seen.ran(before)
    assert (await desk.use(WRITE, file_path="a.txt", content="three")).startswith("Created")


async def test_nobody_is_named_for_what_the_system_refuses(desk: Desk) -> None:
    other = beside(desk)
    await other.use(WRITE, file_path="a.txt", content="kid")
    await desk.use(READ, file_path="a.txt")
    full = r"^There is no room for a.txt on the disk \(File too large\); nothing was changed.$"
    with files_of_at_most(10), pytest.raises(ToolError, match=full):
        await desk.use(WRITE, file_path="a.txt", content="x" * 100)
    assert tree(desk.root) == {"a.txt": b"kid"}


async def test_a_file_with_new_rights_only_is_still_known_after_it_was_read_or_written(desk: Desk) -> None:
    path = desk.root / "a.txt"
    await desk.use(WRITE, file_path="a.txt", content="one")
    path.chmod(0o755)
    assert (await desk.use(WRITE, file_path="a.txt", content="two")).startswith("Replaced")
    await desk.use(READ, file_path="a.txt")
    path.chmod(0o700)
    assert (await desk.use(WRITE, file_path="a.txt", content="three")).startswith("Replaced")


async def test_a_file_that_was_deleted_since_it_was_read_is_made_anew(desk: Desk) -> None:
    desk.put("a.txt", "old")
    await desk.use(READ, file_path="a.txt")
    (desk.root / "a.txt").unlink()
    assert await desk.use(WRITE, file_path="a.txt", content="new") == "Created a.txt: 1 line, 3 bytes."


async def test_a_file_that_appears_after_its_path_was_judged_is_not_overwritten(desk: Desk) -> None:
    def meanwhile(text: str) -> Resolved:
        place = desk.ctx.place(text)
        (desk.root / "new").mkdir()
        (desk.root / "new/a.txt").write_text("somebody else's")
        return place

    ctx = replace(desk.ctx, place=meanwhile)
    with pytest.raises(ToolError, match="exists and was not read"):
        await WRITE.run(ctx, WRITE.parse(ToolCall("1", "Write", {"file_path": "new/a.txt", "content": "x"})))
    assert tree(desk.root) == {"new/a.txt": b"somebody else's"}


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("a", "ok\n\ud83d", "content contains a lone surrogate (U+D83D, line 2); "),
        ("src", "x", "src is a folder, not a file."),
        ("src/a.txt/b", "x", "src/a.txt/b is not there: 'a.txt' is a file, not a folder."),
        ("pipe", "x", "pipe is a device, a pipe or a socket, not a file; it cannot be opened."),
        ("new/" + "x" * 300, "x", f"'new/{'x' * 196}…' cannot be changed: File name too long."),
    ],
)
async def test_what_cannot_be_written_is_told_and_leaves_nothing(
    desk: Desk, path: str, content: str, said: str
) -> None:
    desk.put("src/a.txt", "old")
    os.mkfifo(desk.root / "pipe")
    with pytest.raises(ToolError) as caught:
        await desk.use(WRITE, file_path=path, content=content)
    assert str(caught.value).startswith(said)
    assert (tree(desk.root), sorted(each.name for each in desk.root.iterdir())) == (
        {"src/a.txt": b"old"},
        ["pipe", "src"],
    )


async def test_what_the_gate_refuses_at_that_moment_is_not_written(desk: Desk) -> None:
    def refused(_: str) -> Resolved:
        raise Denied("no longer allowed")

    ctx = replace(desk.ctx, place=refused)
    with pytest.raises(Denied):
        await WRITE.run(ctx, WRITE.parse(ToolCall("1", "Write", {"file_path": "a", "content": "x"})))
    assert tree(desk.root) == {}


@pytest.mark.parametrize("tool", [WRITE, EDIT])
async def test_a_full_disk_is_told_and_leaves_everything_as_it_was(desk: Desk, tool: Tool) -> None:
    desk.put("a.txt", "old")
    await desk.use(READ, file_path="a.txt")
    big = "x" * 10_000
    told: list[str] = []
    with files_of_at_most(4_096):
        for path in ("a.txt", "new/er/b.txt"):
            old = "old" if path == "a.txt" else ""
            asked = {"content": big} if tool is WRITE else {"old_string": old, "new_string": big}
            with pytest.raises(ToolError) as caught:
                await desk.use(tool, file_path=path, **asked)
            told.append(str(caught.value))
    assert told == [
        f"There is no room for {path} on the disk (File too large); nothing was changed."
        for path in ("a.txt", "new/er/b.txt")
    ]
    assert (tree(desk.root), [each.name for each in desk.root.iterdir()]) == ({"a.txt": b"old"}, ["a.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("tool", [WRITE, EDIT])
async def test_a_read_only_folder_is_told_and_leaves_everything_as_it_was(desk: Desk, tool: Tool) -> None:
    desk.put("shut/a.txt", "old")
    await desk.use(READ, file_path="shut/a.txt")
    (desk.root / "shut").chmod(0o555)
    asked = {"content": "new"} if tool is WRITE else {"old_string": "old", "new_string": "new"}
    try:
        with pytest.raises(ToolError, match="may not be changed: the system refuses it"):
            await desk.use(tool, file_path="shut/a.txt", **asked)
    finally:
        (desk.root / "shut").chmod(0o755)
    assert tree(desk.root) == {"shut/a.txt": b"old"}


async def test_a_call_that_was_stopped_changes_nothing_afterwards(desk: Desk) -> None:
    desk.put("a.txt", "old")
    await desk.use(READ, file_path="a.txt")
    loop, reached, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def slow(text: str) -> Resolved:
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return desk.ctx.place(text)

    ctx = replace(desk.ctx, place=slow)
    arguments = WRITE.parse(ToolCall("1", "Write", {"file_path": "a.txt", "content": "new"}))
    call = asyncio.create_task(WRITE.run(ctx, arguments))
    await reached.wait()
    call.cancel()
    loop.call_later(0.01, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (go_on.is_set(), tree(desk.root)) == (True, {"a.txt": b"old"})


async def test_the_preview_of_a_new_file_shows_every_line(desk: Desk) -> None:
    assert await shown(desk, WRITE, file_path="a.txt", content="one\ntwo") == (
        "A new file:\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file"
    )
    assert tree(desk.root) == {}


async def test_the_preview_shows_what_would_change_and_changes_nothing(desk: Desk) -> None:
    desk.put("a.txt", "".join(f"line {n}\n" for n in range(1, 21)))
    desk.know("a.txt")
    before, seen = tree(desk.root), desk.seen.state(str(desk.root / "a.txt"))
    text = before["a.txt"].decode().replace("line 10\n", "ten\n").replace("line 20\n", "")
    assert (await shown(desk, WRITE, file_path="a.txt", content=text)).split("\n") == [
        "@@ -7,7 +7,7 @@",
        " line 7",
        " line 8",
        " line 9",
        "-line 10",
        "+ten",
        " line 11",
        " line 12",
        " line 13",
        "@@ -17,4 +17,3 @@",
        " line 17",
        " line 18",
        " line 19",
        "-line 20",
    ]
    assert (tree(desk.root), desk.seen.state(str(desk.root / "a.txt"))) == (before, seen)


async def test_a_preview_is_bounded_and_says_so(desk: Desk) -> None:
    desk.put("a.txt", "".join(f"old {n}\n" for n in range(5_000)))
    desk.know("a.txt")
    content = "y" * 900 + "\n" + "".join(f"new {n}\n" for n in range(5_000))
    lines = (await shown(desk, WRITE, file_path="a.txt", content=content)).split("\n")
    assert len(lines) == MOST_LINES + 1
    assert (lines[91], lines[92]) == (
        "[… 4,910 more lines are removed]",
        f"+{'y' * 500} [… 400 more characters]",
    )
    assert lines[-1].endswith("more lines of this diff are not shown]")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n", b"x" * (9 * 1024 * 1024)])
async def test_the_preview_of_a_file_that_is_no_text_shows_the_new_one(desk: Desk, content: bytes) -> None:
    desk.put("a", content)
    desk.know("a")
    text = await shown(desk, WRITE, file_path="a", content="new\n")
    assert text.startswith("The whole file is replaced. a is ")
    assert text.endswith("\n@@ -0,0 +1,1 @@\n+new")


async def test_a_preview_of_what_cannot_succeed_says_why(desk: Desk) -> None:
    desk.put("a.txt", "one")
    for path, why in (
        ("~bob/x", "~bob/x cannot be opened: it is in another user's home directory."),
        ("a.txt", "a.txt exists and was not read in this task; Read it first, then change it."),
    ):
        with pytest.raises(ToolError) as raised:
            await shown(desk, WRITE, file_path=path, content="")
        assert str(raised.value) == why


def test_its_names_and_its_effect() -> None:
    assert (WRITE.name, WRITE.aliases, WRITE.effect) == ("Write", ("write_file",), "write")
    assert WRITE.schema["required"] == ["file_path", "content"]
