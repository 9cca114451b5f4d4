"""An agent that goes on knows which files it had read, in whatever process, and what became of them."""

from pathlib import Path

import pytest

from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import Turns, call, says, scripted
from tests.interfaces.cli.running import gen, script
from tests.tasks.autonomous_agent import AUTONOMOUS, NOTE
from tests.tasks.words import numbered, results, said

READ = says("", call("Read", file_path="a.txt"))
EDIT = says("", call("Edit", file_path="a.txt", old_string="one", new_string="two"))
BACK = says("", call("Edit", file_path="a.txt", old_string="two", new_string="one"))
WRITE = says("", call("Write", file_path="a.txt", content="mine\n"))
SEND = says("", call("Task", subagent_type="kid", prompt="go"))
END = says("ok")
CHANGED = "a.txt changed since it was read (by the agent kid, task {task}); Read it again first."


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """A folder with a file, and an agent that may change it."""
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    (agents / "kid.md").write_text(
        "---\nname: kid\ndescription: kid\ntools: Bash, Read, Edit, Write, move_file, delete_file\n---\nGo.\n"
    )
    (tmp_path / "a.txt").write_text("one\n")
    return tmp_path


async def talked(folder: Path, store: MemoryStore, session: str | None, main: Turns, kid: Turns = ()) -> str:
    """A conversation after another turn of it, in an opening of its own as in a process of its own."""
    begun = scripted(folder, settings=AUTONOMOUS, store=store, main=main, kid=kid or [END])
    async with begun as opened:
        return (await opened.ask("go", session=session).outcome()).agent_id


async def last_results(folder: Path, store: MemoryStore, task: str) -> list[str]:
    async with scripted(folder, store=store) as opened:
        return results(await said(opened, task))[1:]


async def test_a_conversation_that_goes_on_elsewhere_is_told_which_files_it_had_read_have_changed(
    folder: Path,
) -> None:
    store = numbered()
    session = await talked(folder, store, None, [READ, END])
    await talked(folder, store, session, [END, END, SEND, EDIT, END], [READ, EDIT, says("edited")])
    by = "the agent kid, task 00000002"
    assert await last_results(folder, store, session) == [
        f"edited{NOTE.format(by=by)}",
        CHANGED.format(task="00000002"),
    ]


async def test_what_was_changed_while_it_was_at_rest_is_refused_with_its_author(folder: Path) -> None:
    store = numbered()
    session = await talked(folder, store, None, [READ, END])
    async with scripted(folder, settings=AUTONOMOUS, store=store, kid=[READ, EDIT, END]) as other:
        assert (await other.task("kid", "go")).status is Status.COMPLETED
    await talked(folder, store, session, [END, END, WRITE, END])
    assert await last_results(folder, store, session) == [CHANGED.format(task="00000002")]
    assert (folder / "a.txt").read_text() == "two\n"


async def test_what_nobody_changed_since_need_not_be_read_again(folder: Path) -> None:
    store = numbered()
    session = await talked(folder, store, None, [READ, END])
    (folder / "a.txt").touch()  # other times, and the same content
    await talked(folder, store, session, [END, END, EDIT, END])
    await talked(folder, store, session, [END, END, END, END, BACK, END])
    assert [text.partition("\n")[0] for text in await last_results(folder, store, session)] == [
        "Edited a.txt: 1 place changed.",
        "Edited a.txt: 1 place changed.",
    ]


async def test_an_agent_that_is_resumed_or_forked_knows_its_files_too(folder: Path) -> None:
    async with scripted(
        folder, settings=AUTONOMOUS, store=numbered(), kid=[READ, END, EDIT, END, BACK, END]
    ) as opened:
        first = await opened.task("kid", "read")
        fork = await opened.fork(first.agent_id, "edit")
        assert results(await said(opened, fork.agent_id))[-1].startswith("Edited a.txt")
        await opened.resume(first.agent_id, "edit")
        assert results(await said(opened, first.agent_id))[-1] == CHANGED.format(task=fork.agent_id)
        await opened.resume(fork.agent_id, "edit back")
        assert results(await said(opened, fork.agent_id))[-1].startswith("Edited a.txt")


async def test_later_turns_and_tasks_of_one_process_know_who_changed_a_file(folder: Path) -> None:
    bash = says("", call("Bash", command="echo more >> a.txt"))
    main = [READ, END, SEND, EDIT, END]
    async with scripted(folder, settings=AUTONOMOUS, store=numbered(), main=main, kid=[bash, END]) as opened:
        session = (await opened.ask("read").outcome()).agent_id
        await opened.ask("send", session=session).outcome()
        assert results(await said(opened, session))[1:] == [
            f"ok{NOTE.format(by='the agent kid, task 00000002')}",
            CHANGED.format(task="00000002"),
        ]


async def test_who_was_led_elsewhere_in_between_knows_what_it_did_there(folder: Path) -> None:
    store = numbered()
    async with scripted(
        folder, settings=AUTONOMOUS, store=store, main=[READ, END, END, END, BACK, END]
    ) as one:
        session = (await one.ask("read").outcome()).agent_id
        await talked(folder, store, session, [END, END, EDIT, END])
        await one.ask("edit back", session=session).outcome()
        assert results(await said(one, session))[-1].startswith("Edited a.txt")


async def test_a_file_that_it_only_moved_or_that_is_new_is_as_unread_as_before(folder: Path) -> None:
    move = says("", call("move_file", **{"from": "a.txt", "to": "b.txt"}))
    over = says("", call("Write", file_path="b.txt", content="mine\n"))
    async with scripted(folder, settings=AUTONOMOUS, store=numbered(), kid=[move, END, over, END]) as opened:
        first = await opened.task("kid", "move")
        await opened.resume(first.agent_id, "write")
        assert results(await said(opened, first.agent_id))[-1] == (
            "b.txt exists and was not read in this task; Read it first, then change it."
        )
        assert (folder / "b.txt").read_text() == "one\n"


async def test_a_file_that_it_read_and_moved_is_known_under_its_new_name_only(
    folder: Path,
) -> None:
    move = says("", call("move_file", **{"from": "a.txt", "to": "b.txt"}))
    over = says("", call("Write", file_path="b.txt", content="mine\n"))
    async with scripted(
        folder, settings=AUTONOMOUS, store=numbered(), kid=[READ, move, END, over, WRITE, END]
    ) as opened:
        first = await opened.task("kid", "move")
        (folder / "a.txt").write_text("by somebody else\n")
        await opened.resume(first.agent_id, "write")
        assert results(await said(opened, first.agent_id))[2:] == [
            "Replaced b.txt: 1 line, 5 bytes.",
            "a.txt exists and was not read in this task; Read it first, then change it.",
        ]


async def test_a_file_too_large_to_be_hashed_is_known_by_its_state(folder: Path) -> None:
    large = folder / "a.txt"
    large.write_text("one\n" * 600_000)
    async with scripted(folder, settings=AUTONOMOUS, store=numbered(), kid=[READ, END, WRITE, END]) as opened:
        same, other = [await opened.task("kid", f"read {number}") for number in range(2)]
        await opened.resume(same.agent_id, "write")
        assert results(await said(opened, same.agent_id))[-1].startswith("Replaced a.txt")
        large.write_text("two\n" * 600_000)
        await opened.resume(other.agent_id, "write")
        assert results(await said(opened, other.agent_id))[-1] == (
            "a.txt changed since it was read; Read it again first."
        )


async def test_what_a_file_claims_that_was_imported_counts_for_nothing(folder: Path) -> None:
    async with scripted(folder, settings=AUTONOMOUS, store=numbered(), kid=[READ, END]) as opened:
        facts = await opened.export((await opened.task("kid", "read")).agent_id)
    turns = [READ, END, WRITE, END]
    async with scripted(folder, settings=AUTONOMOUS, store=MemoryStore(), kid=turns) as opened:
        task = (await opened.take_in(facts)).outcome.agent_id
        await opened.resume(task, "write")
        assert results(await said(opened, task))[-1] == (
            "a.txt exists and was not read in this task; Read it first, then change it."
        )


def test_another_process_knows_what_was_read_in_the_first(folder: Path) -> None:
    words = ("--permission-mode", "dontAsk", "--json", "--model")
    first = gen("-p", "read", *words, script(folder, main=[READ, END]), cwd=folder).json["sessionId"]
    model = script(folder, main=[END, END, WRITE, END])
    gen("-p", "write", "--session", first, *words, model, cwd=folder)
    assert (folder / "a.txt").read_text() == "mine\n"
    (folder / "a.txt").write_text("by a person\n")
    model = script(folder, main=[END, END, END, END, WRITE, END])
    gen("-p", "write", "--session", first, *words, model, cwd=folder)
    assert (folder / "a.txt").read_text() == "by a person\n"
