"""When a job is due: cron expressions, intervals and single moments, in a time zone.

A cron expression is read by CronSim, which follows Debian's cron: where clocks are put forward, a time that
is left out comes at the first minute after the gap; where they are put back, a time that comes twice counts
once, the first. Only expressions whose minute or hour begins with `*` follow the wall minute by minute: in
both hours, and in no gap.
"""

import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import islice, takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp

SHORTEST = 60
"""The shortest time between two runs, in seconds."""
LONGEST = 366 * 24 * 3600
FARTHEST = timedelta(days=3660)
"""The farthest time in the future that can be scheduled."""
LONGEST_TEXT = 200
_MINUTE = timedelta(minutes=1)

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SINGLE = re.compile(r"\b(\w+)-\1/\d+")
"""A range of one number with a step; CronSim 2.8 continues to the end of the field."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(
    r"([0-9]{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
)
_WORDS = {"minute": "1m", "hour": "1h", "day": "1d", "week": "1w"}
WAYS = 'write it as "0 9 * * 1-5", "@daily", "every 10m", "in 2h" or "at 2026-11-30T09:00"'


_FIELDS = (
    ("minute", "a number from 0 to 59"),
    ("hour", "a number from 0 to 23"),
    ("day of the month", "a number from 1 to 31, or l for the last one"),
    ("month", "a number from 1 to 12, or a name such as jan"),
    (
        "day of the week",
        "a number from 0 to 7, a name such as mon, or mon#1 or 5l for the first or last one",
    ),
)
"""The fields of a cron expression: their names, and their values."""


class Cron(Struct, frozen=True):
    """A cron expression of five fields."""

    text: str

    def __str__(self) -> str:
        return self.text

    def times(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """The times after a moment, in order."""
        from cronsim import CronSim, CronSimError

        often = any(field.startswith("*") for field in self.text.split()[:2])
        with suppress(CronSimError):  # no month has such a day
            for found in CronSim(self.text, after.astimezone(zone)):
                moment = found.astimezone(UTC)
                # In an hour that comes twice, CronSim also names times of the first one again. Of a day that
                # begins with a skipped hour it names times in that, which only fixed times are made up for.
                exists = moment.astimezone(zone).replace(tzinfo=None) == found.replace(tzinfo=None)
                if moment > after and (exists or not often):
                    yield moment


class Every(Struct, frozen=True):
    """Repeats after so many seconds, counted from when it was scheduled."""

    seconds: int
    begun: datetime

    def __str__(self) -> str:
        return f"every {_span(self.seconds)}"

    def times(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """The times after a moment, in order."""
        passed = max(0, int((after - self.begun).total_seconds() // self.seconds))
        while True:
            passed += 1
            yield self.begun + timedelta(seconds=passed * self.seconds)


class Once(Struct, frozen=True):
    """One time."""

    at: datetime

    def __str__(self) -> str:
        return f"at {stamp(self.at)}"

    def times(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """The time, if it is after a moment."""
        if self.at > after:
            yield self.at


Schedule = Cron | Every | Once


def parse_schedule(text: str, now: datetime, zone: ZoneInfo) -> Schedule:
    """Parse a schedule at a moment; UserMistake says how to write it."""
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
    """A stored schedule, by the time when it was scheduled."""
    first, _, rest = text.partition(" ")
    if first == "at":
        return Once(datetime.fromisoformat(rest))
    return Every(_seconds(text, rest), begun) if first == "every" else _cron(text)


def next_time(schedule: Schedule, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first time after a moment; None if there is none any more."""
    found = next(schedule.times(after, zone), None)
    return None if found is None or found > after + FARTHEST else found


def count_until(schedule: Schedule, first: datetime, last: datetime, zone: ZoneInfo, most: int) -> int:
    """The number of times from `first`, which is one of them, to `last`; `most` stands for more."""
    if first > last:
        return 0
    later = islice(schedule.times(first, zone), most - 1)
    return 1 + sum(1 for _ in takewhile(lambda each: each <= last, later))


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The moment at which a clock shows a time: the first one, or the end of the gap it is in."""
    while (moment := wall.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != wall:
        wall = wall.replace(second=0) + _MINUTE
    return moment


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
    parts = _SINGLE.sub(r"\1", text).split()
    for place, (part, (name, wanted)) in enumerate(zip(parts, _FIELDS, strict=True)):
        alone = ["*"] * len(_FIELDS)
        alone[place] = part
        if not _is_cron(" ".join(alone)):
            raise UserMistake(
                f"{part!r} is not a {name}; write {wanted}, a list, a range such as 1-5, */2 or *."
            )
    return Cron(" ".join(parts))


def _is_cron(text: str) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(text, datetime.min)
    except CronSimError:
        return False
    return True


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


def format_time(moment: datetime, zone: ZoneInfo) -> str:
    """A moment as text in a zone, with the zone."""
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
    """A file of the zone database that contains only a rule for all times."""
    head = b"TZif2" + bytes(15)
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    body = struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    return BytesIO((head + counts + body) * 2 + b"\n" + rule.encode("ascii") + b"\n")


def _unknown(name: str) -> UserMistake:
    return UserMistake(f"There is no time zone {name[:LONGEST_ZONE]!r}; name one such as Europe/Zurich.")
