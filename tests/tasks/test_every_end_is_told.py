"""Whoever sent an agent hears of each of its ends once, whatever happens to both of them meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.events import Event, MessageAdded, TaskBackgrounded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Part, UserMessage
from gencode.core.status import EndReason, Status, stop_cause
from gencode.core.task import MOST_PAST, MOST_PAST_TEXT, Task, fold
from gencode.journal.store import TaskQuery
from gencode.providers.scripted import ScriptedProvider
from gencode.tasks.delivery import as_delivered, undelivered
from gencode.testing import call, says, scripted
from tests.tasks.agent_file import write_agent
from tests.tasks.words import heard, numbered, said
from tests.waiting import until

MAIN, CHILD = "00000001", "00000002"
MAY = {"allow": ["Task"]}
SEND = says("", call("Task", subagent_type="Talker", prompt="talk", run_in_background=True))
AGAIN = says("", call("Task", subagent_type="Talker", prompt="more", resume=CHILD))
BACK = "[The background task {} of Talker {}]"


@pytest.fixture
def talker(home: Path) -> Path:
    """The folder with the agent Talker."""
    write_agent(home / ".gen" / "agents", "Talker", tools="SendMessage, LS")
    return home


class Held(ScriptedProvider):
    """A script whose main agent says nothing after its first reply until it is let go."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.free = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if request.agent == "main" and len(request.messages) > 1:
            await self.free.wait()
        async for part in super().stream(request):
            yield part


async def ends(gen: GenCode, task: str, times: int) -> None:
    """Wait until a task has ended so often."""

    async def ended() -> bool:
        events = await gen.history.events(task)
        return sum(isinstance(event.fact, TaskEnded) for event in events) == times

    await until(ended, f"{task} has ended {times} times")


def cut_off(sender: Task, child: str) -> Task:
    """A sender that waited for a child when it was cut."""
    return replace(sender, delivered=replace(sender.delivered, left=(child,)))


def as_sent_from(sender: Task, child: Task) -> Task:
    """A child as its sender hears of it that was cut off from it."""
    return as_delivered(cut_off(sender, child.id), [child])[0]


async def told(gen: GenCode, task: str = MAIN) -> list[str]:
    """What a sender was told of the ends of those it sent."""
    return [each.text for each in heard(await said(gen, task)) if each.delivers]


async def told_after(folder: Path, wakes: int, *replies: Any, at_rest: bool = False) -> list[str]:
    """What a sender is told that was stopped before it heard of its agent, which was woken so often.

    The last time that is done `at_rest`, when the sender is stopped already.
    """
    held = Held.of({"main": [SEND, says("noted")], "Talker": replies})
    async with GenCode.open(folder, model=held, settings=MAY, store=numbered()) as gen:
        job = await gen.start_turn("go")
        await ends(gen, CHILD, 1)
        for number in range(2, wakes + 2):
            if at_rest and number == wakes + 1:
                await job.halt(stop_cause("enough"))
            await gen.send(CHILD, "thanks")
            await ends(gen, CHILD, number)
        await job.halt(stop_cause("enough"))
        held.free.set()
        await gen.ask("and?", session=MAIN).outcome()
        return await told(gen)


@pytest.mark.parametrize("at_rest", [False, True])
async def test_every_end_is_told_however_often_an_agent_was_woken_before_its_sender_heard_of_it(
    tmp_path: Path, talker: Path, at_rest: bool
) -> None:
    replies = [says(text) for text in ("FIRST", "SECOND", "THIRD")]
    done = BACK.format(CHILD, "has finished")
    words = await told_after(tmp_path, 2, *replies, at_rest=at_rest)
    assert words == [f"{done}\nFIRST\n\n{done}\nSECOND\n\n{done}\nTHIRD"]


async def test_what_an_agent_reported_at_its_limit_is_told_although_it_was_woken_since(
    tmp_path: Path, home: Path
) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "Talker.md").write_text(
        "---\nname: Talker\ndescription: Talks.\ntools: LS\nmax-turns: 1\n---\nTalk.\n"
    )
    replies = (says("", call("LS", path=".")), says("SO FAR"), says("you are welcome"))
    words = await told_after(tmp_path, 1, *replies)
    limit = BACK.format(CHILD, "reached a limit: the limit of 1 turn was reached")
    assert words == [f"{limit}\nSO FAR\n\n{BACK.format(CHILD, 'has finished')}\nyou are welcome"]


async def test_what_was_told_is_not_told_again_when_its_agent_goes_on_in_the_foreground(
    tmp_path: Path, talker: Path
) -> None:
    main = [SEND, says("I wait."), AGAIN, says("noted")]
    async with scripted(
        tmp_path, settings=MAY, store=numbered(), main=main, Talker=[says("FIRST"), says("SECOND")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        words = await told(gen)
    assert (outcome.result, words) == ("noted", [f"{BACK.format(CHILD, 'has finished')}\nFIRST"])


async def test_what_answered_a_call_is_not_told_again_when_the_next_call_for_its_agent_is_cut(
    tmp_path: Path, talker: Path
) -> None:
    first = says("", call("Task", subagent_type="Talker", prompt="talk"))
    main, replies = [first, AGAIN, says("noted")], [says("FIRST"), says("never", delay_ms=600_000)]
    async with scripted(tmp_path, settings=MAY, store=numbered(), main=main, Talker=replies) as gen:
        job = await gen.start_turn("go")
        await ends(gen, CHILD, 1)
        await until(lambda: gen.running.find(CHILD) is not None, "it goes on")
        sender = await gen.history.current(MAIN)
        await job.halt(stop_cause("enough"))
        child = await gen.history.current(CHILD)
    assert [each.status for each in undelivered(cut_off(sender, CHILD), as_sent_from(sender, child))] == [
        Status.CANCELLED
    ]


async def test_a_run_that_says_nothing_does_not_hand_over_once_more_what_the_one_before_it_said(
    tmp_path: Path, talker: Path
) -> None:
    runs = [says("FIRST"), says("", error="boom")]
    async with scripted(
        tmp_path, settings=MAY, store=numbered(), main=[SEND, *[says("noted")] * 4], Talker=runs
    ) as gen:
        await gen.ask("go").outcome()
        await gen.send(CHILD, "thanks")
        await ends(gen, CHILD, 2)
        await gen.ask("and?", session=MAIN).outcome()
        first, second = await told(gen)
        kept = await gen.outcome_of(await gen.history.current(CHILD))
    assert first == f"{BACK.format(CHILD, 'has finished')}\nFIRST"
    assert second.startswith(f"[The background task {CHILD} of Talker failed: ")
    assert ("FIRST" in second, kept.status, kept.result) == (False, Status.FAILED, "FIRST")


async def test_both_answers_are_heard_by_another_process_than_those_in_which_they_were_given(
    tmp_path: Path, talker: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()

    def opened(**agents: Any) -> Any:
        return GenCode.open(work, model=ScriptedProvider.of(agents), settings=MAY)

    async with opened(main=[SEND, says("never", delay_ms=600_000)], Talker=[says("FIRST")]) as gen:
        job = await gen.start_turn("go")
        sent: list[Task] = []
        while not sent:
            await asyncio.sleep(0.01)
            sent = await gen.history.tasks(TaskQuery(parent=job.id, statuses=(Status.COMPLETED,)))
        child = sent[0].id
    async with opened(Talker=[says("SECOND")]) as gen:
        await gen.send(child, "thanks")
        await ends(gen, child, 2)
    async with opened(main=[says("noted")]) as gen:
        await gen.ask("and?", session=job.id).outcome()
        words = await told(gen, job.id)
    done = BACK.format(child, "has finished")
    assert words == [f"{done}\nFIRST\n\n{done}\nSECOND"]


async def test_a_long_answer_of_an_earlier_run_is_said_to_be_where_it_is(
    tmp_path: Path, talker: Path
) -> None:
    long = "\n".join(f"line {number}" for number in range(5_000))
    [words] = await told_after(tmp_path, 1, says(long), says("SECOND"))
    file = talker / ".gen" / "outputs" / f"{CHILD}.md"
    assert f" characters follow: {file}]\n\n{BACK.format(CHILD, 'has finished')}\nSECOND" in words
    assert (long in file.read_text(), "TaskOutput" in words) == (True, False)


class Family:
    """A sender and its child as the facts of their journals make them."""

    def __init__(self, *, background: bool) -> None:
        self.seq = 0
        self.ended: list[tuple[str, str]] = []
        self.last = ""
        self.sender = self._folded(None, MAIN, TaskCreated(agent="main", prompt="go", conversation=True), 1)
        self.child: Task | None = None
        self._write(TaskCreated(agent="Talker", prompt="talk", parent=MAIN, background=background))

    def _folded(self, task: Task | None, name: str, fact: Any, seq: int) -> Task:
        return fold(task, Event(name, seq, f"2026-01-01T00:00:00.{self.seq:06}Z", fact))

    def _write(self, fact: Any) -> Task:
        self.seq += 1
        self.child = self._folded(self.child, CHILD, fact, self.child.seq + 1 if self.child else 1)
        return self.child

    def run(self, status: Status, text: str, *, background: bool) -> None:
        """One run of the child."""
        child = self._write(TaskStarted("m", "s"))
        if background and not child.terms.background:
            self._write(TaskBackgrounded())
        if text:
            child = self._write(MessageAdded(AssistantMessage(text)))
        child = self._write(TaskEnded(status, child.result, reason=EndReason.FINISHED))
        if status is not Status.COMPLETED and child.result == self.last:
            return  # it said nothing, or only what was said before
        self.last = child.result
        if child.terms.background:
            self.ended.append((child.end.at or "", child.result))

    def hear(self) -> list[tuple[str, str]]:
        """What the sender is told now, as its inbox tells it."""
        assert self.child is not None
        come = undelivered(self.sender, self.child)
        if come:
            names, moments = tuple(each.id for each in come), tuple(each.end.at or "" for each in come)
            told = MessageAdded(UserMessage("", "system", names, ends=moments))
            self.sender = self._folded(self.sender, MAIN, told, self.sender.seq + 1)
        return [(each.end.at or "", each.result) for each in come if each.result]


RUN = st.tuples(
    st.sampled_from([Status.COMPLETED, Status.FAILED, Status.LIMIT_REACHED, Status.CANCELLED]),
    st.sampled_from(["", "one", "two"]),
    st.booleans(),
    st.booleans(),
)


@given(background=st.booleans(), runs=st.lists(RUN, max_size=12))
def test_whatever_a_child_came_to_in_the_background_is_told_once_and_in_order(
    background: bool, runs: Sequence[tuple[Status, str, bool, bool]]
) -> None:
    family = Family(background=background)
    heard_of: list[tuple[str, str]] = []
    for status, text, behind, hears in runs:
        family.run(status, text, background=behind)
        heard_of += family.hear() if hears else []
    heard_of += family.hear()
    expected = [each for each in family.ended if each[1]]
    assert (heard_of, family.hear()) == (expected, [])


def test_only_so_many_earlier_ends_are_kept_at_hand_the_latest() -> None:
    many, long = Family(background=True), Family(background=True)
    for number in range(MOST_PAST + 10):
        many.run(Status.COMPLETED, f"answer {number}", background=True)
        long.run(Status.COMPLETED, str(number) * (MOST_PAST_TEXT // 6), background=True)
    assert [text for _, text in many.hear()] == [f"answer {9 + number}" for number in range(MOST_PAST + 1)]
    assert len(long.hear()) in range(3, 7)
