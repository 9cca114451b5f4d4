"""runtime: time zones by name, and the one that the user lives in.

A name is that of the zone database (`Europe/Zurich`), a rule as POSIX writes it in `TZ`
(`CET-1CEST,M3.5.0,M10.5.0/3`), or `localtime`, the zone of the machine where that has no name.
"""

import os
import re
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from gencode.core.errors import UserMistake

LOCAL = "localtime"
LONGEST = 100
_MACHINES = Path("/etc/localtime")
_DATABASE = "zoneinfo/"
_RULE = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?[0-9]")


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo:
    """The zone of a name; UserMistake when there is none."""
    if name == LOCAL:
        return _machines()
    if len(name) <= LONGEST and name.isascii() and name.isprintable():
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
    return UserMistake(f"There is no time zone {name[:LONGEST]!r}; name one such as Europe/Zurich.")
