"""Workers that have not the folder of a task: they make a copy with git, and what was changed comes back."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.fleet.worker_workspace import LOST, told_copies
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.pg_fleet_status import fleet_status
from gencode.workspaces.worktrees.leftovers import find_leftovers
from tests.fleet.country import Country, call, detached, results, said, says, told
from tests.fleet.driving import ended
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import TEN, git

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]


@pytest.fixture(scope="module")
def country(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    made = Country(postgres, tmp_path_factory.mktemp("country"))
    made.settle("--concurrency", "4")
    yield made
    made.close()


async def test_a_reading_agent_sees_what_is_committed_what_is_not_and_what_is_new(country: Country) -> None:
    country.write(says(*(call("Read", file_path=name) for name in ("a.txt", "sub/b.txt", "c.txt", "d.log"))))
    (country.folder / "sub" / "b.txt").write_text("changed\n")
    (country.folder / "c.txt").write_text("new\n")
    (country.folder / "d.log").write_text("ignored\n")
    async with country.gen() as gen:
        outcome = await gen.task("Explore", "look", isolation="process")
        seen = await results(gen, outcome.agent_id)
        heard = await told(gen, outcome.agent_id)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "done")
    assert "9" in seen[0] and "changed" in seen[1] and "new" in seen[2] and "ignored" not in seen[3]
    assert f"a copy of {country.folder} that was made for you with git" in heard[1]
    (country.folder / "sub" / "b.txt").write_text("b\n")
    (country.folder / "c.txt").unlink()


async def test_what_a_writing_agent_changed_comes_back_into_the_files(country: Country) -> None:
    country.write(says(call("Write", file_path="made.txt", content="made\n")))
    async with country.gen() as gen:
        outcome = await gen.task("general-purpose", "write", isolation="process")
    assert outcome.status is Status.COMPLETED, outcome
    assert (country.folder / "made.txt").read_text() == "made\n"
    assert f"[Its changes are in the files of {country.folder} now.]" in outcome.result
    assert git(country.folder, "branch", "--format=%(refname:short)") == "main"
    (country.folder / "made.txt").unlink()


async def test_a_file_that_is_named_in_the_folder_of_the_sender_is_the_one_in_the_copy(
    country: Country,
) -> None:
    there, near = str(country.folder), str(country.folder.parent)
    kept = [
        call("Write", file_path=f"{there}/secret/new.txt", content="no\n"),
        call("Write", file_path="secret/new.txt", content="no\n"),
        call("Read", file_path=f"{there}/sub/../secret/new.txt"),
        call("Bash", command="cat secret/new.txt"),
    ]
    country.write(
        says(
            call("Read", file_path=f"{there}/sub/b.txt"),
            call("Write", file_path=f"{there}/sub/../named.txt", content="named\n"),
            call("Glob", pattern=f"{there}/*.txt"),
            call("Grep", pattern="named", path=there),
            call("LS", path=f"{there}/"),
            call("Read", file_path=f"{there}/../script.json"),
            *kept,
        )
    )
    rules = [f"Write({there}/secret/**)", f"Read({near}/*/secret/**)"]
    async with country.gen(permission_mode="dontAsk", deny=rules) as gen:
        [found] = await ended(gen, [await detached(gen)])
        seen = await results(gen, found.id)
        shared = components(gen).store
        assert isinstance(shared, FleetStore)
        back = await shared.snapshots.returned(found.id)
        assert back is not None and back[0].files == 1
        await shared.snapshots.taken(found.id, back[0].commit)
    assert "b" in seen[0] and seen[1].startswith("Created named.txt"), seen
    assert [text for text in seen[2:5] if "named.txt" not in text] == []
    assert "agents" in seen[5]
    assert [text for text in seen[6:] if "the rule" not in text] == [], seen[6:]
    assert "added named.txt +1 -0" in found.result
    assert not (country.folder / "named.txt").exists() and not (country.folder / "secret").exists()


async def test_an_agent_commits_in_its_copy_and_what_the_sender_had_not_committed_stays_so(
    country: Country,
) -> None:
    command = "git status --short && git commit --quiet --all --message Four && git log --format=%s"
    edit = call("Edit", file_path="a.txt", old_string="4\n", new_string="four\n")
    country.write(says(call("Read", file_path="a.txt"), edit, call("Bash", command=command)))
    (country.folder / "a.txt").write_text(TEN.replace("0\n", "zero\n"))
    (country.folder / "new.txt").write_text("new\n")
    async with country.gen(allow=["Bash(git *)"]) as gen:
        outcome = await gen.task("general-purpose", "commit", isolation="process")
        seen = await results(gen, outcome.agent_id)
    assert seen[-1].split() == ["M", "a.txt", "??", "new.txt", "Four", "a", "step"]
    assert "changed a.txt +1 -1" in outcome.result
    assert (country.folder / "a.txt").read_text() == TEN.replace("0\n", "zero\n").replace("4\n", "four\n")
    assert git(country.folder, "log", "--format=%s") == "a step"
    git(country.folder, "checkout", "--quiet", "a.txt")
    (country.folder / "new.txt").unlink()


async def test_a_task_that_waited_for_its_turn_goes_to_a_worker_too(country: Country) -> None:
    country.write(says(call("Read", file_path="a.txt"), delay=200))
    async with country.gen(max_agents=1) as gen:
        both = (gen.task("Explore", "look", isolation="process") for _ in range(2))
        found = await asyncio.gather(*both)
    assert [(each.status, each.result) for each in found] == [(Status.COMPLETED, "done")] * 2


async def test_what_conflicts_is_offered_as_a_branch_and_the_files_stay_as_they_are(country: Country) -> None:
    edit = call("Edit", file_path="a.txt", old_string="3\n", new_string="three\n")
    country.write(says(call("Read", file_path="a.txt"), edit, delay=700))
    mine = TEN.replace("3\n", "THREE\n")
    async with country.gen() as gen:
        work = asyncio.create_task(gen.task("general-purpose", "write", isolation="process"))
        await until(lambda: bool(country.owners()), "the worker is at it")
        (country.folder / "a.txt").write_text(mine)
        outcome = await work
    task = outcome.agent_id
    assert (country.folder / "a.txt").read_text() == mine
    assert f"[Its changes are on the branch gencode/{task} of {country.folder}" in outcome.result
    assert "They were not applied: a merge would conflict in: a.txt." in outcome.result
    assert git(country.folder, "show", f"gencode/{task}:a.txt") + "\n" == TEN.replace("3\n", "three\n")
    shown = typed("task", "merge", task, "--preview", cwd=country.folder, GEN_DATABASE_URL=country.url)
    way = f"To have it on the branch gencode/{task}, with the commands that merge it: gen task merge {task}"
    assert (shown.code, f"A merge would conflict in: a.txt.\n{way}\n" in shown.out) == (1, True)
    assert (country.folder / "a.txt").read_text() == mine
    (country.folder / "a.txt").write_text(TEN)
    taken = typed("task", "merge", task, cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert (taken.code, (country.folder / "a.txt").read_text()) == (0, TEN.replace("3\n", "three\n"))
    git(country.folder, "checkout", "--quiet", "a.txt")


async def test_what_nobody_waited_for_is_kept_until_a_person_takes_it_over(country: Country) -> None:
    country.write(says(call("Write", file_path="sub/late.bin", content="late\n")))
    async with country.gen() as gen:
        [found] = await ended(gen, [await detached(gen)])
    offered = f"To take it over, if that was not done yet: gen task merge {found.id}"
    assert (found.status, offered in found.result) == (Status.COMPLETED, True)
    assert not (country.folder / "sub" / "late.bin").exists()
    [listed] = [line for line in country.doctor() if found.id in line]
    assert listed.startswith(f"returned work: 1 file of {country.folder}, changed by task {found.id} on ")
    taken = typed("task", "merge", found.id, "--json", cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert (taken.code, taken.json["state"]) == (0, "applied")
    assert (country.folder / "sub" / "late.bin").read_text() == "late\n"
    assert found.id not in [work.task for work in (await fleet_status(country.url)).returned]
    async with country.gen() as gen:
        taken_over = (await gen.find(found.id)).result
        copied = (await gen.fork(found.id, "another way")).agent_id
        back = f"[You are back in the original folder, {country.folder}."
        assert any(text.startswith(back) for text in await told(gen, copied))
        await gen.resume(found.id, "more")
        assert any(text.startswith(back) for text in await told(gen, found.id))
    kept = found.result.replace(f"{offered}\n", "")
    assert taken_over == f"{kept}\n\n[Its changes are in the files of {country.folder} now.]"
    (country.folder / "sub" / "late.bin").unlink()


async def test_an_agent_that_is_woken_goes_on_from_what_it_did(country: Country) -> None:
    country.write(says(call("Write", file_path="one.txt", content="one\n")))
    async with country.gen() as gen:
        [found] = await ended(gen, [await detached(gen)])
        country.write({"*": [*said(call("Read", file_path="one.txt")), {"text": "again"}]})
        request = TaskRequest("", "again", resume=found.id, background=True)
        await gen.detach(request)
        await until(lambda: again(gen, found.id), "it has said more")
        seen = await results(gen, found.id)
        shared = components(gen).store
        assert isinstance(shared, FleetStore)
        back = await shared.snapshots.returned(found.id)
    assert "one" in seen[-1]
    assert back is not None and (back[0].files, back[0].taken) == (1, False)


@pytest.mark.parametrize(
    "first", [call("Write", file_path="two.txt", content="two\n"), call("Read", file_path="a.txt")]
)
async def test_a_task_is_woken_from_a_machine_that_has_not_its_folder(
    country: Country, tmp_path: Path, first: dict[str, Any]
) -> None:
    country.write(says(first))
    async with country.gen() as gen:
        [found] = await ended(gen, [await detached(gen)])
    country.write({"*": [*said(call("LS", path=".")), {"text": "again"}]})
    hidden = country.folder.rename(country.folder.parent / "hidden")
    named = {"database_url": country.url}
    try:
        async with GenCode.open(tmp_path, model=f"scripted:{country.script}", settings=named) as gen:
            with pytest.raises(UserMistake, match="is not on this machine"):
                await gen.resume(found.id, "again")
            with pytest.raises(UserMistake, match="is not on this machine; let a worker run the fork"):
                await gen.fork(found.id, "again")
            woken = (await gen.send(found.id, "again")).resumed
            await until(lambda: again(gen, found.id), "it has said more")
            seen = await results(gen, found.id)
    finally:
        hidden.rename(country.folder)
    assert (woken, "a.txt" in seen[-1], "two.txt" in seen[-1]) == (True, True, first["name"] == "Write")


async def again(gen: GenCode, task: str) -> bool:
    now = await gen.find(task)
    return now.status.ended and "again" in now.result


async def test_without_git_a_task_waits_for_a_worker_that_shares_its_folder(country: Country) -> None:
    plain = country.folder.parent / "plain"
    plain.mkdir()
    country.write(says())
    named = {"database_url": country.url}
    async with GenCode.open(plain, model=f"scripted:{country.script}", settings=named) as gen:
        task = await detached(gen)
        await asyncio.sleep(1.5)
        assert (await gen.find(task)).status is Status.PENDING
        [stuck] = (await fleet_status(country.url, 0)).stuck
        assert stuck.task == task
        assert stuck.missing_worker.why == (
            f"only a worker that shares its folder can run it, because {plain} is not in a git repository, "
            "and no running worker has it"
        )
        await gen.stop(task)


async def test_an_order_with_a_hostile_folder_runs_nothing_and_ends_with_a_sentence(
    country: Country, tmp_path: Path
) -> None:
    store = await FleetStore.open(country.url)

    async def nowhere(_connection: object, _task: str) -> None:
        """Only the worker's own look at what is overdue finds it."""

    proof = tmp_path / "proof"
    commit_id, key = "1" * 40, "2" * 40
    snapshots: list[dict[str, Any]] = [
        {"remote": f"ext::sh -c touch% {proof}", "known": [commit_id]},
        {"remote": f"--upload-pack=touch {proof}", "known": [commit_id]},
        {"remote": f"ssh://-oProxyCommand=touch {proof}/x", "known": [commit_id]},
        {"below": "../../.."},
        {"packs": ["../../etc/passwd"]},
        {"tip": "--output=x"},
    ]
    created = TaskCreated(agent="Explore", prompt="look", cwd="/nowhere")
    made = {"agent": "Explore", "cwd": "/nowhere"}
    handover = {"model": f"scripted:{country.script}", "created": made}
    tasks: list[str] = []
    for snapshot in snapshots:
        whole = {"key": key, "tip": commit_id, **snapshot}
        order = {"handover": handover, "cwd": "/nowhere", "mark": "x", "parcel": whole}
        tasks.append(await store.submit(created, json.dumps(order).encode(), nowhere))
    long_ago = "UPDATE gen_task SET dispatched_at = now() - interval '1 hour' WHERE cwd = '/nowhere'"
    await store.link.fetch(long_ago)
    async with country.gen() as gen:
        found = await ended(gen, tasks)
    await store.close()
    assert [task.status for task in found] == [Status.FAILED] * len(snapshots)
    assert all(str(task.end.error).startswith("its folder ") for task in found), [
        task.end.error for task in found
    ]
    assert not proof.exists()


async def test_when_a_worker_dies_another_one_goes_on_in_a_copy_of_its_own(country: Country) -> None:
    country.settle()
    country.write(says(*four("dead"), delay=300))
    async with country.gen() as gen:
        task = await detached(gen)
        await until(lambda: written(gen, task), "something is written")
        victim = country.at(task)
        victim.send(signal.SIGKILL)
        [found] = await ended(gen, [task])
        heard = await told(gen, task)
        [first, _] = told_copies(transcript_of(await gen.history.events(task)))
    assert found.status is Status.COMPLETED
    [anew] = [text for text in heard if text.startswith("[You continue on another machine.")]
    assert str(victim.log) not in anew and "your earlier file changes are not in it" in anew
    assert "added dead3.txt +1 -0" in found.result
    left = await find_leftovers(victim.log)
    assert [(each.away, bool(each.changed)) for each in left] == [(True, True)]
    assert first.path.startswith(str(left[0].path)), (first, left)
    assert [each for each in found.evidence.warnings if "lost" in each] == [LOST.format(copy=first)]


async def test_a_worker_that_is_told_to_end_at_once_hands_over_what_was_done(country: Country) -> None:
    country.settle()
    country.write(says(*four("told"), delay=300))
    async with country.gen() as gen:
        task = await detached(gen)
        await until(lambda: written(gen, task), "something is written")
        leaver = country.at(task)
        leaver.send(signal.SIGTERM)
        leaver.send(signal.SIGINT)
        [found] = await ended(gen, [task])
        heard = await told(gen, task)
    assert found.status is Status.COMPLETED
    [moved] = [text for text in heard if text.startswith("[You continue on another machine.")]
    assert "with your earlier file changes" in moved
    assert [line for line in found.result.splitlines() if line.startswith("added")] == [
        f"added told{n}.txt +1 -0" for n in range(4)
    ]
    assert not [each for each in found.evidence.warnings if "lost" in each]
    async with country.gen() as gen:
        await components(gen).store.delete(task)
    taken = typed("task", "merge", task, cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert (taken.code, (country.folder / "told3.txt").read_text()) == (0, "3\n")


def four(name: str) -> list[dict[str, Any]]:
    return [call("Write", file_path=f"{name}{n}.txt", content=f"{n}\n") for n in range(4)]


async def written(gen: GenCode, task: str) -> bool:
    return bool(await results(gen, task))
