"""What fits a schema stays the output of a run, whatever its agent says after a message that came late."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.final_answer import BEFORE_THAT, SAID_NO_MORE
from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.messages import AssistantMessage, Part, ToolCall, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.core.task import RunAnswers
from gencode.stores.memory import MemoryStore
from gencode.tasks.result_warnings import NO_TOOL
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import Turn, script, start
from tests.interfaces.cli.running import gen as typed
from tests.interfaces.http.serving import served
from tests.tasks.form_agent import agent
from tests.tasks.steered_conversation import CHILD, Steered, speak_to_the_conversation, talker
from tests.tasks.words import heard, numbered, said
from tests.virtual_clock import virtual_time
from tests.waiting import until

SCHEMA: dict[str, Any] = {"type": "object", "required": ["a"]}
FITS, ANSWERED = '{"a": 1}', {"a": 1}
NO_JSON = "its result does not fit the schema: There is no JSON value in the reply."
THANKED: list[Turn] = [{"text": FITS, "delay_ms": 3_000}, *[{"text": "thanks"}] * 3]


class Slow(Steered):
    """A model that is spoken to in its first reply and hangs in its second, until its agent is stopped."""

    def __init__(self, *replies: str) -> None:
        super().__init__(*replies)
        self.hangs = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if self.turns == 1:
            self.turns += 1
            self.hangs.set()
            await asyncio.Event().wait()
        async for part in super().stream(request):
            yield part


async def ended(folder: Path, model: Steered, **words: Any) -> Outcome:
    """What a task with a schema came to that was spoken to in the middle of a reply."""
    async with GenCode.open(folder, model=model, store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "look", background=True, output_schema=SCHEMA, **words)
        await model.hears(gen, handle.id)
        return await handle.result()


@pytest.mark.parametrize(
    ("replies", "spoken", "output", "result"),
    [
        ((FITS, "thanks"), 1, ANSWERED, f"{FITS}\n\nthanks"),
        ((FITS, "thanks", "you", "all"), 1, ANSWERED, f"{FITS}\n\nall"),
        ((FITS, ""), 1, ANSWERED, FITS),
        ((FITS, '{"b": 2}', ""), 1, ANSWERED, FITS),
        ((FITS, '{"a": 2}', "thanks"), 2, {"a": 2}, '{"a": 2}\n\nthanks'),
        ((FITS, "by the way", "thanks"), 2, ANSWERED, f"{FITS}\n\nby the way\n\nthanks"),
        (("words", FITS, ""), 2, ANSWERED, FITS),
    ],
    ids=["words", "other words", "silence", "silence in the end", "the last", "words twice", "words before"],
)
@virtual_time
async def test_an_answer_that_fits_counts_when_nothing_after_a_late_message_does(
    tmp_path: Path, replies: tuple[str, ...], spoken: int, output: object, result: str
) -> None:
    outcome = await ended(tmp_path, Steered(*replies, spoken=spoken))
    assert (outcome.status, outcome.error, outcome.turns) == (Status.COMPLETED, None, spoken + 3)
    assert (outcome.output, outcome.result) == (output, result)
    assert outcome.evidence.warnings == (BEFORE_THAT, NO_TOOL)


async def test_what_fits_after_a_late_message_counts_alone(tmp_path: Path) -> None:
    outcome = await ended(tmp_path, Steered(FITS, "thanks", '{"a": 3}'))
    assert (outcome.status, outcome.output, outcome.result) == (Status.COMPLETED, {"a": 3}, '{"a": 3}')
    assert outcome.evidence.warnings == (NO_TOOL,)


async def test_a_run_without_any_answer_that_fits_fails_as_ever(tmp_path: Path) -> None:
    outcome = await ended(tmp_path, Steered("words", "thanks"))
    assert (outcome.status, outcome.output, outcome.error) == (Status.FAILED, None, NO_JSON)
    silent = await ended(tmp_path, Steered("words", ""))
    assert (silent.status, silent.output, silent.result) == (Status.EMPTY, None, "words")


async def test_what_fits_but_came_with_calls_is_no_answer(tmp_path: Path) -> None:
    outcome = await ended(tmp_path, Steered(FITS, "thanks", calls=(ToolCall("c1", "LS", {"path": "."}),)))
    assert (outcome.status, outcome.output, outcome.result) == (Status.FAILED, None, "thanks")


async def test_the_answer_of_an_earlier_run_is_not_that_of_a_woken_agent(tmp_path: Path) -> None:
    turns = [says(FITS), says("thanks"), says("thanks"), says("thanks")]
    async with scripted(tmp_path, Explore=turns) as gen:
        first = await gen.task("Explore", "look", output_schema=SCHEMA)
        await gen.send(first.agent_id, "thank you")

        async def has_ended_again() -> bool:
            now = await gen.get(first.agent_id)
            return now.status.ended and now.turns == len(turns)

        await until(has_ended_again, "the woken agent ended")
        woken = await gen.get(first.agent_id)
    assert (first.status, first.output) == (Status.COMPLETED, ANSWERED)
    assert (woken.status, woken.output, woken.error) == (Status.FAILED, None, NO_JSON)


@virtual_time
async def test_a_sender_hears_the_value_and_what_was_said_after_it(tmp_path: Path, home: Path) -> None:
    talker(home)
    sent = call("Task", subagent_type="Talker", prompt="talk", run_in_background=True, output_schema=SCHEMA)
    word = call("SendMessage", task_id=CHILD, message="thank you")
    main = [says("", sent), says("", word, delay_ms=300), says("I wait."), says("It is 1.")]
    turns = [says(FITS, delay_ms=800), *[says("You are welcome.")] * 3]
    async with scripted(tmp_path, store=numbered(), main=main, Talker=turns) as gen:
        outcome = await gen.ask("go").outcome()
        told = heard(await said(gen, outcome.agent_id))[-1].text
        child = await gen.get(CHILD)
    assert (child.status, child.output) == (Status.COMPLETED, ANSWERED)
    head = f"[The background task {CHILD} of Talker has finished]"
    assert told == f"{head}\n{FITS}\n\nYou are welcome."


@pytest.mark.parametrize(
    ("replies", "result"),
    [((FITS, "", "I was cut."), f"{FITS}\n\nI was cut."), (("", "", FITS), FITS)],
    ids=["an earlier answer", "its last word"],
)
@virtual_time
async def test_what_is_kept_of_a_stopped_agent_is_its_output_where_it_fits(
    tmp_path: Path, replies: tuple[str, ...], result: str
) -> None:
    model = Slow(*replies)
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "look", background=True, output_schema=SCHEMA)
        await model.hears(gen, handle.id)
        await model.hangs.wait()
        stopped = await gen.stop(handle.id, keep=True)
    assert (stopped.status, stopped.output, stopped.result) == (Status.CANCELLED, ANSWERED, result)


@virtual_time
async def test_an_answer_is_the_output_also_of_a_run_that_ends_badly_after_it(tmp_path: Path) -> None:
    broken = await ended(tmp_path, Steered(FITS, spoken=1))
    spent = await ended(tmp_path, Steered(FITS, "thanks"), max_turns=1)
    assert (broken.status, broken.output, broken.result) == (Status.FAILED, ANSWERED, FITS)
    assert (spent.status, spent.output) == (Status.LIMIT_REACHED, ANSWERED)
    assert spent.result == f"{FITS}\n\nthanks"
    assert BEFORE_THAT in broken.evidence.warnings
    assert BEFORE_THAT in spent.evidence.warnings


async def test_who_answers_and_then_says_nothing_has_answered(tmp_path: Path) -> None:
    outcome = await Steered("THE ANSWER", "").outcome(tmp_path)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "THE ANSWER")
    assert outcome.evidence.warnings == (SAID_NO_MORE,)


async def test_who_only_announces_work_and_then_says_nothing_has_not_answered(tmp_path: Path) -> None:
    look = (ToolCall("c1", "LS", {"path": "."}),)
    outcome = await Steered("I look.", "Now I will run the tests.", "", calls=look, spoken=2).outcome(
        tmp_path
    )
    assert (outcome.status, outcome.result) == (Status.EMPTY, "Now I will run the tests.")


async def test_a_conversation_prints_the_output_that_it_had_answered(tmp_path: Path, home: Path) -> None:
    agent(home, "lister", SCHEMA)
    model = script(tmp_path, lister=THANKED)
    begun = start("-p", "go", "--agent", "lister", "--model", model, "--json", cwd=tmp_path)
    await speak_to_the_conversation(tmp_path, "thank you")
    out, _ = begun.communicate(timeout=60)
    told = json.loads(out)
    assert (begun.returncode, told["status"], told["output"]) == (0, "completed", ANSWERED)
    assert told["result"] == f"{FITS}\n\nthanks"


async def test_a_task_prints_the_output_that_it_had_answered(tmp_path: Path, home: Path) -> None:
    agent(home, "lister", SCHEMA)
    model = script(tmp_path, lister=THANKED)
    begun = start("task", "run", "lister", "go", "--model", model, "--json", cwd=tmp_path)
    await speak_to_the_conversation(tmp_path, "thank you")
    out, _ = begun.communicate(timeout=60)
    told = json.loads(out)
    assert (begun.returncode, told["status"], told["output"]) == (0, "completed", ANSWERED)
    assert BEFORE_THAT in told["evidence"]["warnings"]
    shown = typed("task", "show", told["agentId"], cwd=tmp_path)
    assert BEFORE_THAT in shown.out


async def test_over_http_an_answer_that_fits_is_the_output(tmp_path: Path) -> None:
    turns = [says(FITS, delay_ms=1_000), *[says("thanks")] * 3]
    async with served(tmp_path, Explore=turns) as site:
        asked = {"agent": "Explore", "prompt": "look", "outputSchema": SCHEMA}
        task = (await site.client.post("/api/tasks", asked)).json["agentId"]
        await site.client.until(f"/api/tasks/{task}", lambda told: told["status"] == "running")
        await site.client.post(f"/api/tasks/{task}/send", {"message": "thank you"})
        told = await site.client.ended(task)
    assert (told["status"], told["output"], told["result"]) == ("completed", ANSWERED, f"{FITS}\n\nthanks")


def test_replies_before_letters_are_told_apart() -> None:
    answers, result = RunAnswers(), ""
    for number, text in enumerate((" one ", "two\n\nlines", "two\n\nlines", "four"), 1):
        result = answers.joined_with(text)
        answers = answers.after_reply(AssistantMessage(text))
        answers = answers.after_message(UserMessage("?", mail=number), result)
    whole = "one\n\ntwo\n\nlines\n\nfour"
    apart = [("four", "four"), ("two\n\nlines", "two\n\nlines\n\nfour"), ("one", whole)]
    assert (answers.before, list(answers.newest_first())) == (whole, apart)
    assert list(RunAnswers().newest_first()) == []
