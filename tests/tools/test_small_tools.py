"""current_time, sleep, json_*, base64_* and notify: what they answer, and what they say of bad input."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.toolbox import Tool
from gencode.core.errors import ToolError
from gencode.tools.clock import CURRENT_TIME, LONGEST_MS, SLEEP
from gencode.tools.data_formats import BASE64_DECODE, BASE64_ENCODE, JSON_PARSE, JSON_STRINGIFY
from gencode.tools.data_formats import LONGEST as LONGEST_JSON
from gencode.tools.message import LONGEST_NOTICE, NOTIFY
from tests.tools.desk import Desk


async def refusal(desk: Desk, tool: Tool, **given: Any) -> str:
    with pytest.raises(ToolError) as error:
        await desk.use(tool, **given)
    return str(error.value)


@pytest.fixture
def in_zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


DAY = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
LOCAL = re.compile(rf"\w+day {DAY}([+-]\d\d:\d\d) \(.+\)\n{DAY}Z UTC")
STRANGE_ZONES = ["Atlantis/Center", "Europe", "../../etc/passwd", "/etc/localtime", "x" * 200, "a\0"]


@pytest.mark.skipif("Asia/Kolkata" not in available_timezones(), reason="there is no zone database")
@pytest.mark.usefixtures("in_zurich")
async def test_the_time_is_told_here_elsewhere_and_in_utc(desk: Desk) -> None:
    here, there = await desk.use(CURRENT_TIME), await desk.use(CURRENT_TIME, tz="Asia/Kolkata")
    offsets = [found[1] for text in (here, there) if (found := LOCAL.fullmatch(text))]
    assert offsets[0] in ("+01:00", "+02:00") and offsets[1:] == ["+05:30"]


@pytest.mark.parametrize("zone", STRANGE_ZONES)
async def test_a_zone_that_does_not_exist_is_said_in_a_sentence(desk: Desk, zone: str) -> None:
    assert (await refusal(desk, CURRENT_TIME, timezone=zone)).startswith("There is no time zone '")


async def test_a_sleep_is_as_long_as_was_said_and_can_be_cut(desk: Desk) -> None:
    assert await desk.use(SLEEP, duration=20) == "Waited 0.02 s."
    asleep = asyncio.create_task(desk.use(SLEEP, duration=LONGEST_MS))
    await asyncio.sleep(0.01)
    asleep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asleep


@pytest.mark.parametrize("duration", [-1, LONGEST_MS + 1, "soon", None])
async def test_a_sleep_without_bounds_is_refused(desk: Desk, duration: Any) -> None:
    said = await refusal(desk, SLEEP, duration=duration)
    assert said.endswith("sleep takes duration (integer, required).")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(value=VALUES, indent=st.integers(0, 8))
async def test_what_is_written_as_json_is_read_the_same(value: Any, indent: int) -> None:
    desk = Desk(Path("/"))
    text = await desk.use(JSON_STRINGIFY, value=value, indent=indent)
    assert json.loads(text) == value
    assert json.loads(await desk.use(JSON_PARSE, text=text)) == value


async def test_json_is_laid_out_and_a_part_of_it_is_found(desk: Desk) -> None:
    text = '{"b": [1, {"a/b": "é", "~": null}], "": 0}'
    assert await desk.use(JSON_PARSE, text='{"b":[1]}') == '{\n  "b": [\n    1\n  ]\n}'
    for pointer, found in (("/b/1/a~1b", '"é"'), ("/b/1/~0", "null"), ("/", "0"), ("/b/0", "1")):
        assert await desk.use(JSON_PARSE, text=text, pointer=pointer) == found
    assert await desk.use(JSON_STRINGIFY, value={"b": 1, "a": [2]}, sort_keys=True) == '{"a": [2], "b": 1}'


@pytest.mark.parametrize(
    ("text", "pointer", "said"),
    [
        ('{"a":\n  oops}', "", "This is not valid JSON: Expecting value in line 2, column 3: 'oops}'."),
        ("", "", "This is not valid JSON: Expecting value in line 1, column 1: ''."),
        ("[NaN]", "", "This is not valid JSON: NaN is not valid JSON; write null or a number."),
        ("[" * 100_000, "", "The JSON is nested too deeply."),
        ("9" * 5_000, "", "This is not valid JSON: Exceeds the limit"),
        ('{"a": 1}', "a", "'a' is not a JSON pointer; begin it with a slash"),
        ('{"a": 1}', "/b", "'/b' does not exist: there is no 'b'; the keys are 'a'."),
        ("[1, 2]", "/2", "'/2' does not exist: '2' is not an index of a list of length 2."),
        ("[1, 2]", "/-1", "'/-1' does not exist: '-1' is not an index of a list of length 2."),
        ("[1, 2]", "/0/x", "'/0/x' does not exist: before 'x' there is only 1."),
        ("1" * (LONGEST_JSON + 1), "", "json_parse: Expected `str` of length <= 1000000"),
    ],
)
async def test_what_is_wrong_with_json_is_told(desk: Desk, text: str, pointer: str, said: str) -> None:
    assert (await refusal(desk, JSON_PARSE, text=text, pointer=pointer)).startswith(said)


@given(text=st.text(), url_safe=st.booleans())
async def test_base64_there_and_back(text: str, url_safe: bool) -> None:
    desk = Desk(Path("/"))
    try:
        packed = await desk.use(BASE64_ENCODE, text=text, url_safe=url_safe)
    except ToolError as error:
        assert "lone surrogate" in str(error)
        return
    for spelled in (packed, packed.rstrip("="), "\n".join(packed)):
        assert await desk.use(BASE64_DECODE, text=spelled) == text


async def test_what_is_no_text_is_described_and_what_is_no_base64_refused(desk: Desk) -> None:
    assert await desk.use(BASE64_DECODE, text="/9j/4AAQ") == (
        "The data is not text and is not shown: 6 bytes, beginning with the bytes ff d8 ff e0 00 10."
    )
    for wrong in ("a", "a$b=", "ab=c", "é"):
        assert await refusal(desk, BASE64_DECODE, text=wrong) == (
            "This is not valid base64: check that it is complete and holds nothing else."
        )


async def test_a_note_is_one_short_line_for_the_person(desk: Desk) -> None:
    assert await desk.use(NOTIFY, text="half\nway \x1b[31m") == "The user was notified."
    await desk.use(NOTIFY, message="x" * 2 * LONGEST_NOTICE)
    assert (desk.noted[0], len(desk.noted[1]), desk.told) == ("half way [31m", LONGEST_NOTICE, [])
    assert await refusal(desk, NOTIFY, message=" \n") == (
        "The message is empty; say in one line what the user should know."
    )
