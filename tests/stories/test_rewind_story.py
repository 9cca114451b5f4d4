"""A conversation and the files that its agents changed go back to before an earlier prompt."""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.tasks.repository import repository
from tests.waiting import until

from gencode import GenCode
from gencode.core.errors import Conflict, UserMistake
from gencode.core.messages import AssistantMessage, UserMessage
from gencode.core.task import as_rewound, transcript_of
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import Overhearing, Turns, call, says

FREE = {"permission_mode": "dontAsk", "sandbox": "off", "background_questions": False}
Files = dict[str, bytes]


@asynccontextmanager
async def playing(folder: Path, **agents: Turns) -> AsyncGenerator[GenCode, None]:
    script = ScriptedProvider.of({name.replace("_", "-"): turns for name, turns in agents.items()})
    async with GenCode.open(folder, model=script, settings=FREE) as gen:
        yield gen


async def talk(gen: GenCode, *prompts: str) -> str:
    session: str | None = None
    for prompt in prompts:
        session = (await gen.ask(prompt, session=session).outcome()).agent_id
    assert session is not None
    return session


async def prompts(gen: GenCode, session: str) -> dict[str, int]:
    return {each.prompt: each.to for each in await gen.rewind_points(session)}


def files_in(folder: Path) -> Files:
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file() and ".git" not in each.parts
    }


def project(folder: Path) -> Files:
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.bin").write_bytes(b"\0\xff" * 100)
    (folder / "run.sh").write_text("echo hi\n")
    (folder / "run.sh").chmod(0o755)
    return files_in(folder)


READ_ALL = says("", *(call("Read", file_path=name) for name in ("a.txt", "run.sh")))
EDITS = says("", call("Edit", file_path="a.txt", old_string="two", new_string="three"))
WORK = says(
    "",
    call("Write", file_path="new/c.txt", content="new\n"),
    call("Bash", command="echo more >> a.txt; rm run.sh"),
    call("Task", subagent_type="general-purpose", prompt="edit"),
)
CHILD = [
    says("", call("Read", file_path="new/c.txt")),
    says("", call("Edit", file_path="new/c.txt", old_string="new", new_string="by a child")),
    says("done"),
]


async def test_files_and_conversation_go_back_to_any_prompt_and_forward_again(tmp_path: Path) -> None:
    first = project(tmp_path)
    main = [READ_ALL, EDITS, says("one done"), WORK, says("two done"), says("three done")]
    async with playing(tmp_path, main=main, general_purpose=CHILD) as gen:
        session = await talk(gen, "one")
        second = files_in(tmp_path)
        await gen.ask("two", session=session).outcome()
        third = files_in(tmp_path)
        at = await prompts(gen, session)
        preview = await gen.preview_rewind(session, at["two"])
        assert [(Path(each.path).name, each.does, each.state) for each in preview.files] == [
            ("a.txt", "restore", "ready"),
            ("c.txt", "delete", "ready"),
            ("run.sh", "create", "ready"),
        ]
        assert (preview.files[0].added, preview.files[0].removed) == (0, 1)
        assert preview.commands == ("echo more >> a.txt; rm run.sh",)
        assert files_in(tmp_path) == third  # a preview changes nothing

        await gen.rewind(session, at["two"])
        assert files_in(tmp_path) == second
        assert os.access(tmp_path / "run.sh", os.X_OK)
        said = transcript_of(await gen.history.events(session))
        assert isinstance(said[-1], AssistantMessage)
        assert said[-1].text == "one done"

        undo = (await gen.rewind_points(session))[-1]
        assert undo.undo
        await gen.rewind(session, undo.to)
        assert files_in(tmp_path) == third
        assert (await prompts(gen, session)).keys() >= {"one", "two"}

        await gen.rewind(session, at["one"])
        assert files_in(tmp_path) == first
        assert transcript_of(await gen.history.events(session)) == []


async def test_the_model_reads_nothing_of_what_was_taken_back(tmp_path: Path) -> None:
    main = [says("first answer"), says("second answer"), says("third answer")]
    provider = Overhearing(ScriptedProvider.of({"main": main}))
    async with GenCode.open(tmp_path, model=provider, settings=FREE) as gen:
        session = await talk(gen, "first", "second")
        await gen.rewind(session, (await prompts(gen, session))["second"])
        await gen.ask("another", session=session).outcome()
        said = provider.requests[-1].messages
        assert [each.text for each in said if isinstance(each, UserMessage)] == ["first", "another"]
        assert provider.requests[-1].system == provider.requests[0].system
        facts = await gen.history.events(session)
        assert [each.seq for each in facts] == [*range(1, len(facts) + 1)]  # the journal lost nothing
        assert len(as_rewound(facts)) < len(facts)


async def test_files_alone_go_back_and_the_model_is_told(tmp_path: Path) -> None:
    before = project(tmp_path)
    provider = Overhearing(ScriptedProvider.of({"main": [READ_ALL, EDITS, says("done"), says("I see")]}))
    async with GenCode.open(tmp_path, model=provider, settings=FREE) as gen:
        session = await talk(gen, "change")
        done = await gen.rewind(session, (await prompts(gen, session))["change"], conversation=False)
        assert (files_in(tmp_path), len(done.restored)) == (before, 1)
        await gen.ask("go on", session=session).outcome()
        heard = [each for each in provider.requests[-1].messages if isinstance(each, UserMessage)]
        assert [each.sender for each in heard][-3:] == ["user", "system", "user"]
        assert str(tmp_path / "a.txt") in heard[-2].text


@pytest.mark.parametrize("what", ["edited", "deleted", "link", "folder", "between"])
async def test_what_somebody_else_changed_is_left_unless_they_say_so(tmp_path: Path, what: str) -> None:
    before, file, away = project(tmp_path), tmp_path / "a.txt", tmp_path / "away.txt"
    again = says("", call("Read", file_path="a.txt"))
    more = says("", call("Edit", file_path="a.txt", old_string="one", new_string="1"))
    main = [READ_ALL, EDITS, says("done"), again, more, says("done")]
    async with playing(tmp_path, main=main) as gen:
        session = await talk(gen, "change")
        if what == "edited":
            file.write_text("mine\n")
        elif what == "between":
            file.write_text(f"{file.read_text()}mine\n")
            await gen.ask("change more", session=session).outcome()
        else:
            file.rename(away)
        if what == "link":
            file.symlink_to(away)
        elif what == "folder":
            file.mkdir()
        theirs = files_in(tmp_path)
        at = (await prompts(gen, session))["change"]
        (shown,) = (await gen.preview_rewind(session, at)).files
        touchable = what not in ("link", "folder")
        assert shown.state == ("changed" if touchable else "blocked")
        done = await gen.rewind(session, at)
        assert (done.restored, done.left) == ((), (shown,))
        assert files_in(tmp_path) == theirs
        done = await gen.rewind(session, at, overwrite=True)
        assert bool(done.restored) is touchable
        assert file.is_symlink() is (what == "link")
        if touchable:
            assert file.read_bytes() == before["a.txt"]
            undo = (await gen.rewind_points(session))[-1]
            await gen.rewind(session, undo.to, overwrite=True)
            assert files_in(tmp_path) == theirs  # theirs is not lost


async def test_a_thousand_files_go_back(tmp_path: Path) -> None:
    made = [call("Write", file_path=f"many/{n}.txt", content=f"{n}\n") for n in range(1_000)]
    async with playing(tmp_path, main=[says("", *made), says("done")]) as gen:
        session = await talk(gen, "many")
        assert len(files_in(tmp_path)) == 1_000
        done = await gen.rewind(session, (await prompts(gen, session))["many"])
        assert (len(done.restored), files_in(tmp_path)) == (1_000, {})


async def test_content_that_could_not_be_kept_is_said_and_changes_go_on(tmp_path: Path, home: Path) -> None:
    project(tmp_path)
    outputs = home / ".gen" / "outputs"
    outputs.parent.mkdir(exist_ok=True)
    outputs.write_text("no folder can be made here, as on a full disk")
    async with playing(tmp_path, main=[READ_ALL, EDITS, says("done")]) as gen:
        session = await talk(gen, "change")
        changed = files_in(tmp_path)
        assert changed["a.txt"] == b"one\nthree\n"
        done = await gen.rewind(session, (await prompts(gen, session))["change"])
        assert [(each.state) for each in done.left] == ["lost"]
        assert files_in(tmp_path) == changed


async def test_content_that_was_tampered_with_is_not_put_back(tmp_path: Path, home: Path) -> None:
    project(tmp_path)
    async with playing(tmp_path, main=[READ_ALL, EDITS, says("done")]) as gen:
        session = await talk(gen, "change")
        kept = home / ".gen" / "outputs" / session / ".checkpoints"
        for each in kept.iterdir():
            assert each.stat().st_mode & 0o77 == 0
            each.write_text("evil")
        done = await gen.rewind(session, (await prompts(gen, session))["change"])
        assert [each.state for each in done.left] == ["lost"]
        await gen.delete(session)
        assert not kept.exists()


async def test_nothing_goes_back_while_agents_are_at_work(tmp_path: Path) -> None:
    slow = [says("", call("Glob", pattern="*")), says("late", delay_ms=3_600_000)]
    send = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    async with playing(tmp_path, main=[says("", send), says("started")], Explore=slow) as gen:
        job = await gen.start_turn("go")
        await until(lambda: any(each.task.parent == job.id for each in gen.running))
        with pytest.raises(Conflict):
            await gen.rewind(job.id, 3)
        with pytest.raises(UserMistake):
            await gen.preview_rewind(job.id, 1)
        await gen.stop(job.id, tree=True)


async def test_the_work_of_an_agent_in_a_worktree_is_listed_and_left(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo")
    child = [says("", call("Write", file_path="b.txt", content="b\n")), says("done")]
    send = call("Task", subagent_type="general-purpose", prompt="edit", isolation="worktree")
    async with playing(folder, main=[says("", send), says("done")], general_purpose=child) as gen:
        session = await talk(gen, "go")
        preview = await gen.preview_rewind(session, (await prompts(gen, session))["go"])
        (task,) = await gen.tasks(parent=session)
        assert ([each.id for each in preview.elsewhere], preview.files) == ([task.agent_id], ())


DIES = """
    import asyncio, sys
    from gencode import GenCode
    from gencode.core.events import FilesCheckpointed
    from gencode.providers.scripted import ScriptedProvider
    from gencode.testing import call, says

    async def main():
        read = says("", call("Read", file_path="a.txt"))
        change = {
            "write": call("Edit", file_path="a.txt", old_string="two", new_string="three"),
            "command": call("Bash", command="echo cut > a.txt; cat gate"),
        }[sys.argv[1]]
        settings = {"permission_mode": "dontAsk", "sandbox": "off"}
        script = ScriptedProvider.of({"main": [read, says("", change), says("done")]})
        async with GenCode.open(model=script, settings=settings) as gen:
            async for event in gen.ask("change"):
                if isinstance(event.fact, FilesCheckpointed):
                    print(event.task, flush=True)

    asyncio.run(main())
"""


def has_unnamed_file(process: int, folder: Path) -> bool:
    """Whether a process has a file open in a folder that has no name there."""
    handles = Path(f"/proc/{process}/fd")
    return any(os.path.realpath(each).startswith(f"{folder.resolve()}/#") for each in handles.iterdir())


@pytest.mark.parametrize("way", ["write", "command"])
async def test_a_kill_between_the_checkpoint_and_the_end_of_a_change_loses_nothing(
    tmp_path: Path, way: str
) -> None:
    before = project(tmp_path)
    os.mkfifo(tmp_path / "gate")
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # the change waits for it, after the content was kept
    command = (sys.executable, "-c", textwrap.dedent(DIES), way)
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    session = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    if way == "command":
        await until(lambda: (tmp_path / "a.txt").read_text() == "cut\n")
    else:  # the new content is written, and waits to take the place of the old one
        await until(lambda: has_unnamed_file(process.pid, tmp_path))
    process.send_signal(signal.SIGKILL)
    await process.wait()
    os.close(held)
    async with playing(tmp_path, main=[]) as gen:
        at = (await prompts(gen, session))["change"]
        files = (await gen.preview_rewind(session, at)).files
        if way == "command":  # nobody knows who changed it
            assert [each.state for each in files] == ["changed"]
            assert (await gen.preview_rewind(session, at)).commands == ("echo cut > a.txt; cat gate",)
            await gen.rewind(session, at, overwrite=True)
        else:
            assert files == ()
        assert files_in(tmp_path) == before


async def test_a_rewind_that_was_cut_is_done_by_the_next(tmp_path: Path) -> None:
    """Another writer holds one folder, so that one file cannot be put back in time."""
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("old\n")
    reads = says("", *(call("Read", file_path=f"{name}/a.txt") for name in "xy"))
    edits = says(
        "", *(call("Edit", file_path=f"{n}/a.txt", old_string="old", new_string="new") for n in "xy")
    )
    async with playing(tmp_path, main=[reads, edits, says("done")]) as gen:
        session = await talk(gen, "change")
        at = (await prompts(gen, session))["change"]
        held = os.open(tmp_path / "y", os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        done = await gen.rewind(session, at)
        assert (len(done.restored), len(done.problems)) == (1, 1)
        os.close(held)
        done = await gen.rewind(session, at)
        assert (len(done.restored), done.problems) == (1, ())
        assert {*files_in(tmp_path).values()} == {b"old\n"}


async def test_two_processes_do_not_rewind_at_once(tmp_path: Path) -> None:
    before = project(tmp_path)
    async with playing(tmp_path, main=[READ_ALL, EDITS, says("done")]) as gen:
        session = await talk(gen, "change")
        at = (await prompts(gen, session))["change"]
    words = (
        sys.executable,
        "-m",
        "gencode",
        "sessions",
        "rewind",
        session,
        "--to",
        str(at),
        "--yes",
        "--json",
    )
    both = [
        await asyncio.create_subprocess_exec(*words, cwd=tmp_path, stdout=subprocess.PIPE) for _ in range(2)
    ]
    await asyncio.gather(*(each.communicate() for each in both))
    assert all(each.returncode in (0, 2) for each in both)
    assert files_in(tmp_path) == before
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
