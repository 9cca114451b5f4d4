"""When a job is due: cron expressions, intervals and single moments, in a time zone.

A cron expression goes by the clock on the wall. Where clocks are put forward, a time that is left out comes
at the first minute after the gap; where they are put back, a time that comes twice counts once, the first.
Only expressions whose minute or hour begins with `*` follow the wall minute by minute: in both hours, and in
no gap.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import islice, takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp

SHORTEST = 60
"""Seconds between two runs at least."""
LONGEST = 366 * 24 * 3600
FARTHEST = timedelta(days=3660)
"""Nothing is planned for a moment farther away."""
LONGEST_TEXT = 200
_SEARCHED_DAYS = 366 * 9  # from one 29 February to the next over a year that has none
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(
    r"(?P<first>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,2}))?"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(
    r"([0-9]{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
)
_WORDS = {"minute": "1m", "hour": "1h", "day": "1d", "week": "1w"}
WAYS = 'write it as "0 9 * * 1-5", "@daily", "every 10m", "in 2h" or "at 2026-11-30T09:00"'


class CronField(Struct, frozen=True):
    """One of the five fields of a cron expression."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of the month", 1, 31),
    CronField("month", 1, 12, _MONTHS),
    CronField("day of the week", 0, 7, _WEEKDAYS),
)


class Cron(Struct, frozen=True):
    """A cron expression: five fields, each with the numbers it means."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def __str__(self) -> str:
        return self.text

    @property
    def wild(self) -> bool:
        """Whether it follows the clock minute by minute and not by single times of the day."""
        minute, hour, *_ = self.text.split()
        return minute.startswith("*") or hour.startswith("*")

    def on(self, day: date) -> bool:
        """Whether it means this day: where both kinds of days are named, one of them is enough."""
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fields = self.text.split()
        either = not fields[2].startswith("*") and not fields[4].startswith("*")
        return of_month or of_week if either else of_month and of_week

    def times(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Every moment after one, in order."""
        day = after.astimezone(zone).date() - _DAY  # a clock that is put back may lead into the day before
        kept: list[datetime] = []
        empty = 0
        while empty < _SEARCHED_DAYS:
            fresh = [each for each in self._of_day(day, zone) if each > after] if self.on(day) else []
            ready = max(kept, default=None)
            both = sorted({*kept, *fresh})
            kept = [] if ready is None else [each for each in both if each > ready]
            if ready is None:
                kept = both
            else:
                yield from (each for each in both if each <= ready)
            empty = 0 if fresh else empty + 1
            day += _DAY

    def _of_day(self, day: date, zone: ZoneInfo) -> Iterator[datetime]:
        for hour in self.hours:
            for minute in self.minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute)
                yield from _moments(wall, zone) if self.wild else (moment_of(wall, zone),)


class Every(Struct, frozen=True):
    """Again and again after so many seconds, counted from when it was planned."""

    seconds: int
    begun: datetime

    def __str__(self) -> str:
        return f"every {_span(self.seconds)}"

    def times(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Every moment after one, in order."""
        passed = max(0, int((after - self.begun).total_seconds() // self.seconds))
        while True:
            passed += 1
            yield self.begun + timedelta(seconds=passed * self.seconds)


class Once(Struct, frozen=True):
    """At one moment."""

    at: datetime

    def __str__(self) -> str:
        return f"at {stamp(self.at)}"

    def times(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """That moment, if it comes after one."""
        if self.at > after:
            yield self.at


Schedule = Cron | Every | Once


def parse_schedule(text: str, now: datetime, zone: ZoneInfo) -> Schedule:
    """Read a schedule that is planned at a moment; UserMistake says how to write it."""
    said = " ".join(text.split())
    first, _, rest = said.partition(" ")
    if not said or len(said) > LONGEST_TEXT:
        raise UserMistake(f"A schedule is missing; {WAYS}.")
    match first.casefold():
        case "every":
            return Every(_seconds(said, rest), now)
        case "in":
            return _once(said, now + timedelta(seconds=_seconds(said, rest)), now)
        case "at":
            return _once(said, _read_moment(rest, zone), now)
        case macro if macro.startswith("@"):
            if said.casefold() not in _MACROS:
                raise UserMistake(f"{said!r} is not known; there are {', '.join(_MACROS)}. Or {WAYS}.")
            return _cron(_MACROS[said.casefold()])
        case _ if len(said.split()) == len(_FIELDS):
            return _coming(_cron(said.casefold()), now, zone)
        case _ if re.match(r"\d{4}-\d\d-\d\d", said):
            return _once(said, _read_moment(said, zone), now)
        case _:
            raise UserMistake(f"{said!r} is not a schedule; {WAYS}.")


def read_schedule(text: str, begun: datetime) -> Schedule:
    """A schedule as it was written down when it was planned, whatever the time is now."""
    first, _, rest = text.partition(" ")
    if first == "at":
        return Once(datetime.fromisoformat(rest))
    return Every(_seconds(text, rest), begun) if first == "every" else _cron(text)


def next_time(schedule: Schedule, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first moment after one; None when there is none any more."""
    found = next(schedule.times(after, zone), None)
    return None if found is None or found > after + FARTHEST else found


def count_until(schedule: Schedule, first: datetime, last: datetime, zone: ZoneInfo, most: int) -> int:
    """How many moments there are from `first`, which is one of them, to `last`; `most` stands for more."""
    if first > last:
        return 0
    later = islice(schedule.times(first, zone), most - 1)
    return 1 + sum(1 for _ in takewhile(lambda each: each <= last, later))


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The moment at which a clock on the wall shows a time: the first one, or the end of the gap it is in."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return moment
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(before, moment, zone)


def _moments(wall: datetime, zone: ZoneInfo) -> Iterable[datetime]:
    """Every moment at which a clock shows a time: none in a gap, two where it is put back."""
    both = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return [each for each in both if each.astimezone(zone).replace(tzinfo=None, fold=0) == wall]


def _change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The first minute at which the clocks that change between two moments show the new time."""
    new = after.astimezone(zone).utcoffset()
    early, late = int(before.timestamp()), int(after.timestamp())
    while late - early > 1:
        middle = (early + late) // 2
        changed = datetime.fromtimestamp(middle, zone).utcoffset() == new
        early, late = (early, middle) if changed else (middle, late)
    return datetime.fromtimestamp(late + -late % 60, UTC)


def _once(said: str, at: datetime, now: datetime) -> Once:
    if at <= now:
        raise UserMistake(f"{said!r} is in the past; name a time to come.")
    if at > now + FARTHEST:
        raise UserMistake(f"{said!r} is more than ten years away; name an earlier time.")
    return Once(at)


def _coming(cron: Cron, now: datetime, zone: ZoneInfo) -> Cron:
    if next_time(cron, now, zone) is None:
        raise UserMistake(f"{cron.text!r} never occurs: none of its months has such a day.")
    return cron


def _read_moment(text: str, zone: ZoneInfo) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
        return found.astimezone(UTC) if found.tzinfo else moment_of(found.replace(fold=0), zone)
    except (ValueError, OverflowError):
        raise UserMistake(f"{text[:80]!r} is not a time; write it as 2026-11-30T09:00.") from None


def _seconds(said: str, text: str) -> int:
    spelled = _WORDS.get(text.strip().casefold(), text.strip().casefold())
    parts = _SPAN.findall(spelled)
    if not parts or _SPAN.sub("", spelled).strip(" ,"):
        raise UserMistake(f"{said!r} is not a duration; write it as 10m, 2h or 1d12h.")
    seconds = sum(int(number) * _UNITS[unit[0]] for number, unit in parts)
    if not SHORTEST <= seconds <= LONGEST:
        raise UserMistake(f"{said!r} is not between a minute and a year.")
    return seconds


def _span(seconds: int) -> str:
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        number, seconds = divmod(seconds, _UNITS[unit])
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts)


def _cron(text: str) -> Cron:
    parts = text.split()
    numbers = [_numbers(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = numbers
    return Cron(" ".join(parts), minutes, hours, days, months, frozenset(each % 7 for each in weekdays))


def _numbers(text: str, field: CronField) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UserMistake(
                f"{part!r} is not a {field.name}; write a number, a range such as 1-5, */2 or *."
            )
        first, last, step = match["first"], match["last"], int(match["step"] or 1)
        if first == "*":
            low, high = field.least, field.most
        else:
            low = _number(first, field)
            high = _number(last, field) if last else low
        if step < 1 or low > high or (match["step"] and not last and first != "*") or (first == "*" and last):
            raise UserMistake(
                f"{part!r} is not a {field.name}; write a number, a range such as 1-5, */2 or *."
            )
        found.update(range(low, high + 1, step))
    return frozenset(found)


def _number(text: str, field: CronField) -> int:
    if text in field.names:
        return field.names.index(text) + field.least
    if not text.isdecimal() or not field.least <= int(text) <= field.most:
        raise UserMistake(f"{text!r} is not a {field.name}; it goes from {field.least} to {field.most}.")
    return int(text)


LOCAL = "localtime"
LONGEST_ZONE = 100
_MACHINES = Path("/etc/localtime")
_DATABASE = "zoneinfo/"
_RULE = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?[0-9]")


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo:
    """The zone of a name; UserMistake when there is none."""
    if name == LOCAL:
        return _machines()
    if len(name) <= LONGEST_ZONE and name.isascii() and name.isprintable():
        try:
            # A folder of the zone database raises an OSError, an unknown name a KeyError.
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            if rule := "UTC0" if name in ("UTC", "Etc/UTC") else _RULE.match(name) and name:
                return _by_rule(rule, name)
    raise _unknown(name)


def users_zone(environ: Mapping[str, str] | None = None) -> str:
    """The name of the user's zone: that of `TZ`, else that of the machine."""
    wanted = (os.environ if environ is None else environ).get("TZ", "").strip().removeprefix(":")
    if wanted:
        zone_of(wanted)
        return wanted
    try:
        place = str(_MACHINES.resolve(strict=True))
    except OSError:
        return "UTC"
    _, found, name = place.rpartition(_DATABASE)
    try:
        return zone_of(name).key if found else LOCAL
    except UserMistake:
        return LOCAL


def told(moment: datetime, zone: ZoneInfo) -> str:
    """A moment as a person in that zone reads it, with the zone."""
    there = moment.astimezone(zone)
    return f"{there:%Y-%m-%d %H:%M} {there.tzname() or zone.key}"


def _machines() -> ZoneInfo:
    try:
        with _MACHINES.open("rb") as file:
            return ZoneInfo.from_file(file, key=LOCAL)
    except (OSError, ValueError):
        return _by_rule("UTC0", "UTC")


def _by_rule(rule: str, name: str) -> ZoneInfo:
    try:
        zone = ZoneInfo.from_file(_file_of(rule), key=name)
        datetime(2026, 7, 1, tzinfo=UTC).astimezone(zone)
    except (ValueError, OverflowError):
        raise _unknown(rule) from None
    return zone


def _file_of(rule: str) -> BytesIO:
    """A file of the zone database in which nothing stands but a rule for all times."""
    head = b"TZif2" + bytes(15)
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    body = struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    return BytesIO((head + counts + body) * 2 + b"\n" + rule.encode("ascii") + b"\n")


def _unknown(name: str) -> UserMistake:
    return UserMistake(f"There is no time zone {name[:LONGEST_ZONE]!r}; name one such as Europe/Zurich.")
