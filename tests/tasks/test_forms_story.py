"""Results in a form: of agents that are sent, of one that leads a conversation, and schemas that do harm."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gencode.agent import output_schema as parse_answer
from gencode.agent.final_answer import JSON_FORM, TEXT_FORM
from gencode.agents import lint as linting
from gencode.agents.lint import lint
from gencode.core.errors import UserMistake
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.tasks.fork import Fork
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as typed
from tests.tasks.form_agent import agent
from tests.tasks.isolated_agent import played
from tests.tasks.words import heard, results, said

SCHEMA: dict[str, Any] = {"type": "object", "required": ["files"]}
FITS = '{"files": ["a.py"]}'
PAIRS: dict[str, Any] = {
    f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2, "unevaluatedProperties": False} for n in range(40)
}
BOMB: dict[str, Any] = {"$ref": "#/$defs/d0", "$defs": {**PAIRS, "d40": {"properties": {"a": True}}}}
"""Every part asks for the next one twice, and each has to know all that the others look at."""
EXPENSIVE = "This output schema is too expensive to check"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_answer, "SECONDS", 1)


async def test_a_conversation_answers_in_the_form_of_the_agent_that_leads_it(
    tmp_path: Path, home: Path
) -> None:
    agent(home, "lister", SCHEMA)
    turns = [says("words"), says(FITS), says("w1"), says("w2"), says("w3")]
    async with scripted(tmp_path, lister=turns) as gen:
        first = await gen.ask("which?", agent="lister").outcome()
        told = [each.text for each in heard(await said(gen, first.agent_id))]
        again = await gen.ask("and now?", session=first.agent_id, agent="lister").outcome()
    assert (first.status, first.turns, first.output) == (Status.COMPLETED, 2, {"files": ["a.py"]})
    assert [text.partition(":")[0] for text in told] == [
        "which?",
        JSON_FORM.partition(":")[0],
        "[There is no JSON value in the reply. Answer again with the whole JSON value and nothing else.]",
    ]
    assert (again.status, again.result, again.output) == (Status.FAILED, "w3", None)
    assert again.error == "its result does not fit the schema: There is no JSON value in the reply."


async def test_a_reply_without_words_is_repaired_like_any_other_that_does_not_fit(tmp_path: Path) -> None:
    for turns, ended in (
        ([says(""), says(" "), says(FITS)], (Status.COMPLETED, 3, {"files": ["a.py"]}, None)),
        ([says(""), says(""), says(""), says(FITS)], (Status.EMPTY, 3, None, None)),
    ):
        async with scripted(tmp_path, Explore=turns) as gen:
            outcome = await gen.task("Explore", "which?", output_schema=SCHEMA)
            told = [each.text for each in heard(await said(gen, outcome.agent_id))]
        assert (outcome.status, outcome.turns, outcome.output, outcome.error) == ended
        again = "Answer again with the whole JSON value and nothing else."
        assert told[2:] == [f"[The reply is empty; it should be a JSON value. {again}]"] * 2


async def test_the_form_counts_as_long_as_its_agent_leads_the_conversation(
    tmp_path: Path, home: Path
) -> None:
    agent(home, "lister", SCHEMA)
    async with scripted(
        tmp_path, lister=[says(FITS), says("-"), says(FITS)], main=[says("-"), says("free")]
    ) as gen:
        session = (await gen.ask("1", agent="lister").outcome()).agent_id
        free = await gen.ask("2", session=session).outcome()
        bound = await gen.ask("3", session=session, agent="lister").outcome()
        told = [each.text for each in heard(await said(gen, session))]
    assert (free.status, free.result, free.output) == (Status.COMPLETED, "free", None)
    assert (bound.status, bound.output) == (Status.COMPLETED, {"files": ["a.py"]})
    assert [text for text in told if text == TEXT_FORM or text.startswith(JSON_FORM.partition("{")[0])] == [
        told[1],
        TEXT_FORM,
        told[1],
    ]


@pytest.mark.parametrize("schema", [{"type": "objekt"}, BOMB], ids=["none", "expensive"])
async def test_a_conversation_whose_leader_has_no_usable_schema_does_not_begin(
    tmp_path: Path, home: Path, soon: None, schema: dict[str, Any]
) -> None:
    agent(home, "lister", schema)
    async with scripted(tmp_path, lister=[says("never")]) as gen:
        with pytest.raises(UserMistake, match="schema|JSON Schema"):
            await gen.ask("which?", agent="lister").outcome()
        assert await gen.tasks() == []


def test_the_answer_in_json_has_the_value(tmp_path: Path, home: Path) -> None:
    agent(home, "lister", SCHEMA)
    model = played(tmp_path, lister=[{"text": "words"}, {"text": FITS}], main=[{"text": "hello"}])
    words = ("-p", "which?", "--model", model, "--output-format")
    one = typed(*words, "json", "--agent", "lister", cwd=tmp_path)
    lines = typed(*words, "stream-json", "--agent", "lister", cwd=tmp_path).out.splitlines()
    free = typed(*words, "json", cwd=tmp_path)
    assert (one.code, one.json["status"], one.json["output"]) == (0, "completed", {"files": ["a.py"]})
    assert json.loads(lines[-1])["output"] == {"files": ["a.py"]}
    assert (free.code, "output" in free.json) == (0, False)


def test_an_answer_that_never_fits_is_a_failure(tmp_path: Path, home: Path) -> None:
    agent(home, "lister", SCHEMA)
    model = played(tmp_path, lister=[{"text": "words"}] * 3)
    ended = typed(
        *("-p", "which?", "--model", model, "--output-format", "json", "--agent", "lister"), cwd=tmp_path
    )
    assert ended.code == 1
    assert (ended.json["status"], ended.json["result"], "output" in ended.json) == ("failed", "words", False)


async def test_a_model_that_asks_for_a_schema_made_to_be_slow_is_told_so(tmp_path: Path, soon: None) -> None:
    sent = [
        call("Task", subagent_type="Explore", prompt="look", output_schema=BOMB),
        call("Task", subagent_type="Explore", prompt="look", output_schema=SCHEMA),
    ]
    async with scripted(tmp_path, main=[says("", *sent), says("ok")], Explore=[says(FITS)]) as gen:
        outcome = await gen.ask("go").outcome()
        refused, given = results(await said(gen, outcome.agent_id))
        (child,) = await gen.tasks()
    assert EXPENSIVE in refused
    assert FITS in given
    assert child.output == {"files": ["a.py"]}


async def test_everything_else_goes_on_while_a_schema_is_looked_at(tmp_path: Path, soon: None) -> None:
    steps = 0
    async with scripted(tmp_path, Explore=[says("never")]) as gen:
        asked = asyncio.ensure_future(gen.task("Explore", "look", output_schema=BOMB))
        while not asked.done():
            await asyncio.sleep(0.01)
            steps += 1
        with pytest.raises(UserMistake, match=EXPENSIVE):
            await asked
    assert steps > 10


@pytest.mark.parametrize("schema", [{"type": "banana"}, BOMB], ids=["none", "expensive"])
async def test_a_fork_is_refused_a_schema_that_is_none(
    tmp_path: Path, soon: None, schema: dict[str, Any]
) -> None:
    async with scripted(tmp_path, Explore=[says("done")]) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        with pytest.raises(UserMistake, match="(?i)schema"):
            await gen.fork(task, "again", output_schema=schema)
        with pytest.raises(UserMistake, match="(?i)schema"):
            await gen.detach_fork(task, Fork(), TaskRequest("", "again", output_schema=schema))
        assert [each.agent_id for each in await gen.tasks()] == [task]


def test_the_command_line_refuses_a_schema_made_to_end_it(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(BOMB))
    ended = typed("task", "run", "Explore", "look", "--output-schema", str(file), cwd=tmp_path)
    assert (ended.code, EXPENSIVE in ended.err) == (2, True)


def test_the_linter_says_which_schemas_are_too_expensive(tmp_path: Path, soon: None) -> None:
    (file,) = lint([agent(tmp_path, "a", BOMB)]).files
    (found,) = file.findings
    assert (found.code, found.message.startswith(EXPENSIVE)) == ("schema-invalid", True)


def test_the_linter_has_only_so_much_time_for_all_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(tmp_path, "a", {"type": "object"})
    agent(tmp_path, "b", {"type": "objekt"})
    monkeypatch.setattr(linting, "SCHEMA_SECONDS", 1e-9)
    first, second = lint([tmp_path]).files
    assert ([each.code for each in first.findings], [each.code for each in second.findings]) == (
        [],
        ["schema-unchecked"],
    )
