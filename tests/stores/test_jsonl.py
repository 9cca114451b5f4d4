"""A task goes out as JSONL and comes back the same; foreign lines come in as far as they mean something."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import UserMistake
from gencode.core.events import DurableFact, Event, MessageAdded, TaskCreated, TaskEnded, TaskStarted, plain
from gencode.core.messages import UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import replay
from gencode.stores.jsonl import Imported, export_task, import_task
from gencode.stores.memory import MemoryStore
from tests.contracts.facts import lives

AT = "2026-11-15T02:32:00.123456Z"
HEADER = '{"format":"gencode-task","version":1}\n'


def journal(*facts: DurableFact) -> list[Event]:
    return [Event("9f3a1c2e", seq, AT, fact) for seq, fact in enumerate(facts, start=1)]


def lines(*objects: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in objects)


def test_a_journal_is_a_header_and_one_fact_a_line() -> None:
    assert export_task(
        map(plain, journal(TaskCreated(agent="Explore", prompt="p"), TaskStarted(model="m")))
    ) == (
        HEADER
        + f'{{"task":"9f3a1c2e","seq":1,"at":"{AT}","kind":"TaskCreated","agent":"Explore","prompt":"p"}}\n'
        + f'{{"task":"9f3a1c2e","seq":2,"at":"{AT}","kind":"TaskStarted","model":"m"}}\n'
    )


@given(lives())
def test_any_journal_comes_back_the_same(life: list[DurableFact]) -> None:
    events = journal(*life)
    assert import_task(export_task(map(plain, events))) == Imported(events, [])


async def test_an_imported_task_is_the_exported_one_in_another_store() -> None:
    here, there = MemoryStore(), MemoryStore()
    lease = await here.create(TaskCreated(prompt="travel"), "me")
    await here.append(
        lease, [TaskStarted(model="m"), TaskEnded(Status.COMPLETED, "there", reason=EndReason.FINISHED)]
    )
    await there.adopt(import_task(export_task(await here.lines(lease.task))).events)
    assert await there.task(lease.task) == lease.state


def test_line_separators_inside_a_text_do_not_end_the_line() -> None:
    events = journal(TaskCreated(prompt="a\u2028b\x85c\rd\ne\x0cf"))
    assert import_task(export_task(map(plain, events))) == Imported(events, [])


def test_a_file_from_windows_with_a_mark_and_empty_lines_is_read() -> None:
    events = journal(TaskCreated(prompt="p"), TaskStarted())
    text = "\ufeff" + export_task(map(plain, events)).replace("\n", "\r\n\r\n")
    assert import_task(text) == Imported(events, [])


def test_a_line_without_an_agent_is_of_a_general_purpose_agent() -> None:
    text = lines({"task": "9f3a1c2e", "seq": 1, "at": AT, "kind": "TaskCreated", "prompt": "p"})
    assert import_task(text).events == journal(TaskCreated(agent="general-purpose", prompt="p"))


@pytest.mark.parametrize("place", ["data", "payload"])
def test_an_older_task_without_a_type_is_of_a_general_purpose_agent(place: str) -> None:
    told = {"inputText": "look around", "source": {"kind": "user"}, "inputMetadata": {}}
    text = lines({"type": "TASK_CREATED", "taskId": "9f3a1c2e", "timestamp": AT, place: told})
    assert import_task(text) == Imported(journal(TaskCreated(prompt="look around")), [])


def test_a_foreign_task_keeps_its_type_and_its_end() -> None:
    text = lines(
        {
            "type": "TASK_CREATED",
            "taskId": "t-1",
            "timestamp": 0,
            "data": {"inputText": "p", "taskType": "explore"},
        },
        {"type": "TASK_COMPLETED", "taskId": "t-1", "timestamp": 1500, "data": {"result": {"found": 1}}},
    )
    imported = import_task(text)
    task = replay(imported.events)
    assert task and (task.agent, task.created.prompt, task.status, task.result) == (
        "explore",
        "p",
        Status.COMPLETED,
        '{"found":1}',
    )
    assert (task.created_at, task.end.at) == ("1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:01.500000Z")
    assert import_task(text) == imported


def test_a_foreign_failure_says_why() -> None:
    text = lines({"type": "TASK_CREATED", "data": {}}, {"type": "TASK_FAILED", "data": {"error": "no luck"}})
    task = replay(import_task(text).events)
    assert task and (task.status, task.end.error) == (Status.FAILED, "no luck")


def test_unknown_kinds_are_left_out_with_a_warning() -> None:
    ours = lines(
        {"task": "9f3a1c2e", "seq": 1, "at": AT, "kind": "TaskCreated"},
        {"task": "9f3a1c2e", "seq": 2, "at": AT, "kind": "MoonRose", "phase": "full"},
        {"task": "9f3a1c2e", "seq": 3, "at": AT, "kind": "TaskStarted"},
    )
    foreign = lines({"type": "TASK_CREATED", "data": {}}, {"type": "REASONED", "data": [1, 2]})
    assert import_task(ours) == Imported(
        journal(TaskCreated(), TaskStarted()),
        ["Line 2 was left out: nothing here knows the kind 'MoonRose'."],
    )
    assert import_task(foreign).warnings == ["Line 2 was left out: nothing here knows the kind 'REASONED'."]


CREATED = {"task": "9f3a1c2e", "seq": 1, "at": AT, "kind": "TaskCreated"}


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "This file holds no task"),
        (HEADER, "This file holds no task"),
        ("{not json}\n", "Line 1 cannot be imported: it is not a JSON object"),
        ("\n[1, 2]\n", "Line 2 cannot be imported: it is not a JSON object"),
        ("[" * 100_000, "Line 1 cannot be imported: it is not a JSON object"),
        ('{"a": "\udc80"}', "Line 1 cannot be imported: it is not a JSON object"),
        (lines({"hello": "world"}), "Line 1 cannot be imported: it is not an event"),
        (lines({"format": "mp3"}), "Line 1 cannot be imported: 'mp3' is not a format"),
        (lines({"format": "gencode-task", "version": 9}), "Line 1 .* version 9 .* up to 1; upgrade GenCode"),
        (lines(CREATED, {**CREATED, "seq": 3}), "Line 2 cannot be imported: event 2 was expected, not 3"),
        (lines(CREATED, {**CREATED, "seq": 2}), "Line 2 .*TaskCreated. cannot stand there"),
        (lines({**CREATED, "kind": "TaskStarted"}), "Line 1 .* first fact of a task must be TaskCreated"),
        (lines({**CREATED, "prompt": 7}), "Line 1 cannot be imported: Expected `str`, got `int`"),
        (lines({**CREATED, "at": "soon"}), "Line 1 cannot be imported: Invalid isoformat string"),
        (lines({**CREATED, "at": "2026-11-15"}), "Line 1 .* has no time zone"),
        (lines({**CREATED, "at": 1e300}), "Line 1 cannot be imported"),
        (lines({"type": "TASK_CREATED", "data": "text"}), "Line 1 cannot be imported: Expected `object`"),
        (
            lines(CREATED, {**CREATED, "task": "aaaaaaaa", "seq": 2, "kind": "TaskStarted"}),
            "Line 2 cannot be imported: it belongs to another task",
        ),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(text: str, mistake: str) -> None:
    with pytest.raises(UserMistake, match=mistake):
        import_task(text)


@given(
    st.text() | st.recursive(st.none() | st.text(), lambda x: st.dictionaries(st.text(), x)).map(json.dumps)
)
def test_no_text_does_more_than_be_refused(text: str) -> None:
    with pytest.raises(UserMistake):
        import_task(text)


@given(st.sampled_from(["task", "seq", "at", "kind", "prompt", "parent", "policies"]), st.data())
def test_no_field_does_more_than_be_refused(field: str, data: st.DataObject) -> None:
    value = data.draw(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just([])
    )
    try:
        imported = import_task(lines({**CREATED, field: value}))
    except UserMistake:
        return
    assert replay(imported.events) is not None


def test_mail_is_kept_in_order() -> None:
    events = journal(TaskCreated(), *(MessageAdded(UserMessage(f"{n}")) for n in range(20)))
    assert import_task(export_task(map(plain, events))).events == events
