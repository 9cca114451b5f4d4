"""Data of earlier builds opens: the same public state, and work that goes on where it was left."""

import fcntl
import gzip
import json
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import pytest

from gencode import GenCode
from gencode.core.changes import offers
from gencode.core.errors import UserMistake
from gencode.core.outcome import as_json
from gencode.core.place import WorktreePlace
from gencode.core.status import EndReason, Status
from tests.interfaces.cli.running import GEN
from tests.interfaces.cli.running import gen as command
from tests.journals.record import PLACE, Json
from tests.postgres import Postgres

RECORDED = Path(__file__).parent / "0.1"

UNTIL_NOW = {"endedAt", "durationMs"}
"""What is counted until somebody looked, for tasks that a dead process left open."""


@pytest.fixture
def recorded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The data of a scenario at the place that its database names; one test at a time has it."""
    PLACE.mkdir(exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = PLACE / request.param
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["tar", "xzf", RECORDED / request.param / "data.tar.gz", "-C", PLACE], check=True)
        monkeypatch.setenv("GEN_HOME", str(root / "home"))
        yield root
        shutil.rmtree(root)


def expected(scenario: str) -> dict[str, Json]:
    """What the build that wrote the data said of each task."""
    tasks: list[Json] = json.loads((RECORDED / scenario / "tasks.json").read_text())
    return {task["agentId"]: {key: task[key] for key in task if key != "tasks"} for task in tasks}


async def shown(gen: GenCode, task: str) -> Json:
    """What this build says of a task, as `gen task show --json` does."""
    return json.loads(as_json(await gen.show(task)))


def same(before: Any, now: Any, ended_by_looking: bool) -> Any:
    """What this build says, reduced to the fields that the earlier one had."""
    match before, now:
        case dict(), dict():
            old, new = cast(Json, before), cast(Json, now)
            left_out = UNTIL_NOW if ended_by_looking else set[str]()
            return {
                key: value if key in left_out else same(value, new.get(key), ended_by_looking)
                for key, value in old.items()
            }
        case list(), list():
            pairs = zip_longest(cast(list[Any], before), cast(list[Any], now))
            return [same(one, other, ended_by_looking) for one, other in pairs]
        case _:
            return now


def with_recovered_texts(now: list[Json], before: list[Json]) -> list[Json]:
    """A transcript whose last calls were answered when it was opened, in the words of 0.1."""
    if not now or now[-1]["role"] != "tool" or len(now) != len(before):
        return now
    results = zip_longest(now[-1]["results"], before[-1]["results"])
    return [*now[:-1], {**now[-1], "results": [{**one, "text": other["text"]} for one, other in results]}]


SCENARIOS = sorted(folder.name for folder in RECORDED.iterdir())


def in_sqlite() -> list[str]:
    return [name for name in SCENARIOS if name != "fleet"]


def test_enough_is_recorded() -> None:
    assert len(list(RECORDED.glob("*/exports/*.jsonl"))) >= 50
    states = {task["status"] for name in SCENARIOS for task in expected(name).values()}
    assert states >= {
        *("pending", "running", "completed", "empty", "limit_reached", "failed", "cancelled", "interrupted")
    }


@pytest.mark.parametrize("recorded", in_sqlite(), indirect=True)
async def test_a_database_shows_and_replays_the_same_tasks(recorded: Path) -> None:
    async with GenCode.open(recorded / "ws", model="offline") as gen:
        for task, before in expected(recorded.name).items():
            now = await shown(gen, task)
            # Refused calls were warnings in 0.1; they have a list of their own since.
            refused = {
                f"{each['tool']} was not allowed: {each['why']}" for each in now["evidence"]["refused"]
            }
            warnings = [each for each in before["evidence"]["warnings"] if each not in refused]
            before = {**before, "evidence": {**before["evidence"], "warnings": warnings}}
            if before["status"] == "interrupted":
                now["transcript"] = with_recovered_texts(
                    now["transcript"], expected(recorded.name)[task]["transcript"]
                )
            assert same(before, now, before["status"] == "interrupted") == before
            assert (await gen.replay(task)).same


async def import_all(gen: GenCode, scenario: str) -> None:
    """Import every export of a scenario."""
    for task in expected(scenario):
        await gen.take_in((RECORDED / scenario / "exports" / f"{task}.jsonl").read_text())


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_exports_are_imported_and_replay(scenario: str, tmp_path: Path) -> None:
    async with GenCode.open(tmp_path, model="offline") as gen:
        for task, before in expected(scenario).items():
            taken = await gen.take_in((RECORDED / scenario / "exports" / f"{task}.jsonl").read_text())
            imported, problems = taken.outcome, taken.problems
            now = await shown(gen, imported.agent_id)
            fields = {"agent", "status", "result", "turns", "prompt", "transcript"}
            if before["status"] in {"pending", "running"}:
                fields -= {"status", "transcript"}
            assert problems == []
            known = {key: before[key] for key in fields}
            assert same(known, now, ended_by_looking=False) == known
            assert (await gen.replay(task)).same


REASONS = {
    "The budget of": EndReason.BUDGET,
    "it took longer than": EndReason.TIME_LIMIT,
    "its result does not fit": EndReason.WRONG_FORM,
    "the limit of": EndReason.TURN_LIMIT,
    "the process that ran it died": EndReason.PROCESS_DIED,
    "it was stopped from another process": EndReason.STOPPED,
    "scripted:": EndReason.FAILED,
}
"""Why tasks ended, by how the sentences in their records begin."""


@pytest.mark.parametrize("recorded", in_sqlite(), indirect=True)
async def test_the_end_of_every_recorded_task_has_a_reason(recorded: Path) -> None:
    ended = {"completed": EndReason.FINISHED, "empty": EndReason.NO_ANSWER}
    async with GenCode.open(recorded / "ws", model="offline") as gen:
        for task in expected(recorded.name):
            now = await gen.find(task)
            why = [reason for words, reason in REASONS.items() if (now.end.error or "").startswith(words)]
            assert now.end.reason is (why[0] if why else ended.get(now.status))


@pytest.mark.parametrize("recorded", ["worktrees"], indirect=True)
async def test_where_recorded_tasks_worked_and_what_they_changed_is_known(recorded: Path) -> None:
    async with GenCode.open(recorded / "ws", model="offline") as gen:
        agents = [task for task, shown in expected("worktrees").items() if shown["agent"] != "main"]
        tasks = [await gen.find(task) for task in agents]
    assert [task.delivered.place for task in tasks] == [
        WorktreePlace(task.created.worktree, f"gencode/{task.id}") for task in tasks
    ]
    made = [task for task in tasks if task.status is Status.COMPLETED]
    assert [task.report.text for task in made] == ["Made.", "Made."]
    assert all(offers(change, f"gencode/{task.id}") for task in made for change in task.report.changes)


def script(folder: Path, turns: int = 12) -> str:
    """A model that only talks, long enough for a transcript of any length."""
    path = folder / "goes-on.json"
    path.write_text(json.dumps({"agents": {"*": [{"text": f"Went on {n}."} for n in range(turns)]}}))
    return f"scripted:{path}"


def deliveries(session: Json) -> Counter[str]:
    """How often the end of each task was told in a conversation, by a message or as the result of a call."""
    return Counter(
        identity
        for message in session["transcript"]
        for identity in (
            *message.get("delivers", ()),
            *(each for result in message.get("results", ()) for each in result.get("delivers", ())),
        )
    )


async def hears_of_each_agent_once(gen: GenCode, scenario: str) -> None:
    """Go on twice with the conversation that was killed; what its agents came to is told once."""
    tasks = expected(scenario)
    main = next(t for t in tasks.values() if t["agent"] == "main" and t["status"] == "interrupted")
    children = {
        t["agentId"]
        for t in tasks.values()
        if t["parentId"] == main["agentId"] and (t["background"] or t["status"] == "interrupted")
    }
    for prompt in ("Go on", "And on"):
        went_on = await gen.ask(prompt, session=main["agentId"]).outcome()
        assert went_on.status is Status.COMPLETED
        told = deliveries(await shown(gen, main["agentId"]))
        assert {child: told[child] for child in children} == dict.fromkeys(children, 1)


WITH_A_KILLED_CONVERSATION = ["killed", "queued", "budgeted", "worktrees"]


@pytest.mark.parametrize("recorded", WITH_A_KILLED_CONVERSATION, indirect=True)
async def test_a_killed_conversation_goes_on_and_hears_of_each_agent_once(recorded: Path) -> None:
    async with GenCode.open(recorded / "ws", model=script(recorded)) as gen:
        await hears_of_each_agent_once(gen, recorded.name)


@pytest.mark.parametrize("scenario", WITH_A_KILLED_CONVERSATION)
async def test_an_imported_conversation_goes_on_and_hears_of_each_agent_once(
    scenario: str, tmp_path: Path
) -> None:
    async with GenCode.open(tmp_path, model=script(tmp_path)) as gen:
        await import_all(gen, scenario)
        await hears_of_each_agent_once(gen, scenario)


UNREADABLE = '{"kind":"TaskPraised","stars":5}'


@pytest.mark.parametrize("recorded", ["killed"], indirect=True)
async def test_an_agent_with_an_event_of_an_unknown_kind_has_failed_and_its_parent_hears_of_it_once(
    recorded: Path,
) -> None:
    child = next(t["agentId"] for t in expected("killed").values() if t["prompt"] == "behind")
    with closing(sqlite3.connect(recorded / "home" / "gencode.db")) as database, database:
        database.execute("UPDATE Events SET Body = ? WHERE Task = ? AND Seq = 3", (UNREADABLE, child))
    async with GenCode.open(recorded / "ws", model=script(recorded)) as gen:
        assert (await gen.find(child)).end.reason is EndReason.UNREADABLE
        await hears_of_each_agent_once(gen, "killed")
        with pytest.raises(UserMistake, match=f"{child}.* Fact 3 "):
            await gen.resume(child, "Go on")
        assert UNREADABLE.strip("{}") in await gen.export(child)


BOUND = {"Count", "Count wrongly", "Poor"}
"""Tasks that cannot simply go on: their result must fit a schema, or their budget is spent."""
SPENT = {"43d5f532", "35528d91", "7488bab7"}
"""Tasks whose budget, or that of their conversation, is spent."""


def agents(scenario: str) -> list[str]:
    """The agents that can go on."""
    return [
        task
        for task, shown in expected(scenario).items()
        if shown["agent"] != "main" and shown["prompt"] not in BOUND and task not in SPENT
    ]


async def go_on_and_are_forked(gen: GenCode, tasks: list[str], model: str) -> None:
    for task in tasks:
        resumed = await gen.resume(task, "Go on", model=model)
        assert (resumed.agent_id, resumed.status) == (task, Status.COMPLETED)
        forked = await gen.fork(task, "Otherwise", at=3, model=model)
        assert (forked.agent_id == task, forked.status) == (False, Status.COMPLETED)


@pytest.mark.parametrize("recorded", in_sqlite(), indirect=True)
async def test_tasks_are_resumed_and_forked(recorded: Path) -> None:
    model = script(recorded)
    async with GenCode.open(recorded / "ws", model=model) as gen:
        await go_on_and_are_forked(gen, agents(recorded.name), model)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "worktrees"])
async def test_imported_tasks_are_resumed_and_forked(scenario: str, tmp_path: Path) -> None:
    model = script(tmp_path)
    async with GenCode.open(tmp_path, model=model) as gen:
        await import_all(gen, scenario)
        theirs = {task for task, shown in expected(scenario).items() if shown["agent"] == "lead"}
        await go_on_and_are_forked(gen, [task for task in agents(scenario) if task not in theirs], model)


@pytest.mark.parametrize("recorded", ["scheduled"], indirect=True)
def test_what_was_scheduled_is_still_planned(recorded: Path) -> None:
    planned = command("cron", "list", "--json", cwd=recorded / "ws").json
    assert len(next(iter(planned.values()))) == 3


@pytest.fixture
def shared(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The data of a scenario with its Postgres database, brought up to date."""
    server = Postgres()
    try:
        server.run(gzip.decompress((RECORDED / recorded.name / "dump.sql.gz").read_bytes()).decode())
        monkeypatch.setenv("GEN_DATABASE_URL", server.url())
        assert command("migrate", cwd=recorded / "ws").code == 0
        yield recorded
    finally:
        server.close()


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("recorded", ["fleet"], indirect=True)
async def test_a_postgres_dump_shows_and_replays_the_same_tasks(shared: Path) -> None:
    async with GenCode.open(shared / "ws", model="offline") as gen:
        for task, before in expected("fleet").items():
            assert same(before, await shown(gen, task), before["status"] == "running") == before
            assert (await gen.replay(task)).same


@pytest.fixture
def worker(shared: Path) -> Generator[None]:
    """A worker of this build."""
    command_line = [*GEN, "worker", "--workspace", str(shared), "--concurrency", "2"]
    with subprocess.Popen(command_line, stdout=subprocess.DEVNULL) as process:
        yield
        process.kill()


def result_of(task: str, folder: Path) -> tuple[str, str]:
    """How a task ended that a worker is at, or will be."""
    ended = command("task", "output", task, "--timeout", "60000", "--json", cwd=folder).json
    return ended["status"], ended["result"]


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("recorded", ["fleet"], indirect=True)
@pytest.mark.usefixtures("worker")
async def test_tasks_of_a_postgres_dump_go_on_at_workers_and_are_resumed_and_forked(shared: Path) -> None:
    tasks = {shown["prompt"]: task for task, shown in expected("fleet").items()}
    assert result_of(tasks["never begun"], shared / "ws") == ("completed", "Worked.")
    assert result_of(tasks["slow"], shared / "ws") == ("completed", "Never.")
    model = script(shared)
    async with GenCode.open(shared / "ws", model=model) as gen:
        await go_on_and_are_forked(gen, agents("fleet"), model)
        again = await gen.ask("And on", session=tasks["in the foreground"]).outcome()
        assert again.status is Status.COMPLETED


def since_first(folder: Path) -> list[str]:
    checks: list[Json] = command("doctor", "--json", cwd=folder).json["checks"]
    return [each["detail"] for each in checks if each["name"] == "since 0.1"]


@pytest.mark.parametrize("recorded", ["finished"], indirect=True)
def test_doctor_says_what_changed_since_the_first_version_before_and_after_the_upgrade(
    recorded: Path,
) -> None:
    before = since_first(recorded)
    command("migrate", cwd=recorded)
    copy, *after = since_first(recorded)
    assert (before, copy.endswith("gencode.db.0.1-backup")) == (after, True)
    assert len(before) > 3


def test_doctor_says_nothing_of_the_first_version_to_others(tmp_path: Path) -> None:
    assert since_first(tmp_path) == []
