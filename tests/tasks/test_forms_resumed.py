"""Results in a form, of agents that go on: what is asked for now counts, until something else is."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.final_answer import form_notice
from gencode.app import GenCode, components
from gencode.core.errors import UserMistake
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.tasks.fork import Fork
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as typed
from tests.interfaces.http.serving import served
from tests.interfaces.mcp_server.offices import office, report, task_of, text
from tests.stories.detached_agent import wait_for, worker_of
from tests.tasks.form_agent import agent
from tests.tasks.isolated_agent import played
from tests.tasks.words import numbered, results, said

FILES: dict[str, Any] = {"type": "object", "required": ["files"]}
COUNT: dict[str, Any] = {"type": "object", "required": ["count"]}
NO_SCHEMA: dict[str, Any] = {"type": "banana"}
REFUSAL = 'This is not a JSON Schema at $.type: "banana" is no type'
LISTED = '{"files": ["a.py"]}'
COUNTED = 'So many:\n```json\n{"count": 1}\n```'


async def forms_told(gen: GenCode, task: str) -> list[Any]:
    """The schemas that an agent was told of, in order."""
    return [notice.schema for each in await said(gen, task) if (notice := form_notice(each))]


async def test_an_agent_that_goes_on_answers_in_the_form_that_is_asked_for_now(tmp_path: Path) -> None:
    turns = [says("words"), says("more words"), says(LISTED), says(LISTED), says(COUNTED)]
    async with scripted(tmp_path, Explore=turns) as gen:
        first = await gen.task("Explore", "look")
        listed = await gen.resume(first.agent_id, "as a list", output_schema=FILES)
        counted = await gen.resume(first.agent_id, "how many?", output_schema=COUNT)
        told = await forms_told(gen, first.agent_id)
    assert (first.result, first.output) == ("words", None)
    assert (listed.status, listed.turns, listed.output) == (Status.COMPLETED, 3, {"files": ["a.py"]})
    assert (counted.status, counted.turns, counted.output) == (Status.COMPLETED, 5, {"count": 1})
    assert (counted.result, told) == (COUNTED, [FILES, COUNT])


async def test_a_result_that_does_not_fit_is_repaired_at_most_twice_each_time(tmp_path: Path) -> None:
    turns = [says("w1"), says("w2"), says(LISTED), says("w3"), says("w4"), says("w5"), says(COUNTED)]
    async with scripted(tmp_path, Explore=turns) as gen:
        first = await gen.task("Explore", "look", output_schema=FILES)
        again = await gen.resume(first.agent_id, "how many?", output_schema=COUNT)
    assert (first.status, first.output) == (Status.COMPLETED, {"files": ["a.py"]})
    assert (again.status, again.turns, again.result, again.output) == (Status.FAILED, 6, "w5", None)
    assert again.error == "its result does not fit the schema: There is no JSON value in the reply."


async def test_the_last_form_counts_until_another_one_is_asked_for(tmp_path: Path) -> None:
    turns = [says(LISTED), says(COUNTED), says("words"), says(COUNTED), says(COUNTED)]
    async with scripted(tmp_path, Explore=turns) as gen:
        task = (await gen.task("Explore", "look", output_schema=FILES)).agent_id
        await gen.resume(task, "how many?", output_schema=COUNT)
        resumed = await gen.resume(task, "sure?")
        await components(gen).tasks.service.send(task, "and now?", here=True)
        woken = await gen.history.ended(task, 60)
        told = await forms_told(gen, task)
    assert (resumed.turns, resumed.output) == (4, {"count": 1})
    assert (woken.totals.turns, woken.end.output, woken.terms.output_schema) == (5, {"count": 1}, COUNT)
    assert told == [FILES, COUNT]


async def test_what_is_asked_for_goes_before_what_the_file_of_the_agent_says(
    tmp_path: Path, home: Path
) -> None:
    agent(home, "lister", FILES)
    async with scripted(tmp_path, lister=[says(LISTED), says(COUNTED)]) as gen:
        first = await gen.task("lister", "look")
        again = await gen.resume(first.agent_id, "how many?", output_schema=COUNT)
    assert (first.output, again.output) == ({"files": ["a.py"]}, {"count": 1})


async def test_a_model_may_ask_an_agent_that_goes_on_for_another_form(tmp_path: Path) -> None:
    def sends(**more: Any) -> Any:
        return says("", call("Task", subagent_type="Explore", prompt="look", **more))

    main = [
        sends(output_schema=FILES),
        sends(resume="00000002", output_schema=NO_SCHEMA),
        sends(resume="00000002", output_schema=COUNT),
        says("ok"),
    ]
    explore = [says(LISTED), says("words"), says(COUNTED)]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        listed, refused, counted = results(await said(gen, outcome.agent_id))
        child = await gen.get("00000002")
    assert (listed, REFUSAL in refused, counted) == (LISTED, True, COUNTED)
    assert (child.turns, child.output) == (3, {"count": 1})


async def test_what_is_no_schema_is_refused_and_nothing_goes_on(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("done")]) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        before = await gen.history.events(task)
        request = TaskRequest("", "again", resume=task, background=True, output_schema=NO_SCHEMA)
        with pytest.raises(UserMistake) as refused:
            await gen.resume(task, "again", output_schema=NO_SCHEMA)
        with pytest.raises(UserMistake) as refused_apart:
            await components(gen).tasks.service.detach(request)
        assert await gen.history.events(task) == before
    assert str(refused.value).startswith(REFUSAL)
    assert str(refused_apart.value) == str(refused.value)


async def test_a_conversation_has_the_form_of_the_agent_that_leads_it_and_gets_no_other(
    tmp_path: Path,
) -> None:
    async with scripted(tmp_path, main=[says("hello")]) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        with pytest.raises(UserMistake, match="is a conversation.*output-schema"):
            await gen.resume(session, "again", output_schema=FILES)
        assert (await gen.get(session)).turns == 1


async def test_a_fork_has_the_form_that_counted_where_it_begins(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("words"), says(LISTED), says(LISTED)]) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        ended = len(await gen.history.events(task))
        await gen.resume(task, "as a list", output_schema=FILES)
        before = await gen.fork(task, "another way", at=ended)
        after = await gen.fork(task, "another way")
    assert (before.status, before.output) == (Status.COMPLETED, None)
    assert (after.status, after.output) == (Status.COMPLETED, {"files": ["a.py"]})


async def test_a_fork_apart_has_the_form_that_counted_where_it_begins(tmp_path: Path) -> None:
    model = played(tmp_path, Explore=[{"text": "words"}, {"text": LISTED}, {"text": LISTED}])
    async with GenCode.open(tmp_path, model=model) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        ended = len(await gen.history.events(task))
        await gen.resume(task, "as a list", output_schema=FILES)
        forks = [(await gen.detach_fork(task, Fork(at), TaskRequest("", "on")))[0] for at in (ended, None)]
        before, after = [await gen.history.ended(each, 60) for each in forks]
    assert (before.status, before.end.output) == (Status.COMPLETED, None)
    assert (after.status, after.end.output) == (Status.COMPLETED, {"files": ["a.py"]})


def asked(folder: Path, schema: dict[str, Any]) -> tuple[str, str]:
    """The option that names a file with this schema."""
    file = folder / "schema.json"
    file.write_text(json.dumps(schema))
    return "--output-schema", str(file)


def _resumed(task: str, *words: str) -> tuple[str, ...]:
    return "task", "resume", task, "again", "--json", *words


def _run_again(task: str, *words: str) -> tuple[str, ...]:
    return "task", "run", "Explore", "again", "--resume", task, "--json", *words


@pytest.mark.parametrize("verb", [_resumed, _run_again])
def test_the_command_line_takes_a_schema_for_a_task_that_goes_on(
    tmp_path: Path, verb: Callable[..., tuple[str, ...]]
) -> None:
    model = played(tmp_path, Explore=[{"text": LISTED}, {"text": "words"}, {"text": COUNTED}])
    first = typed("task", "run", "Explore", "look", "--json", "--model", model, cwd=tmp_path).json
    refused = typed(*verb(first["agentId"], *asked(tmp_path, NO_SCHEMA)), cwd=tmp_path)
    again = typed(*verb(first["agentId"], *asked(tmp_path, COUNT)), cwd=tmp_path)
    assert (refused.code, refused.out, REFUSAL in refused.err) == (2, "", True)
    assert (first["turns"], first["output"]) == (1, None)
    assert (again.code, again.json["turns"], again.json["output"]) == (0, 3, {"count": 1})


def test_a_form_is_kept_by_whoever_goes_on_after_a_crash(tmp_path: Path, home: Path) -> None:
    look = {"text": "I look.", "calls": [{"name": "LS", "input": {"path": "."}}]}
    model = played(tmp_path, Explore=[{"text": "words"}, look, {"text": "late", "delay_ms": 60_000}])
    task = typed("task", "run", "Explore", "look", "--json", "--model", model, cwd=tmp_path).json["agentId"]
    typed(*_resumed(task, "--background", *asked(tmp_path, COUNT)), cwd=tmp_path)
    wait_for(tmp_path, task, turns=2)
    os.kill(worker_of(home, task), signal.SIGKILL)
    played(tmp_path, Explore=[{"text": "words"}, look, {"text": LISTED}, {"text": COUNTED}])
    again = typed("task", "resume", task, "go on", "--json", cwd=tmp_path)
    assert (again.code, again.json["turns"], again.json["output"]) == (0, 4, {"count": 1})


async def test_over_http_a_task_goes_on_in_another_form(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says(LISTED), says("words"), says(COUNTED)]) as site:
        begun = await site.client.post("/api/tasks", {"agent": "Explore", "prompt": "look"})
        task = begun.json["agentId"]
        await site.client.ended(task)
        way = f"/api/tasks/{task}/resume"
        refused = await site.client.post(way, {"prompt": "again", "outputSchema": NO_SCHEMA})
        await site.client.post(way, {"prompt": "again", "outputSchema": COUNT})
        ended = await site.client.ended(task)
    assert (refused.status, REFUSAL in refused.json["error"]) == (400, True)
    assert (ended["turns"], ended["output"]) == (3, {"count": 1})


async def test_for_another_assistant_an_agent_goes_on_in_another_form(tmp_path: Path) -> None:
    words: dict[str, Any] = {"subagent_type": "Explore", "prompt": "look"}
    turns = [says(LISTED), says("words"), says(COUNTED)]
    async with office(tmp_path, {"Explore": turns}) as here, here.client() as client:
        task = task_of(await client.call_tool("Task", words))
        words["resume"] = task
        refused = await client.call_tool("Task", {**words, "output_schema": NO_SCHEMA})
        counted = await client.call_tool("Task", {**words, "output_schema": COUNT})
    assert (refused.is_error, REFUSAL in text(refused)) == (True, True)
    assert report(counted) == COUNTED
