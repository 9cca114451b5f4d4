"""When something is due: what can be written, and what it means where clocks are put forward and back."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gencode.core.errors import UserMistake
from gencode.schedule.recurrence import (
    Cron,
    Every,
    Once,
    Schedule,
    count_until,
    next_time,
    parse_schedule,
    read_schedule,
    zone_of,
)

NOW = datetime(2026, 3, 10, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

# Rules and not names, so that no zone database is needed.
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"
LORD_HOWE = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"
AFTER_MIDNIGHT = "NST3:30NDT,M4.1.0/0:01,M10.5.0/0:01"
FROM_MIDNIGHT = "<-03>3<-02>,M10.3.0/0,M2.3.0/0"
# Not AFTER_MIDNIGHT: CronSim steps by whole hours, and no zone changes its clock at 0:01 any more.
ZONES = (BERLIN, NEW_YORK, LORD_HOWE, FROM_MIDNIGHT, "UTC0", "<+0545>-5:45")


def cron(text: str) -> Cron:
    found = parse_schedule(text, NOW, zone_of("UTC0"))
    assert isinstance(found, Cron)
    return found


def local(text: str, *after: int, zone: str = BERLIN, count: int = 3) -> list[str]:
    """The next times of an expression after a moment in UTC, as the wall shows them."""
    where, moment = zone_of(zone), datetime(*after, tzinfo=UTC)  # type: ignore[misc]
    return [
        f"{each.astimezone(where):%d %H:%M %Z}" for each in islice(cron(text).times(moment, where), count)
    ]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("  0   9 * * MON-fri ", "0 9 * * mon-fri"),
        ("@daily", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("every 10m", "every 10m"),
        ("every 90 minutes", "every 1h30m"),
        ("every 1d12h", "every 1d12h"),
        ("every day", "every 1d"),
        ("Every 2 hours, 5 min", "every 2h5m"),
        ("every 60s", "every 1m"),
        ("in 20m", "at 2026-03-10T12:20:30.000000Z"),
        ("at 2026-03-11T09:00", "at 2026-03-11T08:00:00.000000Z"),
        ("2026-03-11 09:00", "at 2026-03-11T08:00:00.000000Z"),
        ("at 2026-03-11T09:00:00+05:00", "at 2026-03-11T04:00:00.000000Z"),
        ("at 2026-03-29T02:30", "at 2026-03-29T01:00:00.000000Z"),
        ("at 2026-10-25T02:30", "at 2026-10-25T00:30:00.000000Z"),
    ],
)
def test_a_schedule_is_written_in_many_ways_and_read_back_as_the_same(text: str, canonical: str) -> None:
    found = parse_schedule(text, NOW, zone_of(BERLIN))
    assert str(found) == canonical
    assert read_schedule(canonical, NOW) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "A schedule is missing"),
        ("x" * 300, "A schedule is missing"),
        ("tomorrow", "'tomorrow' is not a schedule; write it as"),
        ("* * * *", "is not a schedule"),
        ("60 * * * *", "'60' is not a minute; write a number from 0 to 59"),
        ("* 24 * * *", "'24' is not a hour"),
        ("* * 0 * *", "'0' is not a day of the month"),
        ("* * * 13 *", "'13' is not a month"),
        ("* * * * 8", "'8' is not a day of the week"),
        ("* * * * mo", "'mo' is not a day of the week"),
        ("5-1 * * * *", "'5-1' is not a minute"),
        ("*/0 * * * *", "'\\*/0' is not a minute"),
        ("*-5 * * * *", "is not a minute"),
        ("1,,2 * * * *", "'1,,2' is not a minute"),
        ("L * * * *", "'l' is not a minute"),
        ("0 0 * * fri#6", "'fri#6' is not a day of the week"),
        ("0 0 * * * *", "is not a schedule"),
        ("0 0 30 2 *", "never occurs"),
        ("0 0 31 2,4,6,9,11 *", "never occurs"),
        ("* * */20 * 1L", "never occurs"),
        ("0 0 * 2 mon#5", "never occurs"),
        (",".join(["*/1"] * 47) + " * * * x", "'x' is not a day of the week"),
        ("1" * 190 + " * * * *", "is not a minute"),
        ("/" * 190 + " * * * *", "is not a minute"),
        ("@reboot", "'@reboot' is not known; there are @yearly"),
        ("every", "is not a duration"),
        ("every 10", "is not a duration"),
        ("every 10mice", "is not a duration"),
        ("every 59s", "is not between a minute and a year"),
        ("every 400d", "is not between a minute and a year"),
        ("every 999999999w", "is not between a minute and a year"),
        ("in 10s", "is not between a minute and a year"),
        ("at noon", "'noon' is not a time"),
        ("at 2026-03-10T12:00Z", "is in the past"),
        ("at 2100-01-01T00:00", "more than ten years away"),
        ("at 9999-12-31T23:59", "more than ten years away"),
        ("at 0001-01-01T00:00", "is not a time|is in the past"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(UserMistake, match=why):
        parse_schedule(text, NOW, zone_of(BERLIN))


def test_a_time_in_the_gap_comes_right_after_it_and_only_once() -> None:
    assert local("30 2 * * *", 2026, 3, 28, 0, 0) == ["28 02:30 CET", "29 03:00 CEST", "30 02:30 CEST"]
    assert local("0,30 2 * * *", 2026, 3, 29, 0, 0, count=2) == ["29 03:00 CEST", "30 02:00 CEST"]
    assert local("0 2,3 * * *", 2026, 3, 29, 0, 0, count=2) == ["29 03:00 CEST", "30 02:00 CEST"]


def test_a_time_that_comes_twice_counts_once() -> None:
    assert local("30 2 * * *", 2026, 10, 24, 1, 0) == ["25 02:30 CEST", "26 02:30 CET", "27 02:30 CET"]


def test_what_follows_the_clock_does_so_in_both_hours_and_in_no_gap() -> None:
    assert local("*/30 * * * *", 2026, 10, 25, 0, 0, count=4) == [
        "25 02:30 CEST",
        "25 02:00 CET",
        "25 02:30 CET",
        "25 03:00 CET",
    ]
    assert local("*/20 2 * * *", 2026, 3, 28, 2, 0, count=1) == ["30 02:00 CEST"]
    assert local("15 * * * *", 2026, 3, 29, 0, 0, count=3) == [
        "29 01:15 CET",
        "29 03:15 CEST",
        "29 04:15 CEST",
    ]


def test_a_clock_that_is_put_back_over_midnight_leads_into_the_day_before() -> None:
    assert local("0 * * * *", 2026, 10, 25, 1, 0, zone=AFTER_MIDNIGHT, count=4) == [
        "24 23:00 NDT",
        "25 00:00 NDT",
        "25 00:00 NST",
        "25 01:00 NST",
    ]


def test_days_of_the_month_and_of_the_week_are_either_when_both_are_named() -> None:
    assert local("0 0 13 * 5", 2026, 3, 1, zone="UTC0") == ["06 00:00 UTC", "13 00:00 UTC", "20 00:00 UTC"]
    assert local("0 0 */13 * 5", 2026, 3, 1, zone="UTC0", count=2) == ["27 00:00 UTC", "01 00:00 UTC"]
    assert local("0 0 * * 7", 2026, 3, 1, zone="UTC0", count=1) == ["08 00:00 UTC"]


def test_last_days_and_numbered_weekdays_can_be_named() -> None:
    assert local("0 0 L * *", 2026, 2, 1, zone="UTC0") == ["28 00:00 UTC", "31 00:00 UTC", "30 00:00 UTC"]
    assert local("0 0 LW * *", 2026, 2, 1, zone="UTC0", count=2) == ["27 00:00 UTC", "31 00:00 UTC"]
    assert local("0 9 * * MON#1", 2026, 3, 1, zone="UTC0", count=2) == ["02 09:00 UTC", "06 09:00 UTC"]
    assert local("0 9 * * 5L", 2026, 3, 1, zone="UTC0", count=2) == ["27 09:00 UTC", "24 09:00 UTC"]
    assert local("50/5 9 * * *", 2026, 3, 1, zone="UTC0", count=2) == ["01 09:50 UTC", "01 09:55 UTC"]


def test_the_twenty_ninth_of_february_comes_even_over_a_century() -> None:
    leap = cron("0 0 29 2 *")
    assert next_time(leap, datetime(2026, 1, 1, tzinfo=UTC), zone_of("UTC0")) == datetime(
        2028, 2, 29, tzinfo=UTC
    )
    assert next_time(leap, datetime(2096, 3, 1, tzinfo=UTC), zone_of("UTC0")) == datetime(
        2104, 2, 29, tzinfo=UTC
    )


def test_an_interval_is_counted_from_when_it_was_planned() -> None:
    ten = Every(600, NOW)
    assert next_time(ten, NOW - timedelta(days=1), zone_of("UTC0")) == NOW + timedelta(minutes=10)
    assert next_time(ten, NOW + timedelta(minutes=10), zone_of("UTC0")) == NOW + timedelta(minutes=20)
    assert next_time(ten, NOW + timedelta(minutes=25), zone_of("UTC0")) == NOW + timedelta(minutes=30)


def test_a_moment_comes_once() -> None:
    once = Once(NOW + MINUTE)
    assert [next_time(once, NOW + each, zone_of("UTC0")) for each in (0 * MINUTE, MINUTE)] == [
        NOW + MINUTE,
        None,
    ]


@pytest.mark.parametrize(
    ("first", "last", "count"), [(0, -1, 0), (0, 0, 1), (0, 9, 1), (0, 10, 2), (0, 95, 10), (0, 99_999, 50)]
)
def test_moments_are_counted_up_to_a_bound(first: int, last: int, count: int) -> None:
    ten = Every(600, NOW)
    assert count_until(ten, NOW + first * MINUTE, NOW + last * MINUTE, zone_of("UTC0"), 50) == count


def scanned(schedule: Cron, after: datetime, zone: ZoneInfo, minutes: int) -> Iterator[datetime]:
    """The same by looking at every minute there is, one after the other."""
    minute, hour, *_ = schedule.text.split()
    wild = minute.startswith("*") or hour.startswith("*")
    start = after.replace(second=0, microsecond=0)
    for number in range(1, minutes + 1):
        moment = start + number * MINUTE
        wall, before = moment.astimezone(zone), (moment - MINUTE).astimezone(zone)
        shown = wall.replace(tzinfo=None, fold=0)
        skipped: list[datetime] = []
        if not wild:
            gap = shown - before.replace(tzinfo=None, fold=0) - MINUTE
            skipped = [shown - each * MINUTE for each in range(1, int(gap / MINUTE) + 1)]
        own = [shown] if wild or wall.fold == 0 else []
        if any(matches(schedule.text, each) for each in (*own, *skipped)):
            yield moment


def matches(text: str, wall: datetime) -> bool:
    minute, hour, day, month, weekday = text.split()
    of_month = wall.day in numbers(day, 1, 31)
    of_week = not {wall.isoweekday(), wall.isoweekday() % 7}.isdisjoint(numbers(weekday, 0, 7))
    both = day.startswith("*") or weekday.startswith("*")
    return (
        wall.minute in numbers(minute, 0, 59)
        and wall.hour in numbers(hour, 0, 23)
        and wall.month in numbers(month, 1, 12)
        and (of_month and of_week if both else of_month or of_week)
    )


@cache
def numbers(text: str, least: int, most: int) -> set[int]:
    """What a field means that `field` made."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{least}-{most}" if span == "*" else span).partition("-")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def field(least: int, most: int) -> st.SearchStrategy[str]:
    numbers = st.integers(least, most)
    ranges = st.tuples(numbers, numbers, st.integers(1, 9)).map(
        lambda each: f"{min(each[:2])}-{max(each[:2])}/{each[2]}"
    )
    some = st.lists(st.one_of(numbers.map(str), ranges), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), st.integers(1, 30).map(lambda step: f"*/{step}"), some)


EXPRESSIONS = st.tuples(field(0, 59), field(0, 4), field(1, 31), field(1, 12), field(0, 7)).map(" ".join)
CHANGES = st.sampled_from(
    [(2026, 3, 29), (2026, 10, 25), (2026, 3, 8), (2026, 11, 1), (2026, 4, 5), (2026, 10, 18)]
)


@example("* */2 * * */4", FROM_MIDNIGHT, (2026, 10, 18), 541)  # no run at 1:00 for the 0:00 that is skipped
@given(EXPRESSIONS, st.sampled_from(ZONES), CHANGES, st.integers(0, 3 * 1440))
def test_the_next_times_are_those_that_looking_at_every_minute_finds(
    text: str, name: str, change: tuple[int, int, int], before: int
) -> None:
    schedule, zone = cron_or_never(text), zone_of(name)
    after = datetime(*change, 12, tzinfo=UTC) - before * MINUTE
    minutes = 3 * 1440
    expected = list(islice(scanned(schedule, after, zone, minutes), 100))
    until = after.replace(second=0) + minutes * MINUTE
    found = list(islice((each for each in takewhile_until(schedule, after, zone, until)), 100))
    assert found == expected


def cron_or_never(text: str) -> Cron:
    found = read_schedule(text, NOW)
    assert isinstance(found, Cron)
    return found


def takewhile_until(
    schedule: Schedule, after: datetime, zone: ZoneInfo, until: datetime
) -> Iterator[datetime]:
    for each in schedule.times(after, zone):
        if each > until:
            return
        yield each


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        found = parse_schedule(text, NOW, zone_of(BERLIN))
    except UserMistake as mistake:
        assert str(mistake).endswith(".")
    else:
        assert read_schedule(str(found), NOW) == found
