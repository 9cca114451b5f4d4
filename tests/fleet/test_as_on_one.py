"""What an agent or a person does to a task is the same when a worker runs it: looked at, spoken to, stopped,
gone on with, copied, followed, and its result handed over exactly once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.events import Event, TaskEnded
from gencode.core.ids import new_id
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.questions import Answer, Question
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.questions.question_desk import QuestionDesk
from gencode.tasks import remote_task
from gencode.tasks.fork import Fork
from gencode.testing import reported
from tests.fleet.driving import Fleet, ended
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

TALKER = "---\nname: talker\ndescription: Talks.\ntools: SendMessage, Read\n---\nTalk.\n"
READ = {"name": "Read", "input": {"file_path": "note.txt"}}


class Stage:
    """A conversation that plays a script; the agent that it sends has the id `child` and runs on a worker."""

    def __init__(self, gen: GenCode, child: str) -> None:
        self.gen = gen
        self.child = child

    async def told(self, session: str) -> list[str]:
        """What the calls of the conversation came to."""
        messages = transcript_of(await self.gen.history.events(session))
        return [
            reported(each.text) for said in messages if isinstance(said, ToolMessage) for each in said.results
        ]

    async def handed_over(self, session: str) -> int:
        """How often the child's result was handed to the conversation, however that came about."""
        messages = transcript_of(await self.gen.history.events(session))
        come = [each for each in messages if isinstance(each, UserMessage) and self.child in each.delivers]
        found = [
            result
            for said in messages
            if isinstance(said, ToolMessage)
            for result in said.results
            if self.child in result.trace.delivered
        ]
        return len(come) + len(found)


def sends(**words: Any) -> dict[str, Any]:
    asked = {"subagent_type": "general-purpose", "prompt": "look", "isolation": "process", **words}
    return {"name": "Task", "input": asked}


@asynccontextmanager
async def stage(
    fleet: Fleet, main: list[dict[str, Any]], agent: list[dict[str, Any]], **words: Any
) -> AsyncGenerator[Stage]:
    """CHILD in a script stands for the id of the agent that is sent."""
    child, session = new_id(), new_id()
    path = fleet.folder / f"{session}.json"
    path.write_text(json.dumps({"agents": {"main": main, "*": agent}}).replace("CHILD", child))
    named = {"database_url": fleet.url, "permission_mode": "dontAsk", **words.pop("settings", {})}
    async with GenCode.open(fleet.folder, model=f"scripted:{path}", settings=named, **words) as gen:
        ids = [child]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(remote_task, "new_id", lambda: ids.pop() if ids else new_id())
            yield Stage(gen, child)


async def test_an_agent_speaks_to_one_on_a_worker_and_waits_for_its_result_which_comes_once(
    standing: Fleet,
) -> None:
    says = {"name": "SendMessage", "input": {"task_id": "CHILD", "message": "hello out there"}}
    looks = {"name": "TaskOutput", "input": {"task_id": "CHILD", "block": True}}
    calls = [sends(run_in_background=True), says, looks]
    main = [*({"calls": [call]} for call in calls), {"text": "done"}, {"text": "again"}]
    agent = [{"calls": [READ], "delay_ms": 700}, {"text": "found it"}]
    async with stage(standing, main, agent) as on:
        session = await on.gen.ask("go").outcome()
        assert (session.status, session.result) == (Status.COMPLETED, "done")
        sent, said, looked = await on.told(session.agent_id)
        assert f"is running in the background as task {on.child}" in sent
        assert said == f"general-purpose (task {on.child}) gets the message before its next reply."
        assert looked.endswith("Output:\nfound it")
        child = await on.gen.find(on.child)
        assert (child.parent, child.delivered.mailed, child.status) == (session.agent_id, 1, Status.COMPLETED)
        assert await on.handed_over(session.agent_id) == 1
        again = await on.gen.ask("go on", session=session.agent_id).outcome()
        assert (again.result, await on.handed_over(session.agent_id)) == ("again", 1)


async def test_an_agent_on_a_worker_writes_to_its_sender_and_is_told_whom_it_reaches(
    standing: Fleet, home: Path
) -> None:
    for place in (home / ".gen", *(worker.log for worker in standing.workers)):
        (place / "agents").mkdir(parents=True, exist_ok=True)
        (place / "agents" / "talker.md").write_text(TALKER)
    sent = sends(subagent_type="talker", run_in_background=True)
    main = [{"calls": [sent], "delay_ms": 1_000}, {"text": "waiting"}, {"text": "heard"}, {"text": "heard"}]
    path = standing.folder / f"{new_id()}.json"
    path.write_text(json.dumps({"agents": {"main": main}}))
    named = {"database_url": standing.url, "permission_mode": "dontAsk"}
    async with GenCode.open(standing.folder, model=f"scripted:{path}", settings=named) as gen:
        job = await gen.start_turn("go")
        words = [
            {"name": "SendMessage", "input": {"task_id": task, "message": "hello"}}
            for task in (job.id, "you")
        ]
        path.write_text(json.dumps({"agents": {"*": [{"calls": words}, {"text": "said it"}]}}))
        await gen.outcome(job)
        (child,) = await gen.tasks(parent=job.id)
        told, refused = await Stage(gen, child.agent_id).told(child.agent_id)
        facts = transcript_of(await gen.history.events(job.id))
    assert told == f"main (task {job.id}) gets the message before its next reply."
    assert refused.endswith(f"You can also write to: main (task {job.id}), your parent.")
    assert [reported(each.text) for each in facts if isinstance(each, UserMessage) and each.mail] == [
        f"[talker (task {child.agent_id}) writes]\nhello"
    ]


async def test_a_result_from_a_worker_comes_by_itself_and_all_its_facts_are_heard(standing: Fleet) -> None:
    main = [{"calls": [sends(run_in_background=True)]}, {"text": "waiting"}, {"text": "thanks"}]
    async with stage(standing, main, [{"calls": [READ], "delay_ms": 200}, {"text": "found it"}]) as on:
        listener = on.gen.listen()
        session = await on.gen.ask("go").outcome()
        assert (session.result, await on.handed_over(session.agent_id)) == ("thanks", 1)
        written = await on.gen.history.events(on.child)
        heard: list[Event] = []
        while len(heard) < len(written):
            event = await asyncio.wait_for(anext(listener), 60)
            if event.task == on.child and event.seq is not None:
                heard.append(event)
        assert heard == written
        followed = [event async for event in on.gen.history.follow(on.child)]
        assert followed == written
        listener.close()


async def test_an_agent_stops_one_on_a_worker(standing: Fleet) -> None:
    stops = {"name": "TaskStop", "input": {"task_id": "CHILD"}}
    main = [
        {"calls": [sends(run_in_background=True)]},
        {"calls": [stops], "delay_ms": 500},
        {"text": "stopped"},
        {"text": "heard"},
    ]
    async with stage(standing, main, [{"text": "slow", "delay_ms": 60_000}]) as on:
        session = await on.gen.ask("go").outcome()
        assert session.status is Status.COMPLETED
        assert "was stopped after 0 turns and is now cancelled" in (await on.told(session.agent_id))[1]
        events = await on.gen.history.events(on.child)
        assert [event.fact.status for event in events if isinstance(event.fact, TaskEnded)] == ["cancelled"]


async def test_a_task_of_a_worker_goes_on_there_and_is_copied_here(standing: Fleet) -> None:
    agent = [{"calls": [READ]}, {"text": "first"}]
    async with stage(standing, [], agent) as on:
        task = (await on.gen.detach(TaskRequest("general-purpose", "look"))).agent_id
        [first] = await ended(on.gen, [task])
        more = TaskRequest("", "and again", resume=task, background=True)
        assert (await on.gen.detach(more)).agent_id == task

        async def went_on() -> bool:
            return (await on.gen.find(task)).totals.turns == 4

        await until(went_on, "it has gone on")
        [second] = await ended(on.gen, [task])
        assert (first.totals.turns, second.status, second.result) == (2, Status.COMPLETED, "first")
        heard = said_to(await on.gen.history.events(task))
        assert (heard.count("look"), heard.count("and again")) == (1, 1)
        copy = await on.gen.outcome(
            await on.gen.start_fork(task, Fork(first.seq), TaskRequest("", "another way"))
        )
        assert (copy.status, copy.agent_id != task) == (Status.COMPLETED, True)
        texts = said_to(await on.gen.history.events(copy.agent_id))
        assert ("look" in texts, "another way" in texts, "and again" in texts) == (True, True, False)


async def test_a_task_goes_on_at_a_worker_in_the_form_that_is_asked_for_now(standing: Fleet) -> None:
    agent = [{"text": "words"}, {"text": "more words"}, {"text": '{"count": 1}'}]
    form = {"type": "object", "required": ["count"]}
    async with stage(standing, [], agent) as on:
        task = (await on.gen.detach(TaskRequest("general-purpose", "look"))).agent_id
        await ended(on.gen, [task])
        await on.gen.detach(TaskRequest("", "how many?", resume=task, background=True, output_schema=form))

        async def went_on() -> bool:
            return (await on.gen.find(task)).totals.turns == 3

        await until(went_on, "it has gone on")
        [counted] = await ended(on.gen, [task])
        assert (counted.status, counted.end.output) == (Status.COMPLETED, {"count": 1})


def said_to(events: list[Event]) -> list[str]:
    """What an agent was told."""
    return [reported(each.text) for each in transcript_of(events) if isinstance(each, UserMessage)]


class Saying:
    """A person who says yes and remembers what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(True)


async def test_who_waits_for_an_agent_on_a_worker_is_asked_on_its_behalf(standing: Fleet) -> None:
    person = Saying()
    agent = [{"calls": [{"name": "Bash", "input": {"command": "touch waited.txt"}}]}, {"text": "done"}]
    quiet = {"permission_mode": "default", "allow": ["Task(general-purpose)"], "background_questions": False}
    turns = [{"calls": [sends()]}, {"text": "ok"}]
    async with stage(standing, turns, agent, asker=QuestionDesk(person), settings=quiet) as on:
        session = await on.gen.ask("go").outcome()
        assert session.status is Status.COMPLETED
    assert [(each.task, each.path) for each in person.asked] == [(on.child, ("main", "general-purpose"))]
    assert (standing.folder / "waited.txt").exists()
