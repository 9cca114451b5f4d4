"""A main agent splits a question, sends agents out side by side, and answers with what they found."""

import asyncio
import itertools
from pathlib import Path

import pytest
from tests.waiting import until

from gencode import GenCode, Outcome, UserMistake
from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TextArrived
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.status import Status, stop_cause
from gencode.core.task import transcript_of
from gencode.journal.store import TaskQuery
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, reported, says, scripted

SPLIT = says(
    "I send two agents.",
    call("Task", subagent_type="Explore", description="auth", prompt="Find the secret word ALPHA"),
    call("Task", subagent_type="explore", description="tasks", prompt="Find the secret word BETA"),
)


async def test_two_agents_run_side_by_side_and_their_results_come_in_order(tmp_path: Path) -> None:
    explore = [says("looking", call("LS"), delay_ms=100), says("found it")]
    async with scripted(tmp_path, main=[SPLIT, says("Both were found.")], Explore=explore) as gen:
        outcome = await gen.ask("Where are ALPHA and BETA?").outcome()
        first, second = await gen.tasks(parent=outcome.agent_id)
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "Both were found.")
    assert [(task.agent, task.description, task.status) for task in (first, second)] == [
        ("Explore", "auth", Status.COMPLETED),
        ("Explore", "tasks", Status.COMPLETED),
    ]
    assert (first.started_at or "") < (second.ended_at or "") and (second.started_at or "") < (
        first.ended_at or ""
    )
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert [(result.call, reported(result.text)) for result in answers.results] == [
        ("call_0_0", "found it"),
        ("call_0_1", "found it"),
    ]
    assert outcome.evidence.children == (first.agent_id, second.agent_id)


async def test_contexts_are_isolated_in_both_directions(tmp_path: Path) -> None:
    """Proved by what is sent to the model, not by what we meant to send."""
    (tmp_path / "note.txt").write_text("INNER DETAIL\n")
    explore = [says("THOUGHT", call("Read", file_path="note.txt")), says("RESULT")]
    provider = Overhearing(ScriptedProvider.of({"main": [SPLIT, says("done")], "Explore": explore}))
    async with GenCode.open(tmp_path, model=provider, store=MemoryStore()) as gen:
        await gen.ask("MAIN QUESTION").outcome()
    of_main = [request for request in provider.requests if request.agent == "main"]
    of_child = [request for request in provider.requests if request.agent == "Explore"]
    assert (len(of_main), len(of_child)) == (2, 4)
    for request in of_child:
        assert request.messages[0] in (
            UserMessage("Find the secret word ALPHA"),
            UserMessage("Find the secret word BETA"),
        )
        assert "MAIN QUESTION" not in repr(request)
        own, other = ("ALPHA", "BETA") if "ALPHA" in repr(request.messages[0]) else ("BETA", "ALPHA")
        assert own not in request.system and other not in repr(request)
        tools = ["Read", "Glob", "Grep", "Bash", "WebFetch", "WebSearch"]
        assert [schema.name for schema in request.tools] == tools
    sent_to_main = repr(of_main[1].messages)
    assert "RESULT" in sent_to_main
    assert "THOUGHT" not in sent_to_main and "INNER DETAIL" not in sent_to_main
    assert len({request.system for request in of_main}) == 1


async def test_a_long_result_is_cut_for_the_sender_and_kept_whole_for_the_user(tmp_path: Path) -> None:
    long = "\n".join(f"line {number} of a long report" for number in range(1000))
    one = says("", call("Task", subagent_type="Explore", prompt="report"))
    async with scripted(tmp_path, main=[one, says("read")], Explore=[says(long)]) as gen:
        outcome = await gen.ask("go").outcome()
        (task,) = await gen.tasks(parent=outcome.agent_id)
        told = transcript_of(await gen.history.events(outcome.agent_id))
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert task.result == long
    text = answers.results[0].text
    assert len(text) < 9_000 and text.startswith("Report of Explore:\n> line 0 of a long report\n")
    assert f'TaskOutput(task_id="{task.agent_id}", offset=' in text.splitlines()[-2]


async def test_an_agent_that_did_not_complete_is_reported_as_such(tmp_path: Path) -> None:
    one = says("", call("Task", subagent_type="Explore", prompt="look", max_turns=1))
    explore = [says("half", call("LS")), says("that far I came")]
    async with scripted(tmp_path, main=[one, says("told")], Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    (result,) = answers.results
    assert result.error
    assert "reached a limit" in result.text and "that far I came" in result.text


async def test_a_call_gives_an_agent_no_more_turns_than_its_file(tmp_path: Path, home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    file = "---\nname: Short\ndescription: Looks.\ntools: LS\nmax-turns: 2\n---\nLook.\n"
    (folder / "Short.md").write_text(file)
    wishes = [
        {"subagent_type": "Short", "prompt": "look", "max_turns": 50},
        {"subagent_type": "Short", "prompt": "go on", "max_turns": 50, "resume": "00000002"},
        {"subagent_type": "Short", "prompt": "look", "max_turns": 1},
    ]
    numbers = itertools.count(1)
    store = MemoryStore(draw=lambda: f"{next(numbers):08x}")
    main = [*(says("", call("Task", **wish)) for wish in wishes), says("told")]
    async with scripted(tmp_path, store=store, main=main, Short=[says("looking", call("LS"))] * 20) as gen:
        await gen.ask("go").outcome()
        by_a_model = [(task.status, task.turns) for task in await gen.tasks()]
        by_a_person = await gen.task("Short", "look", max_turns=4)
    assert by_a_model == [(Status.LIMIT_REACHED, 2 * 2), (Status.LIMIT_REACHED, 1)]
    assert (by_a_person.status, by_a_person.turns) == (Status.LIMIT_REACHED, 4)


@pytest.mark.parametrize(
    ("wish", "says_so"),
    [
        ({"subagent_type": "Explorer", "prompt": "x"}, "no agent 'Explorer'. Did you mean Explore"),
        ({"subagent_type": "Explore", "prompt": " "}, "The prompt is empty"),
        ({"subagent_type": "Explore"}, "missing required field `prompt`"),
    ],
)
async def test_a_bad_wish_is_answered_and_the_main_agent_goes_on(
    tmp_path: Path, wish: dict[str, str], says_so: str
) -> None:
    async with scripted(tmp_path, main=[says("", call("Task", **wish)), says("I see")]) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert answers.results[0].error and says_so in answers.results[0].text
    assert outcome.status is Status.COMPLETED


async def test_stopping_the_main_agent_stops_its_children(tmp_path: Path) -> None:
    explore = [says("never said", delay_ms=3_600_000)]
    async with scripted(tmp_path, main=[SPLIT, says("never")], Explore=explore) as gen:
        listener = gen.listen()
        job = await gen.ask("go").start()
        created = 0
        async for event in listener:
            created += isinstance(event.fact, TaskCreated)
            if created == 3:
                break
        job.stop.stop(stop_cause("interrupted by the user"))
        outcome = await gen.outcome(job)
        await gen.running.settle()
        children = await gen.tasks(parent=outcome.agent_id)
    assert outcome.status is Status.CANCELLED
    assert [(child.status, child.error) for child in children] == [
        (Status.CANCELLED, "interrupted by the user"),
        (Status.CANCELLED, "interrupted by the user"),
    ]


async def test_a_listener_hears_text_and_ends_from_every_agent(tmp_path: Path) -> None:
    explore = [says("child speaks")]
    async with scripted(tmp_path, main=[SPLIT, says("main speaks")], Explore=explore) as gen:
        events = [event async for event in gen.ask("go")]
    texts = [event.fact.text for event in events if isinstance(event.fact, TextArrived)]
    assert "".join(texts).count("child speaks") == 2 and "main speaks" in texts
    ended = [event.task for event in events if isinstance(event.fact, TaskEnded)]
    assert len(ended) == 3 and ended[-1] == events[-1].task
    for task in set(ended):
        numbers = [event.seq for event in events if event.task == task and event.seq is not None]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_a_conversation_goes_on_where_it_was(tmp_path: Path) -> None:
    provider = Overhearing(ScriptedProvider.of({"main": [says("first answer"), says("second answer")]}))
    async with GenCode.open(tmp_path, model=provider, store=MemoryStore()) as gen:
        first = await gen.ask("first question").outcome()
        second = await gen.ask("second question", session=first.agent_id[:6]).outcome()
        events = await gen.history.events(first.agent_id)
    assert second.agent_id == first.agent_id
    assert (second.result, second.turns) == ("second answer", 2)
    assert [getattr(message, "text", None) for message in transcript_of(events)] == [
        "first question",
        "first answer",
        "second question",
        "second answer",
    ]
    assert provider.requests[0].system == provider.requests[1].system
    assert sum(isinstance(event.fact, MessageAdded) for event in events) == 4


async def test_a_hundred_agents_at_once_all_come_back(tmp_path: Path) -> None:
    calls = [call("Task", subagent_type="Explore", prompt=f"look {number}") for number in range(100)]
    async with scripted(
        tmp_path, main=[says("", *calls), says("done")], Explore=[says("ok", delay_ms=5)]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        children = await gen.tasks(parent=outcome.agent_id)
    assert [(child.status, child.prompt) for child in children] == [
        (Status.COMPLETED, f"look {number}") for number in range(100)
    ]
    assert len({child.agent_id for child in children}) == 100


async def test_unknown_agents_and_ids_name_the_nearest(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        with pytest.raises(UserMistake, match="Did you mean Explore"):
            await gen.task("Exploer", "look")
        outcome: Outcome = await gen.task("Explore", "look")
        assert (await gen.get(f"agent-{outcome.agent_id[:5]}")).agent_id == outcome.agent_id
        with pytest.raises(UserMistake, match="There is no task"):
            await gen.get("zzzz")


async def test_closing_stops_what_still_runs_and_writes_it_down(tmp_path: Path) -> None:
    from gencode.core.spec import TaskRequest

    store = MemoryStore()
    async with scripted(tmp_path, store=store, Explore=[says("never", delay_ms=3_600_000)]) as gen:
        job = await gen.start_task(TaskRequest("Explore", "look"))
        await asyncio.sleep(0)
    task = await store.task(job.id)
    assert task is not None and (task.status, task.end.error) == (Status.CANCELLED, "the program is closing")


@pytest.mark.parametrize("way", ["cancel", "timeout", "leave"])
async def test_whoever_stops_waiting_stops_the_work(tmp_path: Path, way: str) -> None:
    store = MemoryStore()
    slow = [says("half", call("LS")), says("never", delay_ms=3_600_000)]

    async def heard_half() -> bool:
        return [task.result for task in await store.tasks(TaskQuery())] == ["half"]

    async def run_out(limit: asyncio.Timeout) -> None:
        await until(heard_half)
        limit.reschedule(0)

    async with scripted(tmp_path, store=store, others=slow) as gen:
        if way == "leave":
            async for event in gen.ask("go"):
                if isinstance(event.fact, MessageAdded) and isinstance(event.fact.message, ToolMessage):
                    break
        elif way == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as beside:
                    beside.create_task(run_out(limit))
                    await gen.task("general-purpose", "go")
        else:
            waiting = asyncio.create_task(gen.ask("go").outcome())
            await until(heard_half)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await until(lambda: len(gen.running) == 0)
        (task,) = await store.tasks(TaskQuery())
    assert (task.status, task.result) == (Status.CANCELLED, "half")


@pytest.mark.parametrize(
    ("rule", "says_so"),
    [("Raed(x)", "There is no tool 'Raed'. Did you mean Read"), ("Bsh", "Did you mean Bash")],
)
async def test_a_rule_for_a_tool_that_nobody_knows_is_refused(
    tmp_path: Path, rule: str, says_so: str
) -> None:
    with pytest.raises(UserMistake, match=says_so):
        async with scripted(tmp_path, settings={"deny": [rule]}):
            pass


async def test_rules_for_tools_that_come_later_or_from_elsewhere_are_taken(tmp_path: Path) -> None:
    rules = ["Bash(rm:*)", "web_fetch", "mcp__git__*", "*", "WebFetch(example.com)", "json_parse"]
    async with scripted(tmp_path, settings={"ask": rules}, Explore=[says("x")]) as gen:
        assert len(gen.settings.ask) == len(rules)


async def test_a_deny_rule_for_grep_also_hides_what_a_wider_search_would_find(tmp_path: Path) -> None:
    for name in ("open.py", "secret/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("CANARY = 1\n")
    turns = [says("", call("Grep", pattern="CANARY")), says("done")]
    async with scripted(tmp_path, settings={"deny": ["Grep(secret/**)"]}, Explore=turns) as gen:
        outcome = await gen.task("Explore", "look")
        told = transcript_of(await gen.history.events(outcome.agent_id))
    (answers,) = [message for message in told if isinstance(message, ToolMessage)]
    assert answers.results[0].text.splitlines()[0] == "open.py"
    assert "secret" not in answers.results[0].text
