"""What agents on workers ask: shown and answered where the person is, and nowhere else."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.questions import Answer
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.interfaces.cli.main import main
from gencode.journal.dispatch import Handover
from gencode.permissions.calls import Approval
from gencode.questions.question_desk import QuestionDesk
from gencode.tasks.running_task import LocalTask
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet, ended
from tests.fleet.present_person import Saying, present
from tests.interfaces.cli.running import Ended, in_terminal
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")


def script(fleet: Fleet, name: str, *calls: dict[str, Any]) -> str:
    """A model that makes these calls, one in each turn."""
    turns = [*({"calls": [call]} for call in calls), {"text": "done"}]
    path = fleet.folder / f"{name}.json"
    path.write_text(json.dumps({"agents": {"*": turns}}))
    return f"scripted:{path}"


def touch(name: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": f"touch {name}"}}


@asynccontextmanager
async def sitting(
    fleet: Fleet, model: str, person: QuestionDesk | None = None, *, behind: bool = True, **settings: Any
) -> AsyncGenerator[GenCode]:
    """A GenCode where a person is asked, also by agents in the background when they are to be."""
    named = {"database_url": fleet.url, "background_questions": behind, **settings}
    async with GenCode.open(fleet.folder, model=model, settings=named, asker=person) as gen:
        assert person is None or present(fleet)
        yield gen


async def sent(gen: GenCode) -> str:
    return (await gen.detach(TaskRequest("general-purpose", "do it"))).agent_id


async def one(gen: GenCode, task: str) -> Task:
    [found] = await ended(gen, [task])
    return found


async def heard(gen: GenCode, task: str) -> str:
    """What the tools of a task said."""
    told = (await gen.show(task)).transcript
    return json.dumps([message for message in told or () if "results" in message])


async def test_a_command_is_asked_about_where_the_person_is_and_run_where_the_agent_is(
    standing: Fleet,
) -> None:
    person = Saying(Answer(True))
    model = script(standing, "yes", touch("made.txt"))
    async with sitting(standing, model, QuestionDesk(person)) as gen:
        task = await sent(gen)
        found = await one(gen, task)
    assert (found.status, (standing.folder / "made.txt").exists()) == (Status.COMPLETED, True)
    [question] = person.asked
    assert (question.task, question.agent, question.path) == (task, "general-purpose", ("general-purpose",))
    assert question.call.input == {"command": "touch made.txt"}
    assert (question.decision.action, question.rules) == ("ask", ("Bash(touch made.txt)",))
    assert not present(standing)


async def test_what_an_agent_wants_to_know_is_answered_in_words(standing: Fleet) -> None:
    asks = {"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}
    call = {"name": "AskUserQuestion", "input": {"questions": [asks]}}
    person = Saying(Answer(True, words=("blue",)))
    async with sitting(standing, script(standing, "words", call), QuestionDesk(person)) as gen:
        task = await sent(gen)
        await one(gen, task)
        assert "Which colour? \\u2192 blue" in await heard(gen, task)


@pytest.mark.parametrize("there", [False, True])
async def test_nobody_is_asked_who_is_not_there_or_does_not_want_to_be(standing: Fleet, there: bool) -> None:
    person = Saying(Answer(True))
    model = script(standing, f"nobody{there}", touch("never.txt"))
    async with sitting(standing, model, QuestionDesk(person) if there else None, behind=False) as gen:
        task = await sent(gen)
        await one(gen, task)
        assert "nobody can approve it in this run" in await heard(gen, task)
    assert (person.asked, (standing.folder / "never.txt").exists()) == ([], False)


async def test_a_yes_for_the_session_counts_for_no_other_task_on_the_same_worker(standing: Fleet) -> None:
    yes, no = Answer(True, "session"), Answer(False, why="not twice")
    person = Saying(yes, no)
    model = script(standing, "reach", touch("twice.txt"), touch("twice.txt"))
    async with sitting(standing, model, QuestionDesk(person)) as gen:
        await one(gen, await sent(gen))
        assert len(person.asked) == 1
        second = await sent(gen)
        await one(gen, second)
        assert len(person.asked) == 3
        assert "They wrote: not twice" in await heard(gen, second)


async def test_what_was_answered_for_one_task_is_not_answered_for_another_of_the_same_room(
    fleet: Fleet,
) -> None:
    from gencode.stores.pg_fleet import FleetStore

    store = await FleetStore.open(fleet.url)
    model = f"scripted:{fleet.folder}/script.json"
    created = TaskCreated(agent="general-purpose", prompt="look", cwd=str(fleet.folder))
    asker = QuestionDesk(here=False)
    async with GenCode.open(fleet.folder, model=model, store=store, asker=asker) as gen:
        jobs = [await gen.take_on(Handover(model, created)) for _ in range(2)]
        memories = [job.setup.gate.approvals.once for job in jobs if isinstance(job, LocalTask)]
        memories[0].add(Approval("host", "example.org"))
        assert memories == [{Approval("host", "example.org")}, set()]
    await store.close()


async def test_a_no_of_the_sender_is_not_lifted_by_a_yes(standing: Fleet) -> None:
    person = Saying(Answer(True, "subtree"))
    model = script(standing, "denied", touch("denied.txt"))
    async with sitting(standing, model, QuestionDesk(person), deny=["Bash(touch denied.txt)"]) as gen:
        await one(gen, await sent(gen))
    assert (person.asked, (standing.folder / "denied.txt").exists()) == ([], False)


async def test_a_person_at_a_shell_lists_and_answers_questions_and_the_second_answer_is_told_so(
    standing: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    person = QuestionDesk()
    model = script(standing, "typed", touch("typed.txt"))
    monkeypatch.setenv("GEN_DATABASE_URL", standing.url)

    async def said(*words: str) -> Ended:
        code = await asyncio.to_thread(main, ["task", *words, "--cwd", str(standing.folder)])
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    async with sitting(standing, model, person) as gen:
        task = await sent(gen)
        await until(lambda: len(person.waiting()) == 1, "it is asked")
        done = await said("questions", "--json")
        [question] = done.json["questions"]
        number = str(question["number"])
        assert (question["task"], question["call"]["input"]) == (task, {"command": "touch typed.txt"})
        listed = await said("questions")
        assert f"gen task answer {number} yes|no" in listed.out and "touch typed.txt" in listed.out
        first = await said("answer", number, "yes", "--for", "agent")
        assert (first.code, first.out) == (0, f"Answered question {number}: yes.\n")
        again = await said("answer", number, "no")
        assert (again.code, f"Question {number} was answered already" in again.err) == (2, True)
        await one(gen, task)
        await until(lambda: not person.waiting(), "it is not asked here any more")
    assert (standing.folder / "typed.txt").exists()


async def test_the_question_of_a_worker_that_died_disappears(fleet: Fleet) -> None:
    person = QuestionDesk()
    [first] = fleet.start(1)
    model = script(fleet, "died", touch("made.txt"))
    async with sitting(fleet, model, person) as gen:
        await sent(gen)
        await until(lambda: len(person.waiting()) == 1, "it is asked")
        [waiting] = await gen.questions.waiting("")
        first.send(signal.SIGKILL)
        await until(lambda: not person.waiting(), "nobody asks it any more")
        with pytest.raises(UserMistake, match="is not pending any more"):
            await gen.questions.answer(waiting.number, Answer(True), "me")


async def test_an_agent_that_waits_for_a_person_keeps_nobody_from_working(fleet: Fleet) -> None:
    person = QuestionDesk()
    fleet.start(1, "--concurrency", "1", *PATIENT)
    asking = script(fleet, "asking", touch("late.txt"))
    plain = script(fleet, "plain")
    async with sitting(fleet, asking, person) as gen:
        waits = await sent(gen)
        await until(lambda: len(person.waiting()) == 1, "it is asked")
        async with sitting(fleet, plain) as other:
            assert (await one(other, await sent(other))).status is Status.COMPLETED
        await person.answer(person.waiting()[0].number, Answer(True))
        assert (await one(gen, waits)).status is Status.COMPLETED
    assert (fleet.folder / "late.txt").exists()


async def test_a_person_at_a_terminal_is_asked_by_gen_itself(standing: Fleet) -> None:
    call = {
        "name": "Task",
        "input": {"subagent_type": "general-purpose", "prompt": "x", "isolation": "process"},
    }
    agent = [{"calls": [touch("typed-here.txt")]}, {"text": "done"}]
    path = standing.folder / "terminal.json"
    path.write_text(json.dumps({"agents": {"main": [{"calls": [call]}, {"text": "ok"}], "*": agent}}))
    done = await asyncio.to_thread(
        in_terminal,
        *("-p", "go", "--model", f"scripted:{path}", "--allow", "Task(general-purpose)"),
        cwd=standing.folder,
        answers=[b"y\n"],
        GEN_DATABASE_URL=standing.url,
    )
    assert (done.code, "main › general-purpose needs approval to use Bash" in done.out) == (0, True)
    assert (standing.folder / "typed-here.txt").exists()


async def test_a_person_at_a_terminal_is_asked_by_agents_of_every_folder(
    standing: Fleet, tmp_path: Path
) -> None:
    model = script(standing, "all", touch("all.txt"))
    asking = asyncio.create_task(
        asyncio.to_thread(
            in_terminal,
            *("task", "questions", "--all"),
            cwd=tmp_path,
            answers=[b"y\n"],
            GEN_DATABASE_URL=standing.url,
        )
    )
    await until(lambda: present(standing), "the person is there")
    async with sitting(standing, model) as gen:
        await one(gen, await sent(gen))
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.cmdline()[-2:] == ["questions", "--all"]:
                child.send_signal(signal.SIGINT)
    done = await asking
    assert "general-purpose needs approval to use Bash" in done.out
    assert (standing.folder / "all.txt").exists()


def test_without_a_shared_database_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from gencode import GenCode\n"
        "async def run():\n"
        "    async with GenCode.open('.', model='offline') as gen:\n"
        "        await gen.task('Explore', 'where is it')\n"
        "asyncio.run(run())\n"
        "print(*sys.modules, sep='\\n')"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = told.stdout.splitlines()
    ours = [name for name in loaded if name.startswith(("gencode.stores.pg_", "asyncpg", "pgqueuer"))]
    more = {"gencode.fleet.worker", "gencode.questions.question_desk", "gencode.providers.database_pacing"}
    assert (ours, more.intersection(loaded)) == ([], set())
