"""More promises of the `Store` port: what is planned for later, and messages on their way."""

import asyncio

import pytest
from msgspec.structs import replace

from gencode.channels.address import Address
from gencode.channels.outbox import MOST_TOGETHER, MOST_WAITING, OutboxMessage, OutgoingMessage
from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.ids import clean_id, moment
from gencode.core.rules import Action, Mode, Policy, Rule, RuleOrigin, RuleSource
from gencode.schedule.scheduled_jobs import ScheduledJob
from tests.contracts.store import OpenStore

POLICY = Policy(
    Mode.ACCEPT_EDITS, (Rule("Bash", "git *", Action.ALLOW, RuleOrigin(RuleSource.FLAG, "--allow")),)
)
EARLY, NOON, LATE = (f"2026-03-10T{hour}:00:00.000000Z" for hour in ("09", "12", "15"))
FILE = Address("file", "notes")
WEB = Address("team", "a b")


def planned(due: str | None = NOON, label: str = "", session: str = "") -> ScheduledJob:
    return ScheduledJob(*("@daily", "look", "UTC", "/w", POLICY, EARLY, due), label=label, session=session)


def told(messages: list[OutboxMessage]) -> list[tuple[Address, str, str]]:
    assert all(moment(each.at).tzinfo is not None for each in messages)
    return [(each.to, each.text, each.sender) for each in messages]


async def test_what_is_planned_comes_back_whole_and_oldest_first(open_store: OpenStore) -> None:
    schedule = (await open_store()).schedule
    first = await schedule.add(planned(label="one", session="0a0a0a0a"), 10)
    second = await schedule.add(planned(None, label="two"), 10)
    assert clean_id(first.id) == first.id and first.id != second.id
    assert (first.policy, first.revision, first.session) == (POLICY, 0, "0a0a0a0a")
    assert await schedule.jobs() == [first, second]


async def test_an_id_that_is_taken_is_drawn_again_for_a_plan(open_store: OpenStore) -> None:
    drawn = iter(["aaaaaaaa", "aaaaaaaa", "bbbbbbbb"])
    schedule = (await open_store(draw=lambda: next(drawn))).schedule
    assert [(await schedule.add(planned(), 10)).id for _ in range(2)] == ["aaaaaaaa", "bbbbbbbb"]
    full = (await open_store(draw=lambda: "aaaaaaaa")).schedule
    await full.add(planned(), 10)
    with pytest.raises(StoreTrouble, match="No free id"):
        await full.add(planned(), 10)


async def test_no_more_is_planned_than_there_is_room_for(open_store: OpenStore) -> None:
    schedule = (await open_store()).schedule
    for _ in range(3):
        await schedule.add(planned(), 3)
    with pytest.raises(UserMistake, match="There are 3 scheduled jobs already"):
        await schedule.add(planned(), 3)
    assert len(await schedule.jobs()) == 3


async def test_pressing_is_what_is_due_or_somebody_is_at(open_store: OpenStore) -> None:
    schedule = (await open_store()).schedule
    due, later, never = [await schedule.add(planned(each), 10) for each in (NOON, LATE, None)]
    assert [each.id for each in await schedule.due_or_running(EARLY)] == []
    assert [each.id for each in await schedule.due_or_running(NOON)] == [due.id]
    assert await schedule.replace(never, replace(never, owner="me"))
    assert {each.id for each in await schedule.due_or_running(LATE)} == {due.id, later.id, never.id}


async def test_of_several_who_move_an_appointment_one_wins(open_store: OpenStore) -> None:
    store = await open_store()
    job = await store.schedule.add(planned(), 10)
    tries = [replace(job, due=LATE, owner=f"{n}") for n in range(8)]
    drafts = [OutgoingMessage(FILE, f"{n}") for n in range(8)]
    won = await asyncio.gather(
        *(store.schedule.replace(job, *pair) for pair in zip(tries, drafts, strict=True))
    )
    assert sorted(won) == [False] * 7 + [True]
    (now,) = await store.schedule.jobs()
    assert now == replace(tries[won.index(True)], revision=1)
    assert told(await store.outbox.pending()) == [(FILE, f"{won.index(True)}", "")]


async def test_who_comes_too_late_changes_and_removes_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    job = await store.schedule.add(planned(), 10)
    assert await store.schedule.replace(job, replace(job, due=LATE))
    assert not await store.schedule.replace(job, replace(job, due=None), OutgoingMessage(FILE, "late"))
    assert not await store.schedule.replace(job, None, OutgoingMessage(FILE, "late"))
    (now,) = await store.schedule.jobs()
    assert (now.due, now.revision, await store.outbox.pending()) == (LATE, 1, [])
    assert await store.schedule.replace(now, None)
    assert (await store.schedule.jobs(), await store.schedule.replace(now, now)) == ([], False)


async def test_a_plan_that_is_not_unicode_is_stored_with_marks(open_store: OpenStore) -> None:
    schedule = (await open_store()).schedule
    await schedule.add(replace(planned(), prompt="a\udc80\0b", label="caf\udce9"), 10)
    (found,) = await schedule.jobs()
    assert (found.prompt, found.label) == ("a?\0b", "caf?")


async def test_messages_wait_in_order_until_they_are_crossed_out(open_store: OpenStore) -> None:
    outbox = (await open_store()).outbox
    made = [
        await outbox.add_message(OutgoingMessage(to, text, "0a0a0a0a"))
        for to, text in ((FILE, "x\ny"), (WEB, "a\udc80"))
    ]
    assert made[0].number < made[1].number
    assert await outbox.pending() == made
    assert told(made) == [(FILE, "x\ny", "0a0a0a0a"), (WEB, "a?", "0a0a0a0a")]
    taken = await outbox.claim(("file", "team"), NOON, LATE)
    assert taken == [replace(each, tries=1) for each in made]
    assert [await outbox.remove(each) for each in (*taken, taken[0])] == [True, True, False]
    assert await outbox.pending() == []
    assert (await outbox.add_message(OutgoingMessage(FILE, "z"))).number > made[1].number


async def test_nobody_takes_what_somebody_holds_and_only_what_goes_their_way(open_store: OpenStore) -> None:
    outbox = (await open_store()).outbox
    file, web = [await outbox.add_message(OutgoingMessage(to, "x")) for to in (FILE, WEB)]
    assert await outbox.claim((), EARLY, LATE) == await outbox.claim(("mail",), EARLY, LATE) == []
    assert [each.number for each in await outbox.claim(("team",), EARLY, NOON)] == [web.number]
    assert [each.number for each in await outbox.claim(("file", "team"), EARLY, NOON, web.number)] == []
    assert [each.number for each in await outbox.claim(("file", "team"), EARLY, NOON)] == [file.number]
    again = await outbox.claim(("file", "team"), NOON, LATE)
    assert [(each.number, each.tries) for each in again] == [(file.number, 2), (web.number, 2)]


async def test_who_held_a_message_too_long_does_nothing_to_it_any_more(open_store: OpenStore) -> None:
    outbox = (await open_store()).outbox
    await outbox.add_message(OutgoingMessage(FILE, "x"))
    (mine,) = await outbox.claim(("file",), EARLY, NOON)
    (yours,) = await outbox.claim(("file",), NOON, LATE)
    await outbox.retry_later(mine, EARLY)
    assert (await outbox.remove(mine), await outbox.claim(("file",), NOON, LATE)) == (False, [])
    await outbox.retry_later(yours, NOON)
    assert [each.tries for each in await outbox.claim(("file",), NOON, LATE)] == [3]


async def test_of_several_who_take_messages_each_is_taken_once(open_store: OpenStore) -> None:
    outbox = (await open_store()).outbox
    numbers = [
        (await outbox.add_message(OutgoingMessage(FILE, "x"))).number for _ in range(3 * MOST_TOGETHER)
    ]
    taken = await asyncio.gather(*(outbox.claim(("file",), EARLY, NOON) for _ in range(4)))
    assert sorted(len(each) for each in taken) == [0, *[MOST_TOGETHER] * 3]
    assert sorted(each.number for some in taken for each in some) == numbers


async def test_a_tray_that_nobody_empties_takes_no_more(open_store: OpenStore) -> None:
    outbox = (await open_store()).outbox
    for _ in range(MOST_WAITING):
        await outbox.add_message(OutgoingMessage(FILE, "x"))
    with pytest.raises(UserMistake, match="Too many messages"):
        await outbox.add_message(OutgoingMessage(FILE, "x"))


async def test_looking_for_messages_wakes_nobody_when_there_are_none(open_store: OpenStore) -> None:
    store = await open_store()
    seen = store.changes.count
    assert await store.outbox.claim(["file"], NOON, LATE) == []
    assert store.changes.count == seen
    await store.outbox.add_message(OutgoingMessage(FILE, "hello", "me"))
    assert store.changes.count > seen
