"""Forks of tasks that worked in a copy on a worker: they begin there too, with what is known of its files."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.events import MessageAdded
from gencode.core.messages import ToolMessage
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.store import TaskQuery
from gencode.tasks.fork import Fork
from gencode.workspaces.worktrees.leftovers import find_leftovers
from tests.fleet.conftest import PATIENT
from tests.fleet.country import Country, call, detached, results, said, says, told
from tests.fleet.driving import ended
from tests.interfaces.cli.running import Ended
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import git, repository

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]


@pytest.fixture(scope="module")
def country(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    made = Country(postgres, tmp_path_factory.mktemp("country"))
    made.settle("--concurrency", "4", *PATIENT)
    yield made
    made.close()


@contextmanager
def hidden(country: Country) -> Generator[None]:
    """While its folder is at another place, and so not on this machine."""
    away = country.folder.rename(country.folder.parent / "hidden")
    try:
        yield
    finally:
        away.rename(country.folder)


def fork(country: Country, folder: Path, *words: str) -> Ended:
    model = ("--model", f"scripted:{country.script}")
    return typed("task", "fork", *words, *model, cwd=folder, GEN_DATABASE_URL=country.url)


def opened(country: Country, folder: Path, **settings: Any) -> AbstractAsyncContextManager[GenCode]:
    named = {"database_url": country.url, **settings}
    return GenCode.open(folder, model=f"scripted:{country.script}", settings=named)


async def two_written(country: Country) -> str:
    """A task that wrote two.txt in a copy and has ended."""
    country.write(says(call("Write", file_path="two.txt", content="two\n")))
    async with country.gen() as gen:
        [found] = await ended(gen, [await detached(gen)])
    calls = [call("LS", path="."), call("Write", file_path="three.txt", content="three\n")]
    country.write({"*": [{"text": "both", "calls": calls}, {"text": "done"}]})
    return found.id


async def test_a_fork_is_sent_to_a_worker_with_the_work_of_the_other_one_and_both_come_back(
    country: Country, tmp_path: Path
) -> None:
    first = await two_written(country)
    with hidden(country):
        begun = fork(country, tmp_path, first, "another way", "--background")
        async with opened(country, tmp_path) as gen:
            [found] = await ended(gen, [begun.out.strip()])
            seen, heard = await results(gen, found.id), await told(gen, found.id)
    begins = f"It begins in a copy of {country.folder} as task {first} left it, with what that one changed."
    assert (begun.code, begins in begun.err) == (0, True), begun.err
    assert (found.status, found.end.error) == (Status.COMPLETED, None)
    assert (found.created.forked, found.cwd) == (first, str(country.folder))
    assert ("a.txt" in seen[-2], "two.txt" in seen[-2]) == (True, True)
    assert "the file changes you had made until then" in heard[-1]
    assert "What both changed there:]\nadded three.txt +1 -0\nadded two.txt +1 -0" in found.result
    taken = typed("task", "merge", found.id, cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert (taken.code, (country.folder / "three.txt").read_text()) == (0, "three\n"), taken
    assert (country.folder / "two.txt").read_text() == "two\n"
    again = typed("task", "merge", first, cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert (again.code, "were in the files" in again.out) == (0, True)
    shown = typed("task", "output", first, cwd=country.folder, GEN_DATABASE_URL=country.url)
    assert "To take it over" not in shown.out
    (country.folder / "two.txt").unlink()
    (country.folder / "three.txt").unlink()


async def test_a_fork_at_an_early_fact_has_nothing_of_what_came_later_and_says_so(
    country: Country, tmp_path: Path
) -> None:
    first = await two_written(country)
    async with country.gen() as gen:
        facts = await gen.history.events(first)
        answered = next(
            event.seq or 0
            for event in facts
            if isinstance(event.fact, MessageAdded) and isinstance(event.fact.message, ToolMessage)
        )
        request = TaskRequest("", "another way")
        country.write({"*": [{"text": "before"}, *said(call("LS", path=".")), {"text": "done"}]})
        early, words = await gen.detach_fork(first, Fork(answered - 1), request)
        late, _ = await gen.detach_fork(first, Fork(answered), request)
        found = await ended(gen, [early, late])
        assert [(each.status, each.end.error) for each in found] == [(Status.COMPLETED, None)] * 2
        seen = [(await results(gen, each.id))[-1] for each in found]
        heard = await told(gen, early)
    assert words == (
        f"It begins in a copy of {country.folder} as it was when task {first} was sent, without that "
        f"task's changes: its files at event {answered - 1} are unknown."
    )
    assert [("a.txt" in each, "two.txt" in each) for each in seen] == [(True, False), (True, True)]
    assert "your file changes are not in it" in heard[-1]
    [warned] = [each for each in found[0].evidence.warnings if each.startswith("it begins in a copy")]
    assert warned.startswith(f"it begins in a copy of {country.folder} as it was when task {first} was sent")


async def test_a_fork_that_changes_nothing_more_offers_nothing(country: Country) -> None:
    first = await two_written(country)
    country.write(says(call("Read", file_path="two.txt")))
    async with country.gen() as gen:
        task, _ = await gen.detach_fork(first, Fork(), TaskRequest("", "only look"))
        [found] = await ended(gen, [task])
        waiting = [each for each in country.doctor() if task in each]
        left = [each.path for each in await find_leftovers(country.workers[0].log)]
        more, _ = await gen.detach_fork(task, Fork(), TaskRequest("", "look again"))
        [again] = await ended(gen, [more])
        seen = await results(gen, more)
    assert found.result == "done\n\n[It made no further changes beyond those of the task it is a fork of.]"
    assert (waiting, again.status, again.end.error) == ([], Status.COMPLETED, None)
    assert "two" in seen[-1]
    assert [each for each in left if task in each] == []


async def test_a_fork_of_a_task_that_still_runs_begins_as_that_one_was_sent(
    country: Country, tmp_path: Path
) -> None:
    country.write(says(*(call("Write", file_path=f"{n}.txt", content="x\n") for n in "pqr"), delay=60_000))
    async with country.gen() as gen:
        first = await detached(gen)
        await until(lambda: heard_all(gen, first), "it is told where it is")
        country.write(says(call("LS", path=".")))
        task, words = await gen.detach_fork(first, Fork(), TaskRequest("", "another way"))
        [found] = await ended(gen, [task])
        seen = await results(gen, task)
        await gen.stop(first)
    assert ("as it was when task" in words, found.status, found.end.error) == (True, Status.COMPLETED, None)
    assert ("a.txt" in seen[-1], "p.txt" in seen[-1]) == (True, False)


async def heard_all(gen: GenCode, task: str) -> bool:
    return len(await told(gen, task)) == 2


async def test_a_task_in_a_worktree_here_goes_on_elsewhere_with_its_work(country: Country) -> None:
    country.write(says(call("Write", file_path="two.txt", content="two\n")))
    async with country.gen() as gen:
        first = await gen.task("general-purpose", "work", isolation="worktree")
    country.write(says(call("LS", path=".")))
    async with country.gen() as gen:
        await gen.detach(TaskRequest("", "go on", resume=first.agent_id))
        [found] = await ended(gen, [first.agent_id])
        seen, heard = await results(gen, found.id), await told(gen, found.id)
    assert (found.status, found.end.error) == (Status.COMPLETED, None)
    assert ("a.txt" in seen[-1], "two.txt" in seen[-1]) == (True, True)
    assert any("with your earlier file changes" in each for each in heard[-2:])
    assert "[It made no further changes.]" in found.result


async def test_what_cannot_be_named_from_another_machine_is_said(country: Country, tmp_path: Path) -> None:
    first = await two_written(country)
    with hidden(country):
        async with opened(country, tmp_path) as gen:
            with pytest.raises(UserMistake, match="let a worker run the fork: gen task fork"):
                await gen.fork(first, "again")
            with pytest.raises(UserMistake, match="has no event 999"):
                await gen.detach_fork(first, Fork(999), TaskRequest("", "again"))
        wider = fork(country, tmp_path, first, "again", "--background", "--permission-mode", "dontAsk")
    assert (wider.code, "leave --permission-mode" in wider.err) == (2, True)


async def test_in_a_clone_a_task_goes_on_is_forked_and_its_work_is_taken_over(
    country: Country, tmp_path: Path
) -> None:
    first = await two_written(country)
    git(tmp_path, "clone", "--quiet", str(country.folder), "clone")
    clone = tmp_path / "clone"
    other = repository(tmp_path / "other", a_txt="other\n")
    with hidden(country):
        async with opened(country, clone) as gen:
            forked = await gen.fork(first, "another way")
            again = await gen.fork(forked.agent_id, "and another")
            listed, heard = await results(gen, forked.agent_id), await told(gen, again.agent_id)
        words = ("--model", f"scripted:{country.script}")
        resumed = typed("task", "resume", first, "more", *words, cwd=clone, GEN_DATABASE_URL=country.url)
        refused = typed("task", "resume", first, "more", *words, cwd=other, GEN_DATABASE_URL=country.url)
        astray = typed("task", "merge", first, cwd=other, GEN_DATABASE_URL=country.url)
        named = ("--cwd", str(other))
        wrong = typed("task", "merge", first, *named, cwd=clone, GEN_DATABASE_URL=country.url)
        waiting = country.rows("SELECT task FROM gen_returned WHERE taken_at IS NULL")
        merged = typed("task", "merge", first, cwd=clone, GEN_DATABASE_URL=country.url)
    assert [each.status for each in (forked, again)] == [Status.COMPLETED] * 2
    assert (forked.cwd, "two.txt" in listed[-2]) == (str(country.folder), False)
    assert heard[-2].startswith(f"[You work in a clone of the repository of {country.folder}, in {clone}.")
    assert (resumed.code, f"{clone}" in resumed.err) == (3, True)
    lacks = f"{other} does not have the commit {git(country.folder, 'rev-parse', 'HEAD')[:12]}, at which it"
    assert [(each.code, lacks in each.err) for each in (refused, astray, wrong)] == [(2, True)] * 3, wrong.err
    assert (git(other, "status", "--short"), [first] in waiting) == ("", True)
    assert (merged.code, (clone / "two.txt").read_text()) == (0, "two\n"), merged.err
    assert f"this is a clone of its repository: {clone}" in merged.err


@asynccontextmanager
async def talking(country: Country, **bounds: Any) -> AsyncGenerator[tuple[GenCode, Task]]:
    """Another process beside one that waits for its model, and the agent that it had sent before."""
    costs = {"inputTokens": 990, "outputTokens": 10}
    sends = call("Task", subagent_type="Explore", prompt="look")
    slow = {"text": "told", "usage": costs, "delay_ms": 600_000}
    country.write(
        {
            "main": [{"text": "", "calls": [sends], "usage": costs}, slow],
            "*": [{"text": "found", "usage": costs}, {"text": "found more", "usage": costs}],
        }
    )
    async with country.gen(**bounds) as leader, country.gen() as gen:
        turn = asyncio.ensure_future(leader.ask("go").outcome())
        await until(lambda: ended_below(leader), "its agent has ended")
        [first] = await ended_below(leader)
        yield gen, first
        await leader.stop(first.parent or "")
        await turn


async def test_a_fork_on_a_worker_counts_in_a_budget_while_its_conversation_is_at_work(
    country: Country,
) -> None:
    async with talking(country, max_tokens_total=300_000, max_spawns=2) as (gen, first):
        task, _ = await gen.detach_fork(first.id, Fork(), TaskRequest("", "another way"))
        [found] = await ended(gen, [task])
        talk = await gen.history.task(first.parent or "")
        with pytest.raises(UserMistake, match="The budget of 2 agents of the session is spent"):
            await gen.detach_fork(first.id, Fork(), TaskRequest("", "one too many"))
    assert (found.status, found.end.error, found.result) == (Status.COMPLETED, None, "found more")
    assert talk is not None and not talk.status.ended


@pytest.mark.parametrize(
    ("how", "before", "now", "status", "spent"),
    [
        ("fork", None, 8_000, Status.LIMIT_REACHED, 8_000),
        ("fork", 30_000, 8_000, Status.LIMIT_REACHED, 8_000),
        ("fork", 5_000, 30_000, Status.COMPLETED, 13_000),
        ("resume", None, 8_000, Status.LIMIT_REACHED, 8_000),
    ],
)
async def test_a_worker_knows_of_the_budget_that_only_its_sender_was_told(
    country: Country, how: str, before: int | None, now: int, status: Status, spent: int
) -> None:
    costs = {"inputTokens": 990, "outputTokens": 10}
    sends = {"text": "", "calls": [call("Task", subagent_type="Explore", prompt="look")], "usage": costs}
    look = {"text": "", "calls": [call("LS", path=".")], "usage": costs}
    found = {"text": "found", "usage": costs}
    country.write({"main": [sends, {"text": "told", "usage": costs}], "*": [found, *[look] * 9, found]})
    async with country.gen(max_tokens_total=before) as gen:
        talk = (await gen.ask("go").outcome()).agent_id
        [first] = await gen.history.tasks(TaskQuery(parent=talk))
    async with country.gen(max_tokens_total=now) as gen:
        task = first.id
        if how == "fork":
            task, _ = await gen.detach_fork(task, Fork(), TaskRequest("", "another way"))
        else:
            await gen.detach(TaskRequest("", "more", resume=task))
        await until(lambda: has_ended(gen, task, first.seq), "it has ended")
        [after] = await ended(gen, [task])
        assert (after.status, (await gen.history.spent(talk)).tokens) == (status, spent)


async def has_ended(gen: GenCode, task: str, before: int) -> bool:
    """Whether a task has ended with more facts than it had, if it is the same."""
    found = await gen.history.task(task)
    return found is not None and found.status.ended and (found.created.forked != "" or found.seq > before)


async def ended_below(gen: GenCode) -> list[Task]:
    """The agents that have ended of conversations that are led here."""
    talks = [live.id for live in gen.running if live.task.conversation and live.task.totals.turns == 1]
    found = [each for talk in talks for each in await gen.history.tasks(TaskQuery(parent=talk))]
    return [each for each in found if each.status.ended]
