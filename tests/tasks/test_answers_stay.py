"""What an agent answered stays its answer, whatever comes to it during or after its last reply."""

import json
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.messages import ToolCall
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import script, start
from tests.interfaces.http.serving import served
from tests.tasks.steered_conversation import CHILD, MAIN, Steered, speak_to_the_conversation, talker
from tests.tasks.words import numbered
from tests.virtual_clock import virtual_time

SEND = call("Task", subagent_type="Talker", prompt="talk", run_in_background=True)
LATER = says("THE ANSWER", delay_ms=400)


def text_of(file: str) -> str:
    return Path(file).read_text()


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
async def test_an_answer_is_printed_although_somebody_spoke_meanwhile(tmp_path: Path, output: str) -> None:
    model = script(tmp_path, main=[{"text": "THE ANSWER", "delay_ms": 3_000}, {"text": "Noted."}])
    begun = start("-p", "go", "--model", model, "--output-format", output, cwd=tmp_path)
    await speak_to_the_conversation(tmp_path, "thanks")
    out, err = begun.communicate(timeout=60)
    said = "THE ANSWER\n\nNoted."
    shown = out if output == "text" else json.loads(out.splitlines()[-1])["result"]
    assert (begun.returncode, shown.strip(), err) == (0, said, "")


@virtual_time
async def test_a_message_of_an_agent_takes_no_answer_back(tmp_path: Path, home: Path) -> None:
    talker(home)
    word = says("", call("SendMessage", task_id=MAIN, message="by the way"))
    main = [says("", SEND), LATER, says("Noted."), says("All told.")]
    async with scripted(
        tmp_path, store=numbered(), main=main, Talker=[word, says("talked", delay_ms=800)]
    ) as gen:
        outcome = await gen.ask("go").outcome()
    # What it says while it waits for the talker's result is not handed back, as ever.
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "THE ANSWER\n\nAll told.")


@virtual_time
async def test_a_question_of_an_agent_takes_no_answer_back(tmp_path: Path, home: Path) -> None:
    talker(home)
    question = {"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}
    ask = says("", call("AskUserQuestion", questions=[question]))
    reply = says("", call("SendMessage", task_id=CHILD, message="red"))
    main = [says("", SEND), LATER, reply, says("I said red."), says("I said red.")]
    async with scripted(tmp_path, store=numbered(), main=main, Talker=[ask, says("red it is")]) as gen:
        outcome = await gen.ask("go").outcome()
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "THE ANSWER\n\nI said red.")


async def test_an_agent_that_is_steered_in_its_last_reply_hands_back_both(tmp_path: Path) -> None:
    model = Steered("THE ANSWER", "And the tests.")
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "look", background=True)
        await model.hears(gen, handle.id)
        outcome = await handle.result()
        again = await gen.resume(handle.id, "once more")
        assert outcome.output_file is not None
        file = text_of(outcome.output_file)
    assert (outcome.result, again.result) == ("THE ANSWER\n\nAnd the tests.", "And the tests.")
    assert file.count("And the tests.") == 2  # once for each run: a result is not told twice


async def test_a_chat_has_both_answers_as_the_result_of_its_turn(tmp_path: Path) -> None:
    model = Steered("THE ANSWER", "Noted.")
    async with served(tmp_path, model=model) as site:
        begun = (await site.client.post("/api/conversations/web/room", {"text": "go"})).json
        await model.there.wait()
        await site.client.post("/api/conversations/web/room", {"text": "thanks"})
        model.free.set()
        ended = await site.client.ended(begun["sessionId"])
    assert (ended["status"], ended["result"]) == ("completed", "THE ANSWER\n\nNoted.")


@pytest.mark.parametrize(
    ("replies", "status", "result"),
    [
        (("THE ANSWER", "Noted."), Status.COMPLETED, "THE ANSWER\n\nNoted."),
        (("THE ANSWER", "THE ANSWER\n"), Status.COMPLETED, "THE ANSWER"),
        (("THE ANSWER", ""), Status.COMPLETED, "THE ANSWER"),
        (("", "THE ANSWER"), Status.COMPLETED, "THE ANSWER"),
    ],
    ids=["it says more", "it says the same", "it says nothing more", "it had said nothing"],
)
async def test_the_result_of_a_turn_has_all_that_was_answered_in_it(
    tmp_path: Path, replies: tuple[str, ...], status: Status, result: str
) -> None:
    outcome = await Steered(*replies).outcome(tmp_path)
    assert (outcome.status, outcome.result) == (status, result)


async def test_what_was_answered_stays_when_the_model_fails_after_it(tmp_path: Path) -> None:
    outcome = await Steered("THE ANSWER", "One more thing.", spoken=2).outcome(tmp_path)
    assert (outcome.status, outcome.result) == (Status.FAILED, "THE ANSWER\n\nOne more thing.")


async def test_what_came_with_calls_is_no_answer(tmp_path: Path) -> None:
    model = Steered("Let me look.", "It is empty.", calls=(ToolCall("c1", "LS", {"path": "."}),))
    outcome = await model.outcome(tmp_path)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "It is empty.")


async def test_what_a_schema_asks_for_is_the_last_reply(tmp_path: Path) -> None:
    model = Steered('{"a": 1}', '{"a": 2}')
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        schema = {"type": "object", "required": ["a"]}
        handle = await gen.task("Explore", "look", background=True, output_schema=schema)
        await model.hears(gen, handle.id)
        outcome = await handle.result()
    assert (outcome.result, outcome.output) == ('{"a": 2}', {"a": 2})
