"""The Task tool: its schema, and what happens when it is called."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gencode.core.messages import UserMessage
from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.testing import call, says
from tests.seeds.playing import FIRST, SECOND, asks_for, play, task
from tests.seeds.rows import seed
from tests.stories.agent_file import write_agent
from tests.virtual_clock import virtual_time

EXPLORE = [says("I look.", call("Glob", pattern="*.py")), says("src/auth/errors.py")]


class Person:
    """Somebody who says yes, or no, to everything, and remembers what it was."""

    def __init__(self, *, allows: bool = True) -> None:
        self._allows = allows
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Answer:
        """Answer at once."""
        self.asked.append(f"{question.call.name}({question.call.input.get('subagent_type', '')})")
        return Answer(self._allows)


async def refusal(folder: Path, **arguments: Any) -> str:
    """What the main agent reads about a call of Task that cannot be made."""
    played = await play(folder, asks_for(call("Task", **arguments)), others=[says("Fine.")])
    (result,) = played.results
    assert result.error
    assert played.tasks == []
    return result.text


async def described(folder: Path, name: str) -> dict[str, Any]:
    """One parameter of Task as a model is sent it."""
    properties: Mapping[str, Any] = (await play(folder, [says("Hi.")])).schema("Task")["properties"]
    return dict(properties[name])


@seed(
    "000",
    "Main loop spawns specialised agents, isolated, only the final result comes back",
    use='gen -p "Find all database-related files"',
)
async def test_the_main_agent_sends_a_specialist_and_gets_its_result(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore")), Explore=EXPLORE)
    assert [request.agent for request in played.requests] == ["main", "Explore", "Explore", "main"]
    assert played.answers == ["src/auth/errors.py"]


@seed("000", "Foreground agent blocks and waits", use='Task(subagent_type="Explore", prompt="…")')
@virtual_time
async def test_a_foreground_agent_is_waited_for(tmp_path: Path) -> None:
    slow = [says("Found it.", delay_ms=60_000)]
    played = await play(tmp_path, asks_for(task("Explore")), Explore=slow)
    assert played.answers == ["Found it."]
    assert not played.task.background


@seed(
    "000",
    "Background agent returns an id at once",
    use='Task(subagent_type="Explore", prompt="Analyze codebase", run_in_background=true)',
)
@virtual_time
async def test_a_background_agent_is_named_at_once_and_its_result_comes_later(tmp_path: Path) -> None:
    slow = [says("3 modules", delay_ms=60_000)]
    main = [says("", task("Explore", run_in_background=True)), says("It runs."), says("3 modules, it says.")]
    played = await play(tmp_path, main, Explore=slow)
    (started,) = played.results
    assert FIRST in started.text
    assert "3 modules" not in started.text
    assert (played.task.background, played.outcome.result) == (True, "3 modules, it says.")


@seed("000", "Name `Task`, description", use="Task: the main agent has it")
async def test_the_tool_is_called_task_and_says_what_it_does(tmp_path: Path) -> None:
    played = await play(tmp_path, [says("Hi.")])
    (tool,) = [each for each in played.requests[0].tools if each.name == "Task"]
    assert "subagent" in tool.description.lower()
    assert len(tool.description) > 100


@seed("000", "`subagent_type` string, required, names listed", use='Task(subagent_type="Explore", …)')
async def test_subagent_type_is_required_and_every_agent_is_named_to_the_model(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home, "tester", "Read")
    played = await play(tmp_path, [says("Hi.")])
    schema = played.schema("Task")
    assert schema["properties"]["subagent_type"]["type"] == "string"
    assert "subagent_type" in schema["required"]
    for name in ("Explore", "Plan", "Bash", "Review", "general-purpose", "researcher", "tester"):
        assert name in played.requests[0].system
    assert "Did you mean Explore?" in await refusal(tmp_path, subagent_type="Explorr", prompt="look")
    assert "There are: " in await refusal(tmp_path, subagent_type="main", prompt="look")


@seed("000", "`prompt` string, required", use='Task(subagent_type="Explore", prompt="Find the tests")')
async def test_prompt_is_required_and_may_not_be_blank(tmp_path: Path) -> None:
    schema = (await play(tmp_path, [says("Hi.")])).schema("Task")
    assert set(schema["required"]) == {"subagent_type", "prompt"}
    assert "prompt" in await refusal(tmp_path, subagent_type="Explore")
    assert "prompt" in await refusal(tmp_path, subagent_type="Explore", prompt="  ")


@seed("000", "`description` 3-5 words, optional", use='Task(…, description="Find auth errors")')
async def test_a_task_is_called_by_its_description(tmp_path: Path) -> None:
    named = await play(
        tmp_path, asks_for(task("Explore", description="Find auth errors")), Explore=[says("x")]
    )
    assert (named.task.description, named.task.status) == ("Find auth errors", Status.COMPLETED)
    unnamed = await play(tmp_path, asks_for(task("Explore")), Explore=[says("x")])
    assert (unnamed.task.description, unnamed.task.status) == ("", Status.COMPLETED)


@seed("000", "`run_in_background` boolean, default false", use="Task(…, run_in_background=true)")
async def test_a_task_runs_in_the_foreground_unless_it_is_sent_to_the_background(tmp_path: Path) -> None:
    assert (await described(tmp_path, "run_in_background"))["type"] == "boolean"
    main = [
        says("", task("Explore"), task("Explore", run_in_background=True)),
        says("Both."),
        says("Both ended."),
    ]
    played = await play(tmp_path, main, Explore=[says("x")])
    assert [each.background for each in played.tasks] == [False, True]


@seed("000", "`model`: override sonnet/opus/haiku, enum", use='Task(…, model="haiku")')
async def test_the_model_of_a_task_is_one_of_the_three_names_or_the_parents(tmp_path: Path) -> None:
    text = (await described(tmp_path, "model"))["description"]
    assert all(tier in text for tier in ("fast", "balanced", "powerful"))
    for name in ("haiku", "sonnet", "opus"):
        assert name in text
        played = await play(tmp_path, asks_for(task("Explore", model=name)), Explore=[says("x")])
        assert played.task.success
    assert "gpt-9" in await refusal(tmp_path, subagent_type="Explore", prompt="look", model="gpt-9")


@seed("000", "`max_turns` integer", use='Task(subagent_type="Explore", prompt="…", max_turns=2)')
async def test_max_turns_ends_an_agent_at_its_limit(tmp_path: Path) -> None:
    look = says("", call("Glob", pattern="*"))
    played = await play(
        tmp_path, asks_for(task("Explore", max_turns=2)), Explore=[look, look, says("So far: nothing.")]
    )
    assert played.task.status is Status.LIMIT_REACHED
    assert "So far: nothing." in played.answers[0]
    for wrong in (0, -1, 2.5):
        assert "max_turns" in await refusal(tmp_path, subagent_type="Explore", prompt="x", max_turns=wrong)


@seed("000", "`resume` by the model", use='Task(subagent_type="Explore", prompt="And?", resume="9f3a1c2e")')
async def test_a_model_reads_the_id_of_an_agent_and_resumes_it_with_all_it_knows(tmp_path: Path) -> None:
    main = asks_for(task("Explore", "Find the tests"), task("Explore", "And the docs?", resume=FIRST))
    played = await play(tmp_path, main, Explore=[says("In tests/."), says("In docs/.")])
    first, again = played.results
    assert FIRST in first.text
    assert "In docs/." in again.text
    assert played.task.turns == 2
    resumed = played.requests_of("Explore")[-1].messages
    assert next(each.text for each in resumed if isinstance(each, UserMessage)) == "Find the tests"


@seed("000", "1 Permission check: user must approve spawning", use='spawn_approval = "always"')
async def test_starting_an_agent_needs_approval_never_once_a_session_or_every_time(tmp_path: Path) -> None:
    main = asks_for(task("Bash"), task("Bash"), task("Explore"))
    asked: dict[str, list[str]] = {}
    for when in ("never", "session", "always"):
        person = Person()
        await play(tmp_path, main, settings={"spawn_approval": when}, asker=person, others=[says("x")])
        asked[when] = person.asked
    assert asked == {
        "never": [],
        "session": ["Task(Bash)"],
        "always": ["Task(Bash)", "Task(Bash)", "Task(Explore)"],
    }
    declined = await play(tmp_path, asks_for(task("Bash")), asker=Person(allows=False))
    assert (declined.tasks, declined.results[0].error) == ([], True)


@seed("000", "2 Context isolation (new message array)", use='Task(subagent_type="Explore", prompt="…")')
async def test_an_agent_begins_with_one_message(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore", "Find the tests")), Explore=EXPLORE)
    assert played.requests_of("Explore")[0].messages == (UserMessage("Find the tests"),)


@seed("000", "3 System prompt built dynamically", use="gen task show ID")
async def test_each_agent_has_a_system_prompt_of_its_own(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore"), task("Plan")), others=[says("x")])
    prompts = {name: played.requests_of(name)[0].system for name in ("main", "Explore", "Plan")}
    assert len(set(prompts.values())) == 3
    assert "Explore" in prompts["Explore"]
    assert str(tmp_path) in prompts["Explore"]


@seed("000", "4 Tool filtering", use="gen agents show Explore")
async def test_an_agent_is_offered_only_its_tools_and_refused_any_other(tmp_path: Path) -> None:
    tries = [says("", call("Write", file_path="made", content="x")), says("I cannot.")]
    played = await play(
        tmp_path, asks_for(task("Explore")), settings={"permission_mode": "dontAsk"}, Explore=tries
    )
    assert not {"Write", "Edit", "Task"} & set(played.offered("Explore"))
    (refused,) = played.results_of(FIRST)
    assert refused.error
    assert not (tmp_path / "made").exists()


@seed("000", "5 LLM loop to completion or max_turns", use="max-turns: 3 (in an agent file)")
async def test_an_agent_works_until_it_is_done_or_its_turns_are_used(tmp_path: Path, home: Path) -> None:
    write_agent(home, "short", "Glob", more="max-turns: 3\n")
    endless = [says("", call("Glob", pattern=f"{n}")) for n in range(40)]
    assert await ended(tmp_path, "short", [*endless[:2], says("Done.")]) == (Status.COMPLETED, 3)
    assert await ended(tmp_path, "short", endless) == (Status.LIMIT_REACHED, 3)
    assert await ended(tmp_path, "Explore", endless) == (Status.LIMIT_REACHED, 30)


async def ended(folder: Path, agent: str, turns: list[dict[str, Any]]) -> tuple[Status, int]:
    played = await play(folder, asks_for(task(agent)), asker=Person(), others=turns)
    return played.task.status, played.task.turns


@seed("000", "6 Only final content returned", use='Task(subagent_type="Explore", prompt="…")')
async def test_what_a_call_of_task_gives_is_the_last_reply(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore")), Explore=EXPLORE)
    assert played.answers == ["src/auth/errors.py"]
    assert played.task.result == "src/auth/errors.py"


@seed(
    "000",
    "Both usage examples",
    use='Task(subagent_type="Explore", prompt="Find all database-related files")',
)
async def test_both_examples_run_as_they_are_written(tmp_path: Path) -> None:
    main = [
        says("", task("Explore", "Find all database-related files")),
        says("", task("Explore", "Analyze codebase", run_in_background=True)),
        says("Both."),
        says("Both ended."),
    ]
    played = await play(tmp_path, main, Explore=[says("db.py")])
    assert [(each.agent_id, each.background, each.success) for each in played.tasks] == [
        (FIRST, False, True),
        (SECOND, True, True),
    ]


@seed("000", "Agent gets only the prompt", use='Task(subagent_type="Explore", prompt="Find the tests")')
async def test_an_agent_gets_the_prompt_and_nothing_of_the_conversation(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore")), prompt="A secret plan", Explore=EXPLORE)
    assert "A secret plan" not in repr(played.requests_of("Explore"))
    assert "A secret plan" in repr(played.requests_of("main"))


@seed("000", "Internal messages / tool calls not exposed", use='Task(subagent_type="Explore", prompt="…")')
async def test_the_parent_sees_no_message_and_no_call_of_an_agent(tmp_path: Path) -> None:
    played = await play(tmp_path, asks_for(task("Explore")), Explore=EXPLORE)
    assert "I look." not in repr(played.messages)
    assert "*.py" not in repr(played.messages)


@seed("000", "Only the final result returns", use='Task(subagent_type="Explore", prompt="…")')
@pytest.mark.parametrize("background", [False, True])
async def test_the_parents_next_request_has_the_result_and_nothing_else(
    tmp_path: Path, background: bool
) -> None:
    main = [says("", task("Explore", run_in_background=background)), says("Done."), says("Done.")]
    played = await play(tmp_path, main, Explore=EXPLORE)
    last = repr(played.requests_of("main")[-1].messages)
    assert "src/auth/errors.py" in last
    assert "I look." not in last
