"""Subagents that start with all that their parent knows: `Task` with the context fork."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.agent.ports import Request
from gencode.core.errors import UserMistake
from gencode.core.messages import AssistantMessage, Part, ToolMessage, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, Turns, call, reported, says

WORK = "count the words"
FREE = {"permission_mode": "dontAsk"}


def fork(**more: Any) -> Mapping[str, Any]:
    """The call that starts a fork."""
    return call("Task", subagent_type="general-purpose", context="fork", prompt=WORK, **more)


class Forking:
    """Plays one script for a conversation, and another for what its forks say after their own task."""

    def __init__(self, main: Turns, forks: Turns) -> None:
        self._main = ScriptedProvider.of({"*": main})
        self._forks = ScriptedProvider.of({"*": forks})
        self.requests: list[Request] = []
        self.of_forks: list[Request] = []

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Let the script answer that the request belongs to."""
        begins = next((at for at, each in enumerate(request.messages) if is_said(each, WORK)), None)
        if begins is None:
            self.requests.append(replaced(request, request.messages))
            return self._main.stream(request)
        self.of_forks.append(replaced(request, request.messages))
        own = request.messages[begins:]
        return self._forks.stream(replaced(request, own))


def is_said(message: object, text: str) -> bool:
    """Whether somebody said exactly this to an agent."""
    return isinstance(message, UserMessage) and message.text == text


def replaced(request: Request, messages: Sequence[Any]) -> Request:
    """A request with other messages."""
    return Request(request.model, request.system, tuple(messages), request.tools, agent=request.agent)


async def played(
    folder: Path, main: Turns, forks: Turns, **settings: Any
) -> tuple[Outcome, list[Outcome], Forking]:
    """What becomes of a conversation and its forks."""
    model = Forking(main, forks)
    async with GenCode.open(folder, model=model, store=MemoryStore(), settings={**FREE, **settings}) as gen:
        outcome = await gen.ask("look at this").outcome()
        children = list(await gen.tasks(parent=outcome.agent_id))
    return outcome, children, model


def answers(model: Forking) -> list[str]:
    """What the conversation read as the results of its last calls."""
    last = next(each for each in reversed(model.requests[-1].messages) if isinstance(each, ToolMessage))
    return [reported(each.text) for each in last.results]


async def test_a_fork_knows_what_was_said_before_and_reports_like_any_subagent(tmp_path: Path) -> None:
    main = [says("", call("LS", path=".")), says("I start one.", fork()), says("done")]
    outcome, (child,), model = await played(tmp_path, main, [says("42 words")])
    assert (outcome.result, child.result, child.status) == ("done", "42 words", Status.COMPLETED)
    assert (child.agent, child.forked_from, child.parent_id) == ("main", *[outcome.agent_id] * 2)
    assert answers(model) == ["42 words"]
    seen = model.of_forks[0].messages
    assert [each.text for each in seen if isinstance(each, AssistantMessage)] == ["", "I start one."]
    assert is_said(seen[-1], WORK)


async def test_forks_share_the_whole_request_of_their_parent_as_a_prefix(tmp_path: Path) -> None:
    main = [says("", call("LS", path=".")), says("", fork(), fork()), says("done")]
    _, children, model = await played(tmp_path, main, [says("42 words")])
    before, (one, two) = model.requests[1], model.of_forks
    for each in (one, two):
        assert (each.system, each.tools) == (before.system, before.tools)
        assert each.messages[: len(before.messages)] == before.messages
    assert len(children) == 2
    assert one.messages == two.messages


async def test_a_fork_may_do_what_its_parent_may_and_start_nobody(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("a b c\n")
    main = [says("", call("Read", file_path="old.txt")), says("", fork()), says("done")]
    edit = call("Edit", file_path="old.txt", old_string="a b c", new_string="d")
    forks = [says("", edit), says("", fork()), says("", call("Task", subagent_type="Explore", prompt="x"))]
    _, (child,), model = await played(tmp_path, main, [*forks, says("over")])
    assert (tmp_path / "old.txt").read_text() == "d\n"
    assert [each.tool for each in child.evidence.refused] == ["Task", "Task"]
    assert child.status is Status.COMPLETED
    assert any(each.name == "Task" for each in model.of_forks[0].tools)


@pytest.mark.parametrize("rule", ["Task(fork)", "Task"])
async def test_a_rule_can_deny_forks(tmp_path: Path, rule: str) -> None:
    main = [says("", fork()), says("done")]
    outcome, children, _ = await played(tmp_path, main, [says("42 words")], deny=[rule])
    assert (children, outcome.result) == ([], "done")


@pytest.mark.parametrize(
    "arguments",
    [
        {"context": "fork", "isolation": "process"},
        {"context": "none"},
        {"context": "fork", "resume": "0badc0de"},
    ],
)
async def test_a_call_that_is_half_a_fork_starts_nothing(tmp_path: Path, arguments: dict[str, str]) -> None:
    main = [says("", call("Task", subagent_type="Explore", prompt=WORK, **arguments)), says("done")]
    _, children, model = await played(tmp_path, main, [says("42 words")])
    last = model.requests[-1].messages[-1]
    assert children == [] and isinstance(last, ToolMessage) and last.results[0].error


async def test_a_fork_can_be_resumed_by_its_parent_with_the_same_tools(tmp_path: Path) -> None:
    model = Forking([says("", fork()), says("done")], [says("42 words"), says("43 words")])
    async with GenCode.open(tmp_path, model=model, store=MemoryStore(), settings=FREE) as gen:
        outcome = await gen.ask("look at this").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        again = await gen.resume(child.agent_id, "and now?")
    first, second = model.of_forks
    assert (again.agent_id, again.result) == (child.agent_id, "43 words")
    assert (first.system, first.tools) == (second.system, second.tools)
    assert second.messages[: len(first.messages)] == first.messages


async def test_a_fork_in_the_background_is_announced_to_its_parent(tmp_path: Path) -> None:
    main = [says("", fork(run_in_background=True)), says("I wait."), says("done")]
    outcome, (child,), model = await played(tmp_path, main, [says("42 words", delay_ms=200)])
    assert (outcome.result, child.background, child.result) == ("done", True, "42 words")
    said = [each for each in model.requests[-1].messages if isinstance(each, UserMessage)]
    assert [each.delivers for each in said if each.delivers] == [(child.agent_id,)]


async def test_a_fork_is_bounded_by_its_own_schema_and_turns(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["words"], "properties": {"words": {"type": "integer"}}}
    main = [says("", fork(output_schema=schema)), says("done")]
    _, (child,), _ = await played(tmp_path, main, [says('{"words": 42}')])
    assert child.output == {"words": 42}


async def test_a_person_starts_a_subagent_that_knows_the_conversation_and_its_result_comes_there(
    tmp_path: Path,
) -> None:
    model = Forking([says("hello"), says("I heard of it")], [says("42 words")])
    async with GenCode.open(tmp_path, model=model, store=MemoryStore(), settings=FREE) as gen:
        session = (await gen.ask("look at this").outcome()).agent_id
        child = await (await gen.fork(session, WORK, background=True)).result()
        told = await gen.has_news(await gen.find(session))
        answer = await gen.ask("and?", session=session).outcome()
    said = [each for each in model.requests[-1].messages if isinstance(each, UserMessage)]
    assert (child.parent_id, child.result, told, answer.result) == (
        session,
        "42 words",
        True,
        "I heard of it",
    )
    assert [each.delivers for each in said if each.delivers] == [(child.agent_id,)]
    assert model.of_forks[0].messages[: len(model.requests[0].messages)] == model.requests[0].messages


async def test_a_forked_conversation_goes_on_by_itself_and_the_original_stays(tmp_path: Path) -> None:
    heard = Overhearing(ScriptedProvider.of({"*": [says("one"), says("two"), says("three")]}))
    async with GenCode.open(tmp_path, model=heard, store=MemoryStore(), settings=FREE) as gen:
        first = await gen.ask("begin").outcome()
        copy = await gen.fork_session(first.agent_id)
        other = await gen.ask("another way", session=copy.agent_id).outcome()
        same = await gen.ask("go on", session=first.agent_id).outcome()
        listed = await gen.history.tasks(TaskQuery(conversations=True))
    assert (copy.status, copy.forked_from, copy.prompt) == (Status.COMPLETED, first.agent_id, "begin")
    assert (other.result, same.result) == ("two", "two")
    assert {each.id for each in listed} == {first.agent_id, copy.agent_id}
    _, forked, original = heard.requests
    assert (forked.system, forked.tools) == (original.system, original.tools)
    assert forked.messages[:2] == original.messages[:2]
    assert is_said(forked.messages[-1], "another way")


async def test_a_conversation_is_forked_at_an_earlier_event_only_where_there_is_one(tmp_path: Path) -> None:
    heard = Overhearing(ScriptedProvider.of({"*": [says("one"), says("two"), says("three")]}))
    async with GenCode.open(tmp_path, model=heard, store=MemoryStore(), settings=FREE) as gen:
        first = (await gen.ask("begin").outcome()).agent_id
        after_one = (await gen.history.events(first))[-1].seq
        await gen.ask("go on", session=first).outcome()
        copy = await gen.fork_session(first, at=after_one)
        await gen.ask("another way", session=copy.agent_id).outcome()
        for at in (0, -1, 999):
            with pytest.raises(UserMistake):
                await gen.fork_session(first, at=at)
        with pytest.raises(UserMistake):
            await gen.fork(first, WORK, at=1)
        with pytest.raises(UserMistake):
            await gen.fork_session("0badc0de")
    texts = [each.text for each in heard.requests[-1].messages if isinstance(each, AssistantMessage)]
    assert texts == ["one"]
