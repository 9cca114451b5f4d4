"""What agents ask reaches the person at the client, in both eras, and an ask that nobody hears is a no."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Inquiry, Option, Question
from gencode.core.rules import Action, Decision
from gencode.core.status import stop_cause
from gencode.interfaces.mcp_server.elicitation import LONGEST, answer_from, can_elicit, elicitation
from gencode.testing import call, says
from tests.interfaces.mcp_server.offices import ERAS, MODERN, WRITES, office, report, task_of
from tests.interfaces.mcp_server.person import NO, YES, Person


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("person", "made"),
    [
        (Person({"answer": YES}), True),
        (Person({"answer": NO}), False),
        (Person({"answer": NO, "instead": "Read it first."}), False),
        (Person({"answer": "nonsense"}), False),
        (Person({}), False),
        (Person(None, "decline"), False),
        (Person(None, "cancel"), False),
    ],
)
async def test_a_permission_question_of_a_child_is_answered_by_elicitation(
    tmp_path: Path, era: str, person: Person, made: bool
) -> None:
    person.shown.clear()
    agents = {"*": WRITES}
    async with office(tmp_path, agents) as here, here.client(era, elicitation_callback=person) as client:
        result = await client.call_tool("Task", {"subagent_type": "general-purpose", "prompt": "Write"})
    assert (report(result), (tmp_path / "made.txt").exists()) == ("Done.", made)
    (shown,) = person.shown
    assert isinstance(shown, types.ElicitRequestFormParams)
    assert shown.message.startswith("general-purpose needs approval to use Write\nmade.txt\n")
    assert "+made" in shown.message
    offered = shown.requested_schema["properties"]["answer"]["enum"]
    assert (offered[0], offered[-1]) == (YES, NO)
    assert [each for each in offered if "always" in each or "session" in each] == []


@pytest.mark.parametrize("era", ERAS)
async def test_without_elicitation_an_ask_is_a_deny(tmp_path: Path, era: str) -> None:
    async with office(tmp_path, {"*": WRITES}) as here, here.client(era) as client:
        result = await client.call_tool("Task", {"subagent_type": "general-purpose", "prompt": "Write"})
    assert (report(result), (tmp_path / "made.txt").exists()) == ("Done.", False)


async def test_a_task_in_the_background_asks_nobody(tmp_path: Path) -> None:
    person = Person({"answer": YES})
    wish = {"subagent_type": "general-purpose", "prompt": "x", "run_in_background": True}
    agents = {"*": WRITES}
    async with office(tmp_path, agents) as here, here.client(elicitation_callback=person) as client:
        begun = await client.call_tool("Task", wish)
        await client.call_tool("TaskOutput", {"task_id": task_of(begun)})
    assert (person.shown, (tmp_path / "made.txt").exists()) == ([], False)


@pytest.mark.parametrize("era", ERAS)
async def test_what_an_agent_wants_to_know_is_asked_as_a_form(tmp_path: Path, era: str) -> None:
    options = [{"label": "SQLite", "description": "a file"}, {"label": "Postgres"}]
    asked = [{"question": "Which database?", "options": options}, {"question": "Which name?"}]
    turns = [says("", call("AskUserQuestion", questions=asked)), says("Noted.")]
    person = Person({"answer_0": "Postgres", "other_1": "orders"})
    agents = {"*": turns}
    async with office(tmp_path, agents) as here, here.client(era, elicitation_callback=person) as client:
        await client.call_tool("Task", {"subagent_type": "general-purpose", "prompt": "Ask"})
        gen = await here.rooms.at(tmp_path)
        (task,) = await gen.tasks()
        told = str((await gen.show(task.agent_id)).transcript)
    assert "- Which database? → Postgres" in told
    assert "- Which name? → orders" in told


async def test_a_state_that_was_guessed_answers_nothing(tmp_path: Path) -> None:
    wish = ("Task", {"subagent_type": "general-purpose", "prompt": "Write"})
    agents, person = {"*": WRITES}, Person({"answer": YES})
    async with office(tmp_path, agents) as here, here.client(MODERN, elicitation_callback=person) as client:
        first = await client.session.call_tool(*wish, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(*wish, request_state="guessed", allow_input_required=True)
        gen = await here.rooms.at(tmp_path)
        (job,) = gen.running
        job.stop.stop(stop_cause("the test is over"))
        await asyncio.wait_for(job.ended(), 60)
    assert (person.shown, (tmp_path / "made.txt").exists()) == ([], False)


def question(command: str = "ls", **more: Any) -> Question:
    decision = Decision(Action.ASK, "Nothing allows it.")
    return Question("1", "Bash", ToolCall("c", "Bash", {"command": command}), decision, ("Bash",), **more)


def test_a_question_that_cannot_be_shown_whole_is_not_shown() -> None:
    assert elicitation(question("echo " + "x" * LONGEST)) is None


def test_what_cannot_be_seen_is_spelled_in_a_question() -> None:
    asked = elicitation(question("echo \u202egnp.exe\u200b\x1b[2J"))
    assert asked is not None
    assert "\\u202egnp.exe\\u200b\\x1b[2J" in asked.params.message


@pytest.mark.parametrize(
    ("chosen", "answer"),
    [
        (YES, Answer(True)),
        ("approve once, with network access", Answer(True, network=True)),
        ("approve for this agent", Answer(True, "agent")),
        ("approve for all agents in this session", Answer(False)),
        ("always approve, in every folder", Answer(False)),
        (True, Answer(False)),
    ],
)
def test_only_what_was_offered_is_a_yes(chosen: object, answer: Answer) -> None:
    said = types.ElicitResult.model_construct(action="accept", content={"answer": chosen})
    assert answer_from(question(rules=("Bash(ls)",)), said) == answer


def inquired(*inquiries: Inquiry) -> Question:
    return question(inquiries=inquiries)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ({"answer_0": "a"}, Answer(True, words=("a",))),
        ({"answer_0": "a", "other_0": " mine "}, Answer(True, words=("mine",))),
        ({"other_0": ["a", "b"]}, Answer(True, words=("a, b",))),
        ({"answer_0": ""}, Answer(False, why="The user left the answer empty")),
        ({}, Answer(False, why="The user left the answer empty")),
    ],
)
def test_own_words_come_before_what_was_offered(content: dict[str, Any], answer: Answer) -> None:
    said = types.ElicitResult.model_construct(action="accept", content=content)
    assert answer_from(inquired(Inquiry("Which?", options=(Option("a"), Option("b")))), said) == answer


@pytest.mark.parametrize(
    ("told", "can"),
    [
        ({}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
    ],
)
def test_only_a_client_with_forms_can_ask(told: dict[str, Any], can: bool) -> None:
    read: Callable[[Any], types.ClientCapabilities] = types.ClientCapabilities.model_validate
    assert can_elicit(read(told)) is can
