"""memory_*: notes of three scopes, whole or not at all, also beside other processes."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.toolbox import Tool
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall
from gencode.core.spec import Workspace
from gencode.tools import memory_notes
from gencode.tools.memory_notes import (
    LARGEST,
    MOST,
    memory_append,
    memory_list,
    memory_patch,
    memory_read,
    memory_write,
)
from tests.tools.desk import Desk

WRITER = """
import sys
from pathlib import Path
from gencode.core.spec import Workspace
from gencode.tools.memory_notes import folder_of

home, who = Path(sys.argv[1]), sys.argv[2]
folder = folder_of(home, "user", Workspace(home, home, home), "main")
for number in range(25):
    folder.change("shared", lambda before: f"{before or ''}{who} {number}\\n")
"""


class Memory:
    """The five tools over one home."""

    def __init__(self, desk: Desk, home: Path) -> None:
        self.desk = desk
        self.home = home
        self.tools = {
            make.__name__.removeprefix("memory_"): make(lambda: home)
            for make in (memory_list, memory_read, memory_write, memory_patch, memory_append)
        }

    async def use(self, verb: str, agent: str = "main", root: Path | None = None, **given: Any) -> str:
        where = Workspace(root, root, root) if root else self.desk.workspace
        ctx = replace(self.desk.ctx, agent=agent, workspace=where)
        tool = self.tools[verb]
        return (await tool.run(ctx, tool.parse(ToolCall("c", tool.name, given)))).text

    async def refusal(self, verb: str, **given: Any) -> str:
        before = self.files()
        with pytest.raises(ToolError) as error:
            await self.use(verb, **given)
        assert self.files() == before
        return str(error.value)

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file() and path.name != ".lock"
        }


@pytest.fixture
def memory(desk: Desk, home: Path) -> Memory:
    return Memory(desk, home / ".gen")


async def test_a_note_is_written_read_changed_and_listed(memory: Memory) -> None:
    assert await memory.use("write", name="Build-Steps.md", content="# Build\nmake\n") == (
        "Created the note build-steps (project): 13 bytes."
    )
    assert await memory.use("append", name="build-steps", content="make test") == (
        "Changed the note build-steps (project): 23 bytes."
    )
    assert await memory.use("patch", name="build-steps", old_text="make\n", new_text="make all\n") == (
        "Changed the note build-steps (project): 27 bytes."
    )
    assert await memory.use("read", path="build-steps") == "# Build\nmake all\nmake test\n"
    listed = (await memory.use("list")).split("\n")
    assert [line.split(" (")[0] for line in listed] == [
        "user: 0 notes",
        "project: 1 note",
        "  build-steps",
        "agent: 0 notes",
    ]
    assert await memory.use("write", name="build-steps", content="") == (
        "Changed the note build-steps (project): 0 bytes."
    )
    assert await memory.use("read", name="build-steps") == "The note build-steps is empty."


async def test_an_append_begins_a_note_and_keeps_lines_apart(memory: Memory) -> None:
    for line in ("one", "two\n", "three"):
        await memory.use("append", name="log", content=line, scope="user")
    await memory.use("write", name="log", content="zero", scope="agent")
    await memory.use("append", name="log", content="one", scope="agent")
    assert await memory.use("read", name="log", scope="user") == "one\ntwo\nthree\n"
    assert await memory.use("read", name="log", scope="agent") == "zero\none\n"


async def test_scopes_are_kept_apart_and_nothing_lies_in_the_workspace(
    memory: Memory, tmp_path: Path
) -> None:
    other = tmp_path / "ws-2"
    other.mkdir()
    for scope in ("user", "project", "agent"):
        await memory.use("write", name="x", content=scope, scope=scope)
    await memory.use("write", name="x", content="other project", scope="project", root=other)
    await memory.use("write", name="x", content="other agent", scope="agent", agent="Review")
    assert [await memory.use("read", name="x", scope=scope) for scope in ("user", "project", "agent")] == [
        "user",
        "project",
        "agent",
    ]
    assert await memory.use("read", name="x", scope="agent", agent="review", root=other) == "other agent"
    assert await memory.use("read", name="x", root=other) == "other project"
    assert sorted(path.rpartition("-")[0] or path for path in memory.files()) == [
        "memory/agent/main",
        "memory/agent/review",
        "memory/project/ws",
        "memory/project/ws-2",
        "memory/user/x.md",
    ]
    assert list(memory.desk.root.iterdir()) == []
    assert (memory.home / "memory" / "user").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        "a\\b",
        ".hidden",
        "a.b",
        "x" * 65,
        "é",
        "a b",
        "-x",
        "~/x",
        "a\0",
        "con\n.md",
    ],
)
@pytest.mark.parametrize("verb", ["read", "write", "patch", "append"])
async def test_a_name_is_a_plain_word_and_no_path(memory: Memory, name: str, verb: str) -> None:
    given = {
        "write": {"content": "x"},
        "append": {"content": "x"},
        "patch": {"old_string": "a", "new_string": "b"},
    }
    said = await memory.refusal(verb, name=name, **given.get(verb, {}))
    assert "is not a valid name for a note" in said


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("read", {"name": "no"}, "There is no note no in the scope project. Existing notes: there."),
        (
            "patch",
            {"name": "no", "old_string": "a", "new_string": "b"},
            "There is no note no in the scope project.",
        ),
        ("patch", {"name": "there", "old_string": "zzz", "new_string": "b"}, "old_string is not in there."),
        ("patch", {"name": "there", "old_string": "a", "new_string": "b"}, "old_string is in there 2 times"),
        (
            "patch",
            {"name": "there", "old_string": "", "new_string": "b"},
            "old_string is empty, but there is not",
        ),
        ("append", {"name": "there", "content": " "}, "The content is empty; say what to add."),
        (
            "append",
            {"name": "there", "content": "x" * LARGEST},
            "The note would be 65.5 KB",
        ),
        ("write", {"name": "new", "content": "é" * LARGEST}, "The note would be 131.1 KB"),
        ("write", {"name": "new", "content": "x" * (LARGEST + 1)}, "Expected `str` of length <= 65536"),
        ("write", {"name": "new", "content": "\ud800"}, "content contains a lone surrogate"),
        ("write", {"name": "new", "content": "x", "scope": "team"}, "Invalid enum value 'team'"),
        ("list", {"scope": "team"}, "Invalid enum value 'team'"),
    ],
)
async def test_bad_input_is_told_and_changes_nothing(
    memory: Memory, verb: str, given: dict[str, Any], said: str
) -> None:
    await memory.use("write", name="there", content="a\na\n")
    assert said in await memory.refusal(verb, **given)


async def test_there_is_room_for_so_many_notes_and_no_more(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_notes, "MOST", 3)
    for number in range(3):
        await memory.use("write", name=f"n{number}", content="x")
    assert await memory.refusal("write", name="n3", content="x") == (
        "There are 3 notes, which is the limit; add to one of those."
    )
    await memory.use("append", name="n0", content="y")
    assert MOST == 200


async def test_a_link_in_the_place_of_a_note_is_not_followed(memory: Memory, tmp_path: Path) -> None:
    await memory.use("write", name="x", content="x", scope="user")
    folder = memory.home / "memory" / "user"
    secret = tmp_path / "secret"
    secret.write_text("not for notes")
    (folder / "evil.md").symlink_to(secret)
    (folder / "No Note.md").write_text("by hand")
    assert [line.split(" ")[2] for line in (await memory.use("list", scope="user")).split("\n")[1:]] == ["x"]
    for verb, given in (("read", {}), ("write", {"content": "y"}), ("append", {"content": "y"})):
        said = await memory.refusal(verb, name="evil", scope="user", **given)
        assert said == "The note evil changed while it was being opened; try again."
    assert secret.read_text() == "not for notes"


async def test_writers_beside_each_other_lose_nothing(memory: Memory) -> None:
    await asyncio.gather(
        *(memory.use("append", name="log", content=f"line {number}") for number in range(40))
    )
    text = await memory.use("read", name="log")
    assert sorted(text.splitlines()) == sorted(f"line {number}" for number in range(40))


async def test_writers_in_several_processes_lose_nothing(memory: Memory) -> None:
    command = [sys.executable, "-c", WRITER, str(memory.home)]
    running = [await asyncio.create_subprocess_exec(*command, who) for who in ("a", "b", "c")]
    assert [await each.wait() for each in running] == [0, 0, 0]
    text = await memory.use("read", name="shared", scope="user")
    assert sorted(text.splitlines()) == sorted(f"{who} {number}" for who in "abc" for number in range(25))


async def test_where_notes_cannot_be_kept_that_is_said(memory: Memory) -> None:
    memory.home.mkdir(parents=True)
    (memory.home / "memory").write_text("in the way")
    said = await memory.refusal("write", name="x", content="x")
    assert said.startswith(f"Notes cannot be saved in {memory.home}/memory/project/ws-")


def test_only_listing_and_reading_count_as_reading(memory: Memory) -> None:
    found: dict[str, Tool] = memory.tools
    assert {verb: tool.effect for verb, tool in found.items()} == {
        "list": "read",
        "read": "read",
        "write": "write",
        "patch": "write",
        "append": "write",
    }
