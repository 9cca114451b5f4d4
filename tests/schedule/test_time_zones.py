"""Time zones by name, by rule, and the user's own."""

from datetime import UTC, datetime

import pytest

from gencode.core.errors import UserMistake
from gencode.schedule.recurrence import format_time, users_zone, zone_of

SUMMER = datetime(2026, 7, 1, 7, 5, tzinfo=UTC)


def test_a_rule_is_a_zone_without_any_database() -> None:
    berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3")
    assert format_time(SUMMER, berlin) == "2026-07-01 09:05 CEST"
    assert format_time(SUMMER, zone_of("<+0530>-5:30")) == "2026-07-01 12:35 +0530"
    assert format_time(SUMMER, zone_of("UTC")) == "2026-07-01 07:05 UTC"


@pytest.mark.parametrize(
    "name", ["", "Nowhere/Town", "../../etc/passwd", "/etc/passwd", "x1", "A" * 200, "CET-1\x00", "é"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(UserMistake, match="There is no time zone"):
        zone_of(name)


def test_the_users_zone_is_what_tz_says() -> None:
    assert users_zone({"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}) == "CET-1CEST,M3.5.0,M10.5.0/3"
    assert users_zone({"TZ": ":UTC"}) == "UTC"
    with pytest.raises(UserMistake, match="There is no time zone 'Nowhere'"):
        users_zone({"TZ": "Nowhere"})


def test_without_tz_it_is_the_machines() -> None:
    name = users_zone({})
    assert SUMMER.astimezone(zone_of(name)) == SUMMER
