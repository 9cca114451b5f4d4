"""Names of the sender's folder on a worker: in commands, and for agents that are sent on from there.

Those get a copy of the copy; one worker is enough for both.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gencode.app import components
from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskCreated
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.fleet.worker_folder import ForwardingEngine, WorkerOptions
from gencode.journal.dispatch import Handover
from gencode.journal.store import TaskQuery
from gencode.sandbox.choose_sandbox import best_sandbox
from gencode.stores.pg_fleet import FleetStore
from gencode.testing import reported
from tests.fleet.country import Country, call, detached, results, says, told
from tests.fleet.driving import Fleet, Process, ended
from tests.postgres import Postgres
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]

TOOLS = "Read, Write, Bash, Task(general-purpose)"
MASON = {"mason": {"description": "Sends others.", "prompt": "Work.", "tools": TOOLS.split(", ")}}

SEND = {
    "name": "Task",
    "input": {
        "subagent_type": "general-purpose",
        "description": "build",
        "prompt": "build",
        "isolation": "process",
    },
}


def worker_of(folder: Path, url: str, *options: str) -> Process:
    """A worker for one task at a time, with an agent that may send others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEN_MAX_DEPTH", "2")
        worker = Process(folder, url, "--concurrency", "1", *options, agent="mason")
    text = f"---\nname: mason\ndescription: Sends others.\ntools: {TOOLS}\n---\nWork.\n"
    (worker.log / "agents" / "mason.md").write_text(text)
    return worker.ready()


@pytest.fixture(scope="module")
def country(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    made = Country(postgres, tmp_path_factory.mktemp("country"))
    made.workers.append(worker_of(made.far, made.url))
    yield made
    made.close()


async def children(store: object, parent: str) -> list[Task]:
    assert isinstance(store, FleetStore)
    return await store.tasks(TaskQuery(parent=parent))


@pytest.mark.needs("bwrap")
async def test_a_command_finds_the_copy_at_the_name_of_the_folder_that_was_sent(country: Country) -> None:
    if not best_sandbox().supports_aliases:
        pytest.skip("bubblewrap does not work here")
    there = str(country.folder)
    deny = ["Read(secret/**)", f"Write({there}/kept/**)"]
    commands = [
        f"cat {there}/sub/b.txt && echo named > {there}/by-name.txt && cat by-name.txt",
        f"git -C {there} rev-parse --show-toplevel",
        f"echo no > {there}/.git/hooks/post-commit",
        f"cat {there}/secret/a",
        f"cat {there}/sub/../secret/a",
        f"cp sub/b.txt {there}/kept/b.txt",
        "cp sub/b.txt kept/b.txt",
    ]
    country.write(says(*(call("Bash", command=command) for command in commands)))
    async with country.gen(permission_mode="dontAsk", deny=deny) as gen:
        [found] = await ended(gen, [await detached(gen)])
        seen = await results(gen, found.id)
        heard = await told(gen, found.id)
        shared = components(gen).store
        assert isinstance(shared, FleetStore)
        back = await shared.snapshots.returned(found.id)
        assert back is not None and back[0].files == 1
        await shared.snapshots.taken(found.id, back[0].commit)
    assert f"{there}/" in heard[1]
    assert [text.splitlines()[0] for text in seen[:2]] == ["b", there]
    assert "Read-only file system" in seen[2]
    assert [text for text in seen[3:] if "the rule" not in text] == []
    assert "added by-name.txt +1 -0" in found.result
    assert not (country.folder / "by-name.txt").exists()


async def test_what_an_agent_of_an_agent_changed_comes_home_and_every_name_and_rule_reaches_it(
    country: Country,
) -> None:
    there = str(country.folder)
    country.write(
        {
            "mason": [
                {"calls": [call("Write", file_path="first.txt", content="first\n")]},
                {"calls": [SEND]},
                {"calls": [call("Read", file_path=f"{there}/second.txt")]},
                {"text": "done"},
            ],
            "general-purpose": [
                {"calls": [call("Read", file_path=f"{there}/first.txt")]},
                {"calls": [call("Write", file_path=f"{there}/second.txt", content="second\n")]},
                {"calls": [call("Write", file_path=f"{there}/kept/no.txt", content="no\n")]},
                {"calls": [call("Write", file_path="kept/no.txt", content="no\n")]},
                {"text": "built"},
            ],
        }
    )
    async with country.gen(deny=[f"Write({there}/kept/**)"], agents=MASON) as gen:
        task = (await gen.detach(TaskRequest("mason", "work"))).agent_id
        [found] = await ended(gen, [task])
        seen = await results(gen, found.id)
        [child] = await children(components(gen).store, found.id)
        below = await results(gen, child.id)
        heard = await told(gen, child.id)
        shared = components(gen).store
        assert isinstance(shared, FleetStore)
        back = await shared.snapshots.returned(found.id)
        sent = await shared.snapshots.returned(child.id)
    assert (found.status, child.status) == (Status.COMPLETED, Status.COMPLETED), (found, child)
    assert "first" in below[0] and below[1].startswith("Created")
    assert ["the rule" in text for text in below[2:]] == [True, True]
    assert "second" in seen[-1] and "[Its changes are in the files of " in seen[1]
    assert back is not None and back[0].files == 2
    assert sent is not None and sent[0].snapshot.key == back[0].snapshot.key
    assert [each.folder for each in sent[0].snapshot.earlier] == [there]
    assert f"{child.cwd}/ or {there}/" in heard[1]


async def test_in_a_shared_folder_one_worker_runs_both(postgres: Postgres, tmp_path: Path) -> None:
    fleet = Fleet(postgres, tmp_path / "shared")
    try:
        fleet.workers.append(worker_of(fleet.folder, fleet.url))
        fleet.write(
            {
                "mason": [
                    {"calls": [SEND]},
                    {"calls": [call("Read", file_path="made.txt")]},
                    {"text": "done"},
                ],
                "general-purpose": [
                    {"calls": [call("Write", file_path="made.txt", content="made\n")]},
                    {"text": "built"},
                ],
            }
        )
        async with fleet.open(agents=MASON, permission_mode="acceptEdits") as gen:
            [found] = await ended(gen, [(await gen.detach(TaskRequest("mason", "work"))).agent_id])
            seen = await results(gen, found.id)
        assert (found.status, found.result) == (Status.COMPLETED, "done"), found
        assert (reported(seen[0]), "made" in seen[1]) == ("built", True)
    finally:
        fleet.close()


async def test_who_waits_under_a_cap_sends_nobody_that_has_one(postgres: Postgres, tmp_path: Path) -> None:
    store = await FleetStore.open(postgres.new_schema())
    try:
        first = (await store.create(TaskCreated(agent="Mason", prompt="x"), "me")).task
        second = (await store.create(TaskCreated(agent="free", prompt="x", parent=first), "me")).task
        shape = WorkerOptions(1, tmp_path, tmp_path, caps={"mason": 2, "painter": 3})
        onward = ForwardingEngine(store, shape, str(tmp_path), {})
        sent = TaskCreated(agent="painter", prompt="x", parent=second)
        with pytest.raises(UserMistake, match="painter cannot be sent to other workers from here: it has"):
            await onward.start(Handover(model="m", created=sent, bound=True))
    finally:
        await store.close()


async def test_who_is_sent_below_tasks_that_go_round_in_circles_is_sent_on(
    postgres: Postgres, tmp_path: Path
) -> None:
    store = await FleetStore.open(postgres.new_schema())
    try:
        for name, above in (("a" * 8, "b" * 8), ("b" * 8, "a" * 8)):
            fact = TaskCreated(agent="free", prompt="x", parent=above)
            await store.adopt([Event(name, 1, "2026-01-01T00:00:00.000Z", fact)])
        onward = ForwardingEngine(
            store, WorkerOptions(1, tmp_path, tmp_path, caps={"painter": 3}), str(tmp_path), {}
        )
        sent = TaskCreated(agent="painter", prompt="x", parent="a" * 8, cwd=str(tmp_path))
        async with asyncio.timeout(PATIENCE):
            away = await onward.start(Handover(model="m", created=sent))
        queued = await store.task(away.task)
    finally:
        await store.close()
    assert queued is not None and (queued.agent, queued.parent) == ("painter", "a" * 8)
