"""Conversations that are longer than a model can hold: they are summed up, and no work in them is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import until

from gencode import GenCode
from gencode.agent.call_budget import weight
from gencode.agent.final_answer import form_notice
from gencode.agent.ports import Provider, Request
from gencode.app import components
from gencode.core.budget import Budget
from gencode.core.errors import ProviderError
from gencode.core.events import CostEstimated, Event, TranscriptCompacted
from gencode.core.messages import Message, Part, ToolMessage, Usage, UserMessage, is_summed_up
from gencode.core.status import Status
from gencode.core.task import transcript_of, whole_transcript
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider, RetryPolicy
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, Turns, call, says, scripted

SMALL = {"context_tokens": 20_000}
EXAMPLES = int(os.environ.get("GEN_EXAMPLES", "5"))
READ = call("Read", file_path="long.txt")
SEND = call("Task", subagent_type="Explore", prompt="look", description="a look", run_in_background=True)


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """A folder with a file that takes about 6,000 tokens."""
    (tmp_path / "long.txt").write_text("a line of text\n" * 1_100)
    return tmp_path


def reading(times: int) -> list[dict[str, Any]]:
    return [says(f"I read it for the {number}. time.", READ) for number in range(1, times + 1)]


def facts(events: Sequence[Event]) -> list[TranscriptCompacted]:
    return [event.fact for event in events if isinstance(event.fact, TranscriptCompacted)]


def note_in(messages: Sequence[Message]) -> str:
    (note,) = [each for each in messages if is_summed_up([each])]
    return note.text if isinstance(note, UserMessage) else ""


async def overheard(
    folder: Path, agents: Mapping[str, Turns], prompt: str = "the task"
) -> tuple[list[Request], list[Event], GenCode]:
    """What one agent was told turn by turn, and the journal of its task."""
    heard = Overhearing(ScriptedProvider.of(agents))
    async with GenCode.open(folder, model=heard, store=MemoryStore(), settings=SMALL) as gen:
        outcome = await gen.task("general-purpose", prompt)
        events = await gen.history.events(outcome.agent_id)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "done")
    return heard.requests, events, gen


async def test_an_agent_near_its_limit_sums_up_and_goes_on_to_its_end(long_file: Path) -> None:
    requests, events, _ = await overheard(long_file, {"*": [*reading(12), says("done")]})
    told = [request for request in requests if not request.sums_up]
    assert len(told) == 13 and len(facts(events)) >= 2
    assert all(sum(map(weight, request.messages)) < 20_000 for request in told)
    assert all(request.messages[0] == UserMessage("the task") for request in told)
    assert "Files you read\nlong.txt" in note_in(told[-1].messages)
    assert "written by GenCode from the calls" in note_in(told[-1].messages)
    assert len([each for each in whole_transcript(events) if isinstance(each, ToolMessage)]) == 12


async def test_the_model_itself_writes_the_summary_and_what_that_costs_is_counted(long_file: Path) -> None:
    summary = says("It is all lines.", usage=Usage(5_000, 50))
    agents = {"*": [*reading(3), says("done")], "summary": [summary]}
    heard = Overhearing(ScriptedProvider.of(agents))
    async with GenCode.open(long_file, model=heard, store=MemoryStore(), settings=SMALL) as gen:
        outcome = await gen.task("general-purpose", "the task")
        (fact,) = facts(await gen.history.events(outcome.agent_id))
    (asked,) = [request for request in heard.requests if request.sums_up]
    assert (asked.tools, len(asked.messages), asked.agent) == ((), 1, "general-purpose")
    assert "## Summary\nIt is all lines." in fact.summary.text and "written by you" in fact.summary.text
    assert (fact.usage, outcome.usage.input_tokens, outcome.turns) == (Usage(5_000, 50), 5_000, 4)


async def test_a_summary_is_paid_from_the_budget_and_written_by_the_harness_when_that_is_spent(
    long_file: Path,
) -> None:
    summary = says("It is all lines.", usage=Usage(30_000, 50))
    budget = {"max_tokens_total": 100_000}
    async with scripted(
        long_file, settings={**SMALL, **budget}, others=[*reading(12), says("done")], summary=[summary]
    ) as gen:
        outcome = await gen.task("general-purpose", "the task")
        events = await gen.history.events(outcome.agent_id)
    found = facts(events)
    guessed = [event.fact.usage for event in events if isinstance(event.fact, CostEstimated)]
    assert outcome.status is Status.LIMIT_REACHED and outcome.error is not None
    assert found[0].usage == Usage(30_000, 50)
    assert guessed != []  # the other replies say nothing of what they cost
    assert outcome.usage.tree == sum((each.usage for each in found if each.usage), sum(guessed, Usage()))
    assert outcome.usage.input_tokens < 100_000 + 31_000


async def test_a_summary_that_fails_is_written_by_the_harness(long_file: Path) -> None:
    agents = {"*": [*reading(3), says("done")], "summary": [says("half", error="overloaded")]}
    heard = Overhearing(ScriptedProvider.of(agents))
    model = RetryingProvider(heard, RequestQueue(), RetryPolicy(tries=3, first=0.01))
    async with GenCode.open(long_file, model=model, store=MemoryStore(), settings=SMALL) as gen:
        outcome = await gen.task("general-purpose", "the task")
        events = await gen.history.events(outcome.agent_id)
    (fact,) = facts(events)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "done")
    assert [request.sums_up for request in heard.requests].count(True) == 3
    assert '[calls Read] {"file_path":"long.txt"' in fact.summary.text
    assert "half" not in fact.summary.text
    lost = [event.fact.usage for event in events if isinstance(event.fact, CostEstimated)]
    assert [each.output_tokens for each in lost] == [1, 1, 1], (
        "each half that was lost, also without a budget"
    )


@pytest.mark.parametrize(("said", "costs"), [("", 0), ("half", 1)])
async def test_a_summary_that_is_refused_at_once_costs_nothing(
    long_file: Path, said: str, costs: int
) -> None:
    turns = [
        {**turn, "usage": Usage(6_000 * number, 10)}
        for number, turn in enumerate([*reading(3), says("done")], start=1)
    ]
    budget = {"max_tokens_total": 1_000_000}
    async with scripted(
        long_file, settings={**SMALL, **budget}, others=turns, summary=[says(said, error="overloaded")]
    ) as gen:
        outcome = await gen.task("general-purpose", "the task")
        events = await gen.history.events(outcome.agent_id)
    guessed = [event.fact.usage for event in events if isinstance(event.fact, CostEstimated)]
    assert len(guessed) == costs * len(facts(events)) and facts(events) != []
    assert outcome.usage.tree == sum(guessed, Usage(60_000, 40))


async def test_open_todos_survive_however_often_it_is_summed_up(long_file: Path) -> None:
    todos = [
        {"content": "find the bug", "status": "in_progress"},
        {"content": "mend it", "status": "pending"},
    ]
    turns = [says("", call("TodoWrite", todos=todos)), *reading(12), says("done")]
    _, events, _ = await overheard(long_file, {"*": turns})
    assert len(facts(events)) >= 2
    assert all("## Open todos\n[>] find the bug\n[ ] mend it" in each.summary.text for each in facts(events))


async def test_what_was_changed_and_which_commands_run_is_told(long_file: Path) -> None:
    turns = [
        says("", call("Write", file_path="new.txt", content="x")),
        says("", call("Bash", command="sleep 60", run_in_background=True)),
        *(*reading(4), says("done")),
    ]
    async with scripted(
        long_file,
        settings={**SMALL, "permission_mode": "acceptEdits", "allow": ["Bash(sleep 60)"]},
        main=turns,
    ) as gen:
        outcome = await gen.ask("go").outcome()
        note = facts(await gen.history.events(outcome.agent_id))[0].summary.text
    assert "## Files you changed\nnew.txt" in note
    assert "is running: `sleep 60`" in note


async def test_a_schema_is_still_known_after_a_summary(long_file: Path) -> None:
    schema = {"type": "object", "required": ["lines"], "properties": {"lines": {"type": "integer"}}}
    turns = [*reading(6), says('{"lines": 7}')]
    heard = Overhearing(ScriptedProvider.of({"*": turns}))
    async with GenCode.open(long_file, model=heard, store=MemoryStore(), settings=SMALL) as gen:
        outcome = await gen.task("general-purpose", "count", output_schema=schema)
    assert outcome.output == {"lines": 7}
    last = heard.requests[-1].messages
    form = form_notice(last[1])
    assert is_summed_up(last) and form is not None and form.schema == schema


async def test_of_several_schemas_the_last_one_is_still_known_after_a_summary(long_file: Path) -> None:
    lines, words = ({"type": "object", "required": [name]} for name in ("lines", "words"))
    turns = [says('{"lines": 7}'), says('{"words": 8}'), *reading(6), says('{"words": 9}')]
    heard = Overhearing(ScriptedProvider.of({"*": turns}))
    async with GenCode.open(long_file, model=heard, store=MemoryStore(), settings=SMALL) as gen:
        task = (await gen.task("general-purpose", "count lines", output_schema=lines)).agent_id
        await gen.resume(task, "count words", output_schema=words)
        outcome = await gen.resume(task, "count again")
    assert outcome.output == {"words": 9}
    last = heard.requests[-1].messages
    forms = [*filter(None, map(form_notice, last))]
    assert is_summed_up(last) and forms[-1].schema == words


async def test_an_agent_in_the_background_is_not_forgotten_and_its_result_comes_once(long_file: Path) -> None:
    main = [says("", SEND), *reading(4), says("I wait."), says("got it")]
    async with scripted(
        long_file, settings=SMALL, main=main, Explore=[says("the thing is there", delay_ms=600)]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        events = await gen.history.events(outcome.agent_id)
    first = facts(events)[0].summary.text
    assert f"- {child.agent_id} Explore (a look) is running." in first
    assert deliveries(whole_transcript(events)) == [child.agent_id]
    assert outcome.result == "got it"


def deliveries(messages: Sequence[Message]) -> list[str]:
    """The tasks whose results were handed over, in order; each should be there once."""
    found: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            found += message.delivers
        elif isinstance(message, ToolMessage):
            found += (each for result in message.results for each in result.trace.delivered)
    return found


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.integers(0, 150), min_size=1, max_size=4),
    st.lists(st.sampled_from(["read", "send", "wait"]), min_size=4, max_size=9),
)
def test_whenever_it_is_summed_up_every_result_comes_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, delays: list[int], steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / "long.txt").write_text("a line of text\n" * 1_100)
    turn = {"read": says("", READ, READ), "send": says("", SEND), "wait": says("", call("LS"), delay_ms=40)}
    main = [says("", *[SEND] * len(delays)), *(turn[step] for step in steps), *[says("on")] * 20]
    explore = [says("found", delay_ms=max(delays))]

    async def story() -> tuple[list[str], list[str], list[Event], Status]:
        async with scripted(folder, settings=SMALL, main=main, Explore=explore) as gen:
            outcome = await gen.ask("go").outcome()
            sent = [child.agent_id for child in await gen.tasks(parent=outcome.agent_id)]
            events = await gen.history.events(outcome.agent_id)
            return sent, deliveries(whole_transcript(events)), events, outcome.status

    sent, came, events, status = asyncio.run(story())
    assert (sorted(came), status) == (sorted(sent), Status.COMPLETED)
    for event in events:
        if isinstance(event.fact, TranscriptCompacted):
            before = deliveries(
                whole_transcript([each for each in events if (each.seq or 0) < (event.seq or 0)])
            )
            out = [task for task in sent if task not in before and task in event.fact.summary.text]
            born = [task for task in sent if task in _children_before(events, event)]
            assert sorted(out) == sorted(task for task in born if task not in before)


def _children_before(events: Sequence[Event], until: Event) -> list[str]:
    """Which agents had been sent when a fact was written."""
    messages = whole_transcript([each for each in events if (each.seq or 0) < (until.seq or 0)])
    results = [result for each in messages if isinstance(each, ToolMessage) for result in each.results]
    return [child for result in results for child in result.trace.children]


class Strict:
    """A model that refuses whatever is longer than it holds, as vendors do, and says so only then."""

    def __init__(self, inner: Provider, most: int) -> None:
        self._inner = inner
        self._most = most
        self.refused = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if sum(map(weight, request.messages)) > self._most:
            self.refused += 1
            raise ProviderError("strict refused the request (prompt is too long).", too_long=True)
        async for part in self._inner.stream(request):
            yield part


async def test_a_model_that_refuses_what_is_too_long_is_asked_again_with_less(long_file: Path) -> None:
    strict = Strict(ScriptedProvider.of({"*": [*reading(9), says("done")]}), 15_000)
    async with GenCode.open(long_file, model=strict, store=MemoryStore()) as gen:
        outcome = await gen.task("general-purpose", "the task")
        found = facts(await gen.history.events(outcome.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "done")
    assert strict.refused == len(found) >= 2
    assert found[0].why == "strict refused the request (prompt is too long)."


async def test_where_nothing_can_be_left_out_the_refusal_is_the_end(tmp_path: Path) -> None:
    strict = Strict(ScriptedProvider.of({"*": [says("done")]}), 1_000)
    async with GenCode.open(tmp_path, model=strict, store=MemoryStore()) as gen:
        outcome = await gen.task("general-purpose", "x" * 40_000)
    assert (outcome.status, strict.refused) == (Status.FAILED, 1)
    assert outcome.error == "strict refused the request (prompt is too long)."


async def test_results_that_are_too_long_themselves_are_shown_by_their_beginnings(long_file: Path) -> None:
    strict = Strict(ScriptedProvider.of({"*": [says("", READ, READ, READ), says("done")]}), 6_000)
    async with GenCode.open(long_file, model=strict, store=MemoryStore()) as gen:
        outcome = await gen.task("general-purpose", "the task")
        (fact,) = facts(await gen.history.events(outcome.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "done")
    assert fact.summary.text.count("\nRead: 1\ta line of text") == 3


async def test_a_conversation_at_rest_is_summed_up_when_a_person_asks(long_file: Path) -> None:
    main = [*reading(3), says("first answer"), says("second answer")]
    async with scripted(long_file, main=main) as gen:
        first = await gen.ask("one").outcome()
        assert await components(gen).tasks.service.compact(gen.agents.main(), first.agent_id)
        assert not await components(gen).tasks.service.compact(gen.agents.main(), first.agent_id)
        rest = await gen.find(first.agent_id)
        second = await gen.ask("two", session=first.agent_id).outcome()
        told = transcript_of(await gen.history.events(first.agent_id))
    assert (rest.status, rest.result, second.result) == (Status.COMPLETED, "first answer", "second answer")
    assert is_summed_up(told) and told[-2:-1] == [UserMessage("two")]


async def test_a_summary_that_is_cut_holds_nothing_of_a_budget_and_counts(
    long_file: Path,
) -> None:
    never = [says("never", delay_ms=600_000)]
    async with scripted(long_file, main=[*reading(3), says("answer")], summary=never) as gen:
        first = await gen.ask("one").outcome()
        await gen.set_budget(first.agent_id, Budget(tokens=1_000_000))
        ledger = components(gen).store.ledger
        cut = asyncio.ensure_future(gen.compact(first.agent_id))

        async def calls() -> int:
            balance = await ledger.balance(first.agent_id)
            return balance.account.calls if balance is not None else 0

        await until(calls, "the summary is being written")
        cut.cancel()
        await asyncio.wait([cut])
        after, wrong = await ledger.balance(first.agent_id), await ledger.recount()
    assert after is not None and (after.account.calls, wrong) == (0, [])
    assert after.account.spent["tokens"] > 1_000


async def test_the_offline_model_needs_no_summary_however_little_room_there_is(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"part_{number}.py").write_text(f"def retry_{number}():\n    '''retry'''\n" * 200)
    async with GenCode.open(
        tmp_path, model="offline", store=MemoryStore(), settings={"context_tokens": 8_000}
    ) as gen:
        first = await gen.ask("where is retry_7 defined?").outcome()
        second = await gen.ask("where is retry_9 defined?", session=first.agent_id).outcome()
        events = await gen.history.events(first.agent_id)
    assert (first.status, second.status, facts(events)) == (Status.COMPLETED, Status.COMPLETED, [])
    assert "part_7.py" in first.result and "part_9.py" in second.result


async def test_a_fork_begins_with_the_summary(long_file: Path) -> None:
    async with scripted(long_file, settings=SMALL, others=[*reading(4), says("done"), says("and on")]) as gen:
        first = await gen.task("general-purpose", "the task")
        other = await gen.fork(first.agent_id, "go on")
        told = transcript_of(await gen.history.events(other.agent_id))
    assert (other.result, is_summed_up(told), told[0]) == ("and on", True, UserMessage("the task"))


DIES = """
    import asyncio
    from gencode import GenCode
    from gencode.providers.scripted import ScriptedProvider
    from gencode.testing import call, says

    async def main():
        read = [says("", call("Read", file_path="long.txt")) for _ in range(3)]
        script = {"*": [*read, says("done")], "summary": [says("never", delay_ms=3_600_000)]}
        settings = {"context_tokens": 20_000}
        async with GenCode.open(model=ScriptedProvider.of(script), settings=settings) as gen:
            async for event in gen.ask("the task"):
                if type(event.fact).__name__ == "ProgressMade":
                    print(event.task, flush=True)

    asyncio.run(main())
"""


async def test_after_a_kill_in_the_middle_of_a_summary_the_work_goes_on_from_all_that_was_said(
    long_file: Path,
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(DIES), cwd=long_file, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    task = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    script = {"main": [*reading(3), says("I go on.")], "summary": [says("They are lines.")]}
    async with GenCode.open(long_file, model=ScriptedProvider.of(script), settings=SMALL) as gen:
        before = await gen.history.events(task)
        outcome = await gen.ask("go on", session=task).outcome()
        events = await gen.history.events(task)
    assert facts(before) == [] and outcome.result == "I go on."
    (fact,) = facts(events)
    assert "They are lines." in fact.summary.text
    assert whole_transcript(events)[: len(whole_transcript(before))] == whole_transcript(before)
