"""http_get, http_post and http_request: a small internet, asked plainly, guarded like WebFetch."""

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.toolbox import Tool, ToolOutput
from gencode.core.errors import ToolError
from gencode.core.text import CLIP
from gencode.tools.catalog import on_request
from gencode.tools.http_request import (
    LARGEST_BODY,
    LONGEST_HEADER,
    MOST_HEADERS,
    SHOWN_BODY,
    http_get,
    http_post,
    http_request,
)
from tests.tools.desk import Desk
from tests.workspaces.village import Village, page, redirect, village_in

A = "http://a.example.net/"
JSON = "Content-Type: application/json"
MAKERS = [http_get, http_post, http_request]


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        yield built


async def refusal(desk: Desk, tool: Tool, **given: Any) -> str:
    with pytest.raises(ToolError) as error:
        await desk.use(tool, **given)
    return str(error.value)


async def test_an_answer_comes_with_its_status_its_headers_and_its_body_as_it_is(
    desk: Desk, village: Village
) -> None:
    act = page(b'{"a": "<b>"}', JSON, "ETag: x1", "Set-Cookie: secret=1", "Link: <a>\t; rel=next")
    house = await village.build("a.example.net", act)
    output = await desk.output(http_get(village), url=A, headers={"X-Ask": "1", "accept": "text/html"})
    assert output == ToolOutput(
        'content-type: application/json\netag: x1\nlink: <a> ; rel=next\n\n{"a": "<b>"}',
        foreign=True,
        note=f"GET {A}: status 200, 12 bytes",
    )
    (visit,) = house.visits
    assert (visit.header("x-ask"), visit.header("accept"), visit.body) == ("1", "text/html", b"")


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ("a=1&b=2", b"a=1&b=2", "text/plain; charset=utf-8"),
        ({"a": ["é", None]}, '{"a": ["é", null]}'.encode(), "application/json"),
        ("", b"", "text/plain; charset=utf-8"),
        (None, b"", None),
    ],
)
async def test_a_body_is_sent_as_it_is_or_as_json(
    desk: Desk, village: Village, body: Any, sent: bytes, kind: str | None
) -> None:
    house = await village.build("a.example.net", page(b"", status="201 Made"))
    assert await desk.use(http_post(village), url=A, body=body) == f"[POST {A}: status 201, 0 bytes]"
    assert await desk.use(http_request(village), url=A, method="PUT", data=body) == (
        f"[PUT {A}: status 201, 0 bytes]"
    )
    assert [(visit.head.split(" ")[0], visit.body) for visit in house.visits] == [
        ("POST", sent),
        ("PUT", sent),
    ]
    if kind:
        assert {visit.header("content-type") for visit in house.visits} == {kind}


async def test_the_type_of_a_body_can_be_said(desk: Desk, village: Village) -> None:
    house = await village.build("a.example.net", page(b""))
    await desk.use(http_post(village), url=A, body="<a/>", headers={"content-type": "text/xml"})
    assert house.visits[0].head.lower().count("content-type") == 1
    assert house.visits[0].header("content-type") == "text/xml"


async def test_a_failure_of_the_server_is_an_error_with_its_text(desk: Desk, village: Village) -> None:
    await village.build("a.example.net", page(b"<h1>no</h1>", "Content-Type: text/html", status="404 No"))
    output = await desk.output(http_get(village), url=A)
    assert (output.error, output.text.split("\n")[-1]) == (True, "<h1>no</h1>")


async def test_what_is_no_text_is_not_shown_and_what_is_long_is_cut(desk: Desk, village: Village) -> None:
    await village.build("a.example.net", page(b"\x89PNG\0", "Content-Type: image/png"))
    await village.build("b.example.net", page(b"x" * (2 * CLIP), "Content-Type: text/plain"))
    image = await desk.output(http_get(village), url=A)
    assert image.note == f"GET {A}: status 200, 5 bytes; the body is not text and is not shown"
    long = await desk.output(http_get(village), url="http://b.example.net/")
    assert len(long.text) <= CLIP
    cut = f"only the first {SHOWN_BODY:,} of {2 * CLIP:,} characters of the body are shown"
    assert long.note.endswith(cut)


async def test_a_redirect_to_another_host_is_only_told(desk: Desk, village: Village) -> None:
    await village.build("a.example.net", redirect("http://b.example.net/x"))
    other = await village.build("b.example.net", page(b"x"))
    said = (
        f"{A} redirects to another host and was not followed; "
        "request http://b.example.net/x if you want that page."
    )
    for make in MAKERS:
        assert await refusal(desk, make(village), url=A) == said
    assert other.connections == 0


async def test_a_request_that_is_not_a_get_is_not_repeated_elsewhere(desk: Desk, village: Village) -> None:
    house = await village.build("a.example.net", redirect(f"{A}again", 307))
    assert "it is not sent there unasked" in await refusal(desk, http_post(village), url=A, body="x")
    assert house.connections == 1


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://169.254.169.254/latest/",
        "http://[::1]/",
        "http://me:pw@a.example.net/",
        "http://a.example.net:22/",
        "file:///etc/passwd",
        "ftp://a.example.net/",
        "http://2130706433/",
        "nonsense",
        "",
        "http://inside.example.net/",
    ],
)
async def test_no_private_address_no_credentials_and_no_other_scheme(
    desk: Desk, village: Village, make: Callable[[Village], Tool], url: str
) -> None:
    village.names["inside.example.net"] = [["10.0.0.7"]]
    assert await refusal(desk, make(village), url=url)
    assert (village.placed, village.trap.connections) == ([], 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"headers": {"Host": "b.example.net"}}, "The header 'Host' cannot be set"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "cannot be set"),
        ({"headers": {"A": "b\r\nC: d"}}, "The header 'A' holds characters that no header has."),
        ({"headers": {"A b": "c"}}, "holds characters that no header has"),
        ({"headers": {f"A{n}": "" for n in range(MOST_HEADERS + 1)}}, "at most 30 headers"),
        ({"headers": {"A": "x" * LONGEST_HEADER}}, "The header 'A' is longer than 4,096 characters."),
        ({"headers": ["A"]}, "Expected `object | null`, got `array`"),
        ({"method": "TRACE"}, "Invalid enum value 'TRACE'"),
        ({"method": "GET / HTTP/1.1"}, "Invalid enum value"),
        ({"body": "x" * (LARGEST_BODY + 1)}, "The body is longer than 1,000,000 bytes; send less."),
        ({"body": "\ud800"}, "The body cannot be sent"),
        ({"verify": False}, "unknown field `verify`"),
    ],
)
async def test_bounds_of_methods_headers_and_bodies(
    desk: Desk, village: Village, given: dict[str, Any], said: str
) -> None:
    house = await village.build("a.example.net", page(b"x"))
    assert said in await refusal(desk, http_request(village), url=A, **given)
    assert house.connections == 0


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override"])
async def test_a_get_cannot_be_made_into_more(desk: Desk, village: Village, name: str) -> None:
    house = await village.build("a.example.net", page(b"x"))
    assert await refusal(desk, http_get(village), url=A, headers={name: "DELETE"}) == (
        f"The header {name!r} changes the method of the request; use http_request."
    )
    assert house.connections == 0


async def test_only_the_get_counts_as_reading() -> None:
    box = {each.name: each.load() for each in on_request(Path) if each.name.startswith("http")}
    assert {name: tool.effect for name, tool in box.items()} == {
        "http_get": "read",
        "http_post": "write",
        "http_request": "write",
    }
    assert json.dumps(box["http_get"].schema).count("body") == 0
