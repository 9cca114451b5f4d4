"""TaskOutput and TaskStop: what they say about tasks of every kind, and about what is not one's own."""

import asyncio
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Message, ToolMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import transcript_of
from gencode.core.text import unquoted
from gencode.journal.store import Lease
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted

SEND = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
WAIT = call("Task", subagent_type="Explore", prompt="look")
RUNNING = (
    "Agent: Explore\nStatus: still running\nTurns: 0\nTokens: 0\n\nOptions:\n"
    '  - Wait longer: TaskOutput(task_id="00000002", timeout=60000)\n'
    '  - Check status: TaskOutput(task_id="00000002", block=false)\n'
    '  - Stop: TaskStop(task_id="00000002")'
)


def numbered(lease_seconds: float = 15.0) -> MemoryStore:
    """A store whose tasks have ids that a script can know: 00000001 is the conversation."""
    numbers = itertools.count(1)
    return MemoryStore(lease_seconds=lease_seconds, draw=lambda: f"{next(numbers):08x}")


def answers(transcript: Sequence[Message]) -> list[str]:
    found = [message for message in transcript if isinstance(message, ToolMessage)]
    return [result.text for message in found for result in message.results]


async def told(folder: Path, *turns: dict[str, Any], explore: Sequence[dict[str, Any]]) -> list[str]:
    """Every result that the main agent of a short conversation read."""
    async with scripted(folder, store=numbered(), main=turns, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        return answers(transcript_of(await gen.history.events(outcome.agent_id)))


async def test_a_long_result_of_the_foreground_is_paged(tmp_path: Path) -> None:
    long = "".join(f"line {number:05} of a long report\n" for number in range(1_500))
    pages = [says("", call("TaskOutput", task_id="00000002", page=page)) for page in (1, 2, 3, 4)]
    texts = await told(tmp_path, says("", WAIT), *pages, says("read"), explore=[says(long)])
    starts = [20_000, 40_000, None]
    for text, start in zip(texts[1:4], starts, strict=True):
        assert (f'TaskOutput(task_id="00000002", offset={start})]\n' in text) is (start is not None)
    parts = (long[:20_000], long[20_000:40_000], long[40_000:])
    assert [*map(unquoted, texts[1:4])] == [part.rstrip() for part in parts]
    assert texts[4] == "There is no page 4; the result has 3."


async def test_a_cut_report_goes_on_where_it_was_cut_until_nothing_is_left(tmp_path: Path) -> None:
    """What is shown costs the model no character twice, and ends with lines."""
    long = "".join(f"line {number:05} of a long report\n" for number in range(1_500))
    ends, texts = [0], list[str]()
    while len(texts) < 9:
        more = [says("", call("TaskOutput", task_id="00000002", offset=end)) for end in ends[1:]]
        texts = await told(tmp_path, says("", WAIT), *more, says("read"), explore=[says(long)])
        goes_on = re.search(r'TaskOutput\(task_id="00000002", offset=(\d+)\)\]\n', texts[-1])
        if goes_on is None:
            break
        ends.append(int(goes_on[1]))
    assert 7_900 < ends[1] <= 8_000
    assert "\n".join(map(unquoted, texts)) == long.strip()
    assert all(text.count("\n[Task 00000002 (Explore): 0 tool calls.") == 1 for text in texts)
    far = says("", call("TaskOutput", task_id="00000002", offset=99_999_999))
    texts = await told(tmp_path, says("", WAIT), far, says("read"), explore=[says(long)])
    assert texts[1].startswith("There is nothing from character 99,999,999 on")


@pytest.mark.parametrize(
    ("limit", "note"),
    [
        (-5, "The timeout -5 was changed to 0 ms.\n"),
        (-(10**30), "The timeout -1e+30 was changed to 0 ms.\n"),
        (0, ""),
        (10, ""),
    ],
)
async def test_a_time_out_of_range_is_clamped_and_said(tmp_path: Path, limit: int, note: str) -> None:
    look = says("", call("TaskOutput", task_id="00000002", timeout=limit))
    stop = says("", call("TaskStop", task_id="00000002"))
    texts = await told(tmp_path, says("", SEND), look, stop, says("ok"), explore=[says("x", delay_ms=60_000)])
    assert texts[1] == note + RUNNING


async def test_a_time_that_is_too_long_is_clamped_and_said(tmp_path: Path) -> None:
    look = says("", call("TaskOutput", task_id="00000002", timeout=700_000))
    texts = await told(tmp_path, says("", SEND), look, says("ok"), explore=[says("found")])
    assert texts[1].startswith(
        "The timeout 700000 was changed to 600000 ms.\nAgent: Explore\nStatus: completed\n"
    )


async def test_an_unknown_id_is_refused_with_ones_own(tmp_path: Path) -> None:
    asks = [call("TaskOutput", task_id=name) for name in ("0badcafe", "nonsense", "0000")]
    texts = await told(tmp_path, says("", WAIT, WAIT), says("", *asks), says("ok"), explore=[says("found")])
    assert texts[2:] == [
        f"Refused: TaskOutput: there is no task or shell {name} of yours. Your own are: 00000003, 00000002."
        for name in ("'0badcafe'", "'nonsense'", "'0000'")
    ]


async def test_an_unknown_id_to_resume_is_answered_with_those_that_were_started(tmp_path: Path) -> None:
    again = call("Task", subagent_type="Explore", prompt="and?", resume="0badcafe")
    texts = await told(tmp_path, says("", WAIT), says("", again), says("ok"), explore=[says("found")])
    assert texts[1:] == ["There is no task 0badcafe. In this run you have started: 00000002 (Explore)."]


async def test_who_has_sent_nobody_is_told_so(tmp_path: Path) -> None:
    texts = await told(tmp_path, says("", call("TaskStop", task_id="0badcafe")), says("ok"), explore=[])
    assert texts == ["Refused: TaskStop: there is no task or shell '0badcafe' of yours. You have none."]


async def test_an_id_that_is_a_whole_page_is_not_repeated(tmp_path: Path) -> None:
    texts = await told(tmp_path, says("", call("TaskStop", task_id="x\n" * 999)), says("ok"), explore=[])
    shown = repr("x\n" * 20 + "…")
    assert texts == [f"Refused: TaskStop: there is no task or shell {shown} of yours. You have none."]


async def test_an_agent_that_said_nothing_is_told_with_that_reason(tmp_path: Path) -> None:
    look = says("", call("TaskOutput", task_id="00000002"))
    texts = await told(tmp_path, says("", WAIT), look, says("ok"), explore=[says("")])
    head, receipt = texts[0].split("\n")
    assert (
        head == "The agent Explore (task 00000002) finished without an answer: the model's reply was empty."
    )
    assert receipt.startswith("[Task 00000002 (Explore): 0 tool calls")
    assert "\nError: the model's reply was empty\n" in texts[1]


async def test_one_turn_is_not_called_turns(tmp_path: Path) -> None:
    send = call("Task", subagent_type="general-purpose", prompt="work", run_in_background=True)
    until = call("Bash", command="until [ -e begun ]; do sleep 0.01; done")
    main = [says("", send), says("", until), says("", call("TaskStop", task_id="00000002")), says("ok")]
    worker = [says("", call("Write", file_path="begun", content="")), says("x", delay_ms=60_000)]
    settings = {"permission_mode": "dontAsk", "sandbox": "off"}
    async with scripted(
        tmp_path, settings=settings, store=numbered(), main=main, general_purpose=worker
    ) as gen:
        outcome = await gen.ask("go").outcome()
        texts = answers(transcript_of(await gen.history.events(outcome.agent_id)))
    assert texts[2] == "Task 00000002 of general-purpose was stopped after 1 turn and is now cancelled."


async def elsewhere(store: MemoryStore, *, background: bool = True) -> tuple[str, Lease]:
    """A conversation that is over, and its task, which another process runs."""
    parent = await store.create(TaskCreated(agent="main", prompt="go", conversation=True), "me")
    done = (TaskStarted(), TaskEnded(Status.COMPLETED, "sent", reason=EndReason.FINISHED))
    await store.append(parent, done, last=True)
    sent = TaskCreated(agent="Explore", prompt="look", parent=parent.task, background=background)
    child = await store.create(sent, "elsewhere|b|1|1|x")
    await store.append(child, [TaskStarted(), MessageAdded(AssistantMessage("half way"))])
    return parent.task, child


async def test_a_task_of_another_process_is_waited_for(tmp_path: Path) -> None:
    store = numbered()
    parent, child = await elsewhere(store)
    main = [
        says("", call("TaskOutput", task_id="00000002")),
        says("", call("TaskOutput", task_id="00000002")),
        says("ok"),
    ]
    async with scripted(tmp_path, store=store, main=main) as gen:
        job = await gen.start_turn("what came of it?", parent)
        await asyncio.sleep(0.2)
        await store.append(
            child, [TaskEnded(Status.COMPLETED, "found", reason=EndReason.FINISHED)], last=True
        )
        outcome = await gen.outcome(job)
        texts = answers(transcript_of(await store.events(parent)))
    assert [*map(unquoted, texts)] == ["found", "found"]
    assert outcome.status is Status.COMPLETED


async def test_a_task_of_a_process_that_is_not_heard_of_any_more_is_said_to_be_interrupted(
    tmp_path: Path,
) -> None:
    store = numbered(lease_seconds=0)
    parent, _ = await elsewhere(store)
    async with scripted(
        tmp_path, store=store, main=[says("", call("TaskOutput", task_id="00000002")), says("ok")]
    ) as gen:
        outcome = await gen.ask("what came of it?", session=parent).outcome()
        (text,) = answers(transcript_of(await store.events(outcome.agent_id)))
    assert text.splitlines()[5:] == [
        "Error: the process that ran it died, or could not reach the database; resume it with "
        'Task(subagent_type="Explore", prompt=…, resume="00000002")',
        "",
        "Output:",
        "> half way",
        "[Task 00000002 (Explore): 0 tool calls.]",
    ]


@pytest.mark.parametrize("tool", ["TaskOutput", "TaskStop"])
async def test_a_task_in_the_foreground_has_nothing_to_wait_for_or_stop(tmp_path: Path, tool: str) -> None:
    store = numbered()
    parent, _ = await elsewhere(store, background=False)
    async with scripted(
        tmp_path, store=store, main=[says("", call(tool, task_id="00000002")), says("ok")]
    ) as gen:
        await gen.ask("what came of it?", session=parent).outcome()
        texts = answers(transcript_of(await store.events(parent)))
    assert texts == [
        "Task 00000002 of Explore runs in the foreground: its result is the answer to the call "
        "that started it, and it stops with that call."
    ]


async def test_one_that_waits_for_its_turn_is_said_to_wait_with_its_place(tmp_path: Path) -> None:
    calls = [SEND, call("Task", subagent_type="Plan", prompt="plan", run_in_background=True), SEND]
    look = [call("TaskOutput", task_id=name, block=False) for name in ("00000002", "00000003", "00000004")]
    stop = [call("TaskStop", task_id=name) for name in ("00000004", "00000003", "00000002")]
    main = [*(says("", each) for each in (*calls, *look, *stop)), says("ok")]
    held = [says("x", delay_ms=60_000)]
    async with scripted(
        tmp_path, settings={"max_agents": 1}, store=numbered(), main=main, Explore=held, Plan=held
    ) as gen:
        outcome = await gen.ask("go").outcome()
        texts = answers(transcript_of(await gen.history.events(outcome.agent_id)))
    states = [text.splitlines()[1] for text in texts[3:6]]
    assert states == [
        "Status: still running",
        "Status: waiting in the queue (position 1)",
        "Status: waiting in the queue (position 2)",
    ]
    assert texts[4] == RUNNING.replace("Explore", "Plan").replace("still running", states[1][8:]).replace(
        "00000002", "00000003"
    )
