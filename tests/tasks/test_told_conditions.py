"""What agents are told of the world they work in, by the requests that reach their models."""

import subprocess
from pathlib import Path

import pytest
from msgspec.json import encode

from gencode import GenCode
from gencode.agent.ports import Request
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.questions import Answer, Question
from gencode.core.rules import Mode
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says
from gencode.tools.start_agent import REFUSED_THERE

READERS = ("Explore", "Plan", "Review", "researcher")


class Approver:
    async def ask(self, question: Question) -> Answer:
        return Answer(True)


def tokens(request: Request) -> int:
    tools = [
        {"name": each.name, "description": each.description, "parameters": each.parameters}
        for each in request.tools
    ]
    said = [each.text for each in request.messages if isinstance(each, UserMessage)]
    return len(encode([request.system, tools, said])) // 4


def begin_repository(folder: Path) -> None:
    for words in (
        ("init", "--quiet", "--initial-branch", "trunk"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "Begin"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


async def first_requests(folder: Path, *agents: str, approver: bool = True) -> list[Request]:
    """The first request of `gen -p hi`, or those of agents that are sent side by side."""
    sends = [
        call("Task", subagent_type=name, description=f"{at}", prompt=f"Find {at}.")
        for at, name in enumerate(agents)
    ]
    turns = {"main": [says("", *sends), says("ok")] if agents else [says("ok")], "*": [says("found")]}
    provider = Overhearing(ScriptedProvider.of(turns))
    asker = Approver() if approver else None
    async with GenCode.open(folder, model=provider, store=MemoryStore(), asker=asker) as gen:
        await gen.ask("hi").outcome()
    return [each for each in provider.requests if each.sent] if agents else provider.requests[:1]


async def test_agents_of_a_kind_share_their_whole_prompt(tmp_path: Path) -> None:
    first, second = await first_requests(tmp_path, "Explore", "Explore")
    assert (first.system.encode(), first.tools) == (second.system.encode(), second.tools)
    assert {first.messages, second.messages} == {(UserMessage("Find 0."),), (UserMessage("Find 1."),)}


async def test_the_first_request_has_room_for_guidance(tmp_path: Path) -> None:
    (request,) = await first_requests(tmp_path)
    guidance = request.system.partition("## Environment")[0].partition("## Commands")[0]
    assert (tokens(request) <= 4_000, len(guidance.encode()) // 4 >= 1_000) == (True, True)


@pytest.mark.parametrize("name", READERS)
async def test_an_agent_that_only_reads_has_a_small_first_request(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a-folder-with-a-long-name" / "and-another-folder-below" / "the-project"
    folder.mkdir(parents=True)
    begin_repository(folder)
    (request,) = await first_requests(folder, name)
    assert tokens(request) <= 1_600
    offered = {each.name: each.parameters["properties"] for each in request.tools}
    assert "network" not in offered.get("Bash", {})


async def test_an_agent_that_changes_files_is_offered_the_network(tmp_path: Path) -> None:
    (request,) = await first_requests(tmp_path)
    offered = {each.name: each.parameters["properties"] for each in request.tools}
    assert "network" in offered["Bash"]


async def test_an_agent_may_start_commands_in_the_background_only_if_it_can_stop_them(tmp_path: Path) -> None:
    for name in ("general-purpose", "Bash", "Explore"):
        (request,) = await first_requests(tmp_path, name)
        offered = {each.name: each.parameters["properties"] for each in request.tools}
        stops = {"TaskOutput", "TaskStop"} <= offered.keys()
        assert ("run_in_background" in offered["Bash"], stops) == (name == "general-purpose",) * 2
        assert "KillShell" not in offered


async def test_whether_anybody_can_approve_is_in_the_prompt(tmp_path: Path) -> None:
    (asked,) = await first_requests(tmp_path)
    (alone,) = await first_requests(tmp_path, approver=False)
    nobody = "nobody can approve anything in this run"
    assert (nobody in asked.system, nobody in alone.system) == (False, True)


async def test_the_state_of_the_repository_is_in_the_prompt(tmp_path: Path) -> None:
    begin_repository(tmp_path)
    (tmp_path / "new.py").write_text("")
    (request,) = await first_requests(tmp_path)
    assert "- Git: branch trunk, 1 file with uncommitted changes, last commit " in request.system


async def test_a_switch_of_the_mode_comes_with_the_next_message_and_leaves_the_prompt(tmp_path: Path) -> None:
    provider = Overhearing(ScriptedProvider.of({"main": [says("one"), says("two"), says("three")]}))
    async with GenCode.open(tmp_path, model=provider, store=MemoryStore(), asker=Approver()) as gen:
        session = (await gen.ask("a").outcome()).agent_id
        gen.switch_mode(Mode.ACCEPT_EDITS)
        await gen.ask("b", session=session).outcome()
        await gen.ask("c", session=session).outcome()
    first, second, third = provider.requests
    assert first.system == second.system == third.system
    said = [each for each in second.messages if isinstance(each, UserMessage)]
    assert (said[-2].sender, said[-1].text) == ("system", "b")
    assert said[-2].text.startswith("[The permissions have changed. Mode now: accept edits.")
    assert [each.text for each in third.messages if isinstance(each, UserMessage)][-2:] == ["b", "c"]


async def test_a_switch_of_the_mode_during_a_turn_comes_with_the_next_results_once(tmp_path: Path) -> None:
    class Switching(Approver):
        async def ask(self, question: Question) -> Answer:
            gen.switch_mode(Mode.PLAN)
            return Answer(True)

    main = [says("", call("Write", file_path="x", content="")), says("one"), says("two")]
    provider = Overhearing(ScriptedProvider.of({"main": main}))
    async with GenCode.open(tmp_path, model=provider, store=MemoryStore(), asker=Switching()) as gen:
        session = (await gen.ask("a").outcome()).agent_id
        await gen.ask("b", session=session).outcome()
    modes: list[list[Mode]] = []
    for request in provider.requests:
        notices = [each.notice for each in request.messages if isinstance(each, UserMessage) and each.notice]
        modes.append([each.conditions.mode for each in notices if each.conditions])
    assert modes == [[], [Mode.PLAN], [Mode.PLAN]]


@pytest.mark.parametrize("approver", [True, False])
async def test_a_parent_reads_that_nobody_approves_calls_in_the_background(
    tmp_path: Path, approver: bool
) -> None:
    """Where nobody approves anything its prompt says so already."""
    sends = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    provider = Overhearing(ScriptedProvider.of({"main": [says("", sends), says("ok")], "*": [says("found")]}))
    asker, quiet = Approver() if approver else None, {"background_questions": False}
    async with GenCode.open(
        tmp_path, model=provider, store=MemoryStore(), asker=asker, settings=quiet
    ) as gen:
        await gen.ask("hi").outcome()
    after = next(each for each in provider.requests if not each.sent and len(each.messages) > 1)
    (started,) = [each for each in after.messages if isinstance(each, ToolMessage)]
    assert (REFUSED_THERE in started.results[0].text) is approver


async def test_a_fork_begins_with_the_prompt_of_its_original(tmp_path: Path) -> None:
    provider = Overhearing(ScriptedProvider.of({"Explore": [says("one")]}))
    async with GenCode.open(tmp_path, model=provider, store=MemoryStore()) as gen:
        task = await gen.task("Explore", "Find it.")
        await gen.fork(task.agent_id, "Look again.")
    first, second = provider.requests
    assert (first.system, first.tools) == (second.system, second.tools)
    assert encode(second.messages).startswith(encode(first.messages)[:-1])
