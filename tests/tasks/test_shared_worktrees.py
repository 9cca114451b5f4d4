"""A worktree is also that of the agents that its agent sends: who ends last there commits all changes."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from asyncio.subprocess import PIPE
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.events import ChangesMoved
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.tasks.leave_worktree import current_result
from gencode.tasks.task_folders import TaskFolder
from gencode.testing import call, says
from gencode.workspaces.worktrees.leftovers import find_leftovers
from gencode.workspaces.worktrees.worktree import worktree_lock
from tests.tasks.repository import git, repository
from tests.tasks.words import heard, said
from tests.waiting import Gate, until

pytestmark = pytest.mark.needs("git")

BOSS = "tools: LS, Read, Write, Edit, Bash, Task(kid, lead)\nisolation: worktree"
FREE = {"permission_mode": "dontAsk", "max_depth": 3}
SLOW = says("never said", delay_ms=600_000)


class Yard:
    """A repository, agents that work in it, and a gate at which a kid waits after it has looked around."""

    def __init__(self, tmp_path: Path, home: Path) -> None:
        self.folder, self.home = repository(tmp_path / "project"), home
        self._tmp, self._gate = tmp_path, Gate(tmp_path)
        self.waits = call("Bash", command=f"cat {tmp_path / 'gate'}")

    def agent(self, name: str, says: str = "tools: LS, Read, Write, Edit, Bash, Task(kid)") -> None:
        path = self.home / ".gen" / "agents" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: d\n{says}\n---\nDo it.\n")

    def model(self, **agents: list[dict[str, Any]]) -> str:
        """A script in a file, so that other processes can play it, too; the kid edits after the gate."""
        edits = call("Edit", file_path="a.txt", old_string="one", new_string="two")
        kid = [
            says("", call("Read", file_path="a.txt")),
            says("", self.waits),
            says("", edits),
            says("edited"),
        ]
        path = self._tmp / "script.json"
        path.write_text(json.dumps({"agents": {"kid": kid, **agents}}))
        return f"scripted:{path}"

    async def opened(self) -> None:
        await until(self._gate.opened, "the kid is at the gate")


@pytest.fixture
def yard(tmp_path: Path, home: Path) -> Yard:
    made = Yard(tmp_path, home)
    made.agent("boss", BOSS)
    made.agent("kid")
    return made


def sends(agent: str = "kid", **more: Any) -> dict[str, Any]:
    return says("", call("Task", subagent_type=agent, prompt="go", run_in_background=True, **more))


async def kid_of(gen: GenCode, boss: str) -> str:
    """The task that a task has sent, once that has looked around."""

    async def begun() -> bool:
        return any(each.turns > 1 for each in await gen.tasks(parent=boss))

    await until(begun, "the kid is at work")
    return (await gen.tasks(parent=boss))[0].agent_id


async def noted(gen: GenCode, boss: str) -> Task:
    """A task with what became of its worktree, which the last one there writes down after its own end."""

    async def written() -> bool:
        return any(isinstance(event.fact, ChangesMoved) for event in await gen.history.events(boss))

    await until(written, "the last one has noted what it left")
    return await gen.find(boss)


def branches(folder: Path) -> str:
    return git(folder, "branch", "--list", "gencode/*")


@pytest.mark.parametrize("apart", ["", "process"])
@pytest.mark.parametrize("how", ["stop", "keep", "turns"])
async def test_it_is_there_until_the_last_one_in_it_has_ended_who_tells_what_was_changed(
    yard: Yard, how: str, apart: str
) -> None:
    more = {"isolation": apart} if apart else {}
    model = yard.model(boss=[sends(**more), SLOW if how == "stop" else says("so far", delay_ms=500), SLOW])
    if how == "turns":
        yard.agent("boss", f"{BOSS}\nmax-turns: 1")
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        kid = await kid_of(gen, boss)
        if how != "turns":
            await gen.stop(boss, keep=how == "keep")
        first = await gen.history.ended(boss, 60)
        still = await current_result(first, components(gen).store)
        await yard.opened()
        last, then = await gen.history.ended(kid, 60), await noted(gen, boss)
    in_use = (
        f"[Task {kid} of kid is still at work in its worktree. When the last task there has ended, the "
        f"changes are committed and reported with the result of task {boss}.]"
    )
    words = "" if how == "stop" else "so far\n\n"
    assert (first.result, still) == (f"{words}{in_use}", f"{words}{in_use}")
    assert (last.status, git(yard.folder, "show", f"gencode/{boss}:a.txt")) == (Status.COMPLETED, "two")
    tree = first.created.worktree
    told = f"[Its changes are on the branch gencode/{boss}, in {tree}, and not in your checkout.]"
    was_last = f"[It was the last task at work in the worktree of task {boss}.]"
    assert last.result.startswith(f"edited\n\n{was_last}\n{told}\nchanged a.txt +1 -1\n")
    before, _, after = then.result.partition("[The last task at work in its worktree has ended: ")
    assert (before.strip(), after.startswith(f"task {kid} of kid.]\n{told}\n")) == (words.strip(), True)
    assert after.endswith("-one\n+two\n```")


async def test_one_in_which_nobody_changed_anything_is_removed_by_the_last_one(yard: Yard) -> None:
    kid = [says("", yard.waits), says("seen")]
    async with GenCode.open(
        yard.folder, model=yard.model(boss=[sends(), SLOW], kid=kid), settings=FREE
    ) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        await until(lambda: _sent(gen, boss), "the kid is sent")
        await gen.stop(boss)
        there = branches(yard.folder)
        await yard.opened()
        (sent,) = await gen.tasks(parent=boss)
        last = await gen.history.ended(sent.agent_id, 60)
    assert there == f"+ gencode/{boss}"
    removed = "[It changed no file in its worktree, which was removed.]"
    assert last.result == f"seen\n\n[It was the last task at work in the worktree of task {boss}.]\n{removed}"
    assert (branches(yard.folder), len(git(yard.folder, "worktree", "list").splitlines())) == ("", 1)


async def _sent(gen: GenCode, boss: str) -> bool:
    return bool(await gen.tasks(parent=boss))


async def test_an_agent_goes_on_in_it_beside_one_that_it_had_sent(yard: Yard) -> None:
    writes = says("", call("Write", file_path="new.txt", content="mine\n"))
    model = yard.model(boss=[sends(), says("so far", delay_ms=500), writes, says("written"), says("all")])
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        kid = await kid_of(gen, boss)
        await gen.stop(boss, keep=True)
        going_on = asyncio.ensure_future(gen.resume(boss, "write"))
        worktree = Path((await gen.find(boss)).created.worktree)
        await until((worktree / "new.txt").exists)
        await yard.opened()
        outcome = await asyncio.wait_for(going_on, 60)
        last = await gen.find(kid)
    assert (outcome.status, last.status, last.result) == (Status.COMPLETED, Status.COMPLETED, "edited")
    assert "changed a.txt +1 -1\nadded new.txt +1 -0\n" in outcome.result
    assert outcome.result.count("[") == 1


async def test_who_goes_on_while_the_last_one_removes_it_gets_one_that_is_made_anew(yard: Yard) -> None:
    model = yard.model(boss=[sends(), says("so far", delay_ms=500), says("on"), says("and on")])
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        await kid_of(gen, boss)
        await gen.stop(boss, keep=True)
        async with worktree_lock(Path((await gen.find(boss)).created.worktree)) as tree:
            assert tree is not None
            going_on = asyncio.ensure_future(gen.resume(boss, "go on", background=True))
            begun, _ = await asyncio.wait([going_on], timeout=0.5)
            await TaskFolder(tree).summary()
            there = tree.path.exists()
        await asyncio.wait_for(going_on, 60)
        told = [each.text for each in heard(await said(gen, boss))]
        assert (begun, there, tree.path.exists()) == (set(), False, True)
    assert any("new git worktree" in text for text in told)


async def test_one_below_one_below_it_is_the_last_one_too(yard: Yard) -> None:
    yard.agent("lead")
    model = yard.model(boss=[sends("lead"), SLOW], lead=[sends(), SLOW])
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        await until(lambda: _sent(gen, boss), "the lead is sent")
        (lead,) = [each.agent_id for each in await gen.tasks(parent=boss)]
        kid = await kid_of(gen, lead)
        await gen.stop(boss)
        await gen.stop(lead)
        between = await gen.find(lead)
        await yard.opened()
        last, then = await gen.history.ended(kid, 60), await noted(gen, boss)
    assert between.result.startswith(f"[Task {kid} of kid is still at work in the worktree of task {boss}. ")
    assert ("-one\n+two" in last.result, "-one\n+two" in then.result) == (True, True)
    assert git(yard.folder, "show", f"gencode/{boss}:a.txt") == "two"


async def test_one_from_which_another_was_made_is_there_while_somebody_is_in_that(yard: Yard) -> None:
    model = yard.model(boss=[sends(isolation="worktree"), SLOW])
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        kid = await kid_of(gen, boss)
        await gen.stop(boss)
        first = await gen.find(boss)
        await yard.opened()
        last = await gen.history.ended(kid, 60)
    assert f"Task {kid} of kid is still at work in its worktree" in first.result
    assert f"[Its changes are on the branch gencode/{kid}, in {last.created.worktree}, " in last.result
    assert git(yard.folder, "show", f"gencode/{kid}:a.txt") == "two"


async def test_one_is_kept_while_another_one_that_was_made_from_it_has_work(yard: Yard) -> None:
    send = says("", call("Task", subagent_type="kid", prompt="go", isolation="worktree"))
    kid = [says("", call("Write", file_path="new.txt", content="kid\n")), says("written")]
    model = yard.model(boss=[send, says("sent")], kid=kid)
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        outcome = await gen.task("boss", "go")
        (sent,) = await gen.tasks(parent=outcome.agent_id)
        boss, work = await gen.find(outcome.agent_id), await gen.find(sent.agent_id)
    of_kid = work.created.worktree
    nothing = f"[There are no changes on its branch gencode/{boss.id}; others were made from it: {of_kid}; "
    assert outcome.result == f"sent\n\n{nothing}it is kept: {boss.created.worktree}.]"
    left = {Path(each.path).name: each for each in await find_leftovers(yard.home / ".gen")}
    assert (left[work.id].gone, left[work.id].repository) == (False, boss.created.worktree)
    git(Path(boss.created.worktree), "merge", "-q", f"gencode/{work.id}")
    assert git(yard.folder, "show", f"gencode/{boss.id}:new.txt") == "kid"


async def test_who_changed_a_file_in_it_is_known_to_those_it_sends_also_in_other_processes(
    yard: Yard,
) -> None:
    """Its own task belongs to the folder that the worktree was made from."""
    boss = [says("", call("Write", file_path="sub/new.txt", content="boss\n")), says("written")]
    async with GenCode.open(yard.folder, model=yard.model(boss=boss), settings=FREE) as gen:
        outcome = await gen.task("boss", "go")
        worktree, digest = (await gen.find(outcome.agent_id)).created.worktree, sha256(b"boss\n").hexdigest()
        known = await components(gen).tasks.watcher.author(worktree, "sub/new.txt", digest, None)
        its_own = await components(gen).tasks.watcher.author(
            worktree, "sub/new.txt", digest, outcome.agent_id
        )
    assert (known, its_own) == (f"the agent boss, task {outcome.agent_id}", "")


async def test_who_is_stopped_with_all_below_it_tells_what_these_had_changed(yard: Yard) -> None:
    kid = [says("", call("Write", file_path="new.txt", content="kid\n")), says("", yard.waits)]
    async with GenCode.open(
        yard.folder, model=yard.model(boss=[sends(), SLOW], kid=kid), settings=FREE
    ) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        await kid_of(gen, boss)
        await gen.stop(boss, tree=True)
        stopped = await gen.find(boss)
    assert "added new.txt +1 -0" in stopped.result
    assert git(yard.folder, "show", f"gencode/{boss}:new.txt") == "kid"


DIES = """
    import asyncio, sys
    from gencode import GenCode

    async def main():
        free = {"permission_mode": "dontAsk", "max_depth": 3}
        async with GenCode.open(model=sys.argv[1], settings=free) as gen:
            print((await gen.task("boss", "go", background=True)).id, flush=True)
            await asyncio.sleep(600)

    asyncio.run(main())
"""


@pytest.mark.parametrize("apart", ["", "process"])
async def test_after_a_kill_nothing_is_lost_and_the_output_tells_of_it(yard: Yard, apart: str) -> None:
    more = {"isolation": apart} if apart else {}
    kid = [says("", call("Write", file_path="new.txt", content="kid\n")), SLOW]
    model = yard.model(boss=[sends(**more), SLOW], kid=kid)
    command = (sys.executable, "-c", textwrap.dedent(DIES), model)
    process = await asyncio.create_subprocess_exec(*command, cwd=yard.folder, stdout=PIPE)
    assert process.stdout is not None
    boss = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        worktree = Path((await gen.find(boss)).created.worktree)
        await until((worktree / "new.txt").exists)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        (sent,) = await gen.tasks(parent=boss)
        last = await gen.history.ended(sent.agent_id, 60)
        told = await current_result(await gen.history.ended(boss, 60), components(gen).store)
    assert last.status is (Status.CANCELLED if apart else Status.INTERRUPTED), last
    assert (worktree / "new.txt").read_text() == "kid\n"
    assert f"[It was interrupted. What it had changed, 1 file, is on the branch gencode/{boss}, in " in told
    assert ("partly uncommitted" in told) == (not apart), last


async def test_where_the_last_one_is_killed_the_output_of_the_first_tells_what_is_there(yard: Yard) -> None:
    kid = [says("", call("Write", file_path="new.txt", content="kid\n")), SLOW]
    model = yard.model(boss=[sends(isolation="process"), SLOW], kid=kid)
    async with GenCode.open(yard.folder, model=model, settings=FREE) as gen:
        boss = (await gen.task("boss", "go", background=True)).id
        task = await kid_of_process(gen, boss)
        worktree = Path((await gen.find(boss)).created.worktree)
        await until((worktree / "new.txt").exists)
        await gen.stop(boss)
        (owner,) = [held.owner for held in await components(gen).store.owned() if held.task == task]
        before = await current_result(await gen.find(boss), components(gen).store)
        os.kill(int(owner.split("|")[2]), signal.SIGKILL)
        await gen.history.ended(task, 60)
        told = await current_result(await gen.find(boss), components(gen).store)
    assert "is still at work in its worktree" in before and "To take it over" not in before
    assert "still at work" not in told
    assert f"1 file, is on the branch gencode/{boss}, in {worktree}, partly uncommitted" in told


async def kid_of_process(gen: GenCode, boss: str) -> str:
    await until(lambda: _sent(gen, boss), "the kid is sent")
    return (await gen.tasks(parent=boss))[0].agent_id
