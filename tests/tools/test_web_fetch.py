"""WebFetch: pages of a small internet, told to a model."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode.agent.toolbox import Tool, ToolOutput
from gencode.core.errors import ToolError
from gencode.core.text import CLIP
from gencode.tools import web_page
from gencode.tools.web_fetch import KEPT_CHARACTERS, WEB_FETCH, PageCache, web_fetch
from gencode.tools.web_page import LIMITS, PART, WebPage
from tests.tools.desk import Desk
from tests.workspaces.village import Act, Village, Visit, endless, page, raw, redirect, village_in

HTML = "Content-Type: text/html; charset=utf-8"
PLAIN = "Content-Type: text/plain"
A = "http://a.example.net/"


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        yield built


class Clock:
    """A clock that is set by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def told(desk: Desk, village: Village, act: Act, url: str = A) -> str:
    await village.build("a.example.net", act)
    return await desk.use(web_fetch(village), url=url)


async def trouble(desk: Desk, tool: Tool, url: str = A, **more: object) -> str:
    with pytest.raises(ToolError) as raised:
        await desk.use(tool, url=url, **more)
    return str(raised.value)


async def test_html_comes_as_markdown_below_a_line_of_ours(desk: Desk, village: Village) -> None:
    body = "<title>Café</title><h2>Hi</h2><p>See <a href=x>this</a>.<script>no</script>".encode()
    assert await told(desk, village, page(body, HTML), A + "docs/") == (
        f"[{A}docs/ (text/html, 76 bytes)]\n# Café\n\n## Hi\n\nSee [this]({A}docs/x)."
    )


async def test_plain_text_and_json_come_as_they_are(desk: Desk, village: Village) -> None:
    body = b'{\n  "a": "<b>"\n}\n'
    assert await told(desk, village, page(body, "Content-Type: application/json")) == (
        f'[{A} (application/json, 17 bytes)]\n{{\n  "a": "<b>"\n}}'
    )


async def test_what_is_not_text_is_described(desk: Desk, village: Village) -> None:
    body = b"\x89PNG\r\n\x1a\n\0" + bytes(3000)
    assert await told(desk, village, page(body, "Content-Type: image/png")) == (
        f"[{A} (image/png, 3.0 KB); it is not text and is not shown]"
    )


@pytest.mark.parametrize(
    ("header", "body", "note"),
    [
        (HTML, b"<script>app()</script>", "it has no text; content that needs JavaScript is missing"),
        (PLAIN, b"", "it is empty"),
        ("Content-Type: image/png", b"", "it is empty"),
    ],
)
async def test_an_empty_page_says_so(
    desk: Desk, village: Village, header: str, body: bytes, note: str
) -> None:
    text = await told(desk, village, page(body, header))
    assert "\n" not in text and text.endswith(f"; {note}]")


@pytest.mark.parametrize("status", [404, 500, 403])
async def test_an_error_of_the_server_is_told_with_its_text(
    desk: Desk, village: Village, status: int
) -> None:
    house = await village.build("a.example.net", page(b"<h1>Nope</h1>", HTML, status=f"{status} No"))
    tool = web_fetch(village)
    for _ in range(2):
        output = await desk.output(tool, url=A)
        about = f"{A} (text/html, 13 bytes, status {status})"
        assert output == ToolOutput("# Nope", error=True, foreign=True, note=about)
    assert house.connections == 2


async def test_the_question_of_other_products_is_accepted(desk: Desk, village: Village) -> None:
    await village.build("a.example.net", page(b"x", PLAIN))
    assert await desk.use(web_fetch(village), url=A, prompt="what is it?") == f"[{A} (text/plain, 1 byte)]\nx"


async def test_a_long_page_comes_in_parts_and_is_fetched_once(desk: Desk, village: Village) -> None:
    paragraphs = [f"{number}: {'word ' * 50}".strip() for number in range(400)]
    body = "".join(f"<p>{text}</p>" for text in paragraphs).encode()
    house = await village.build("a.example.net", page(body, HTML))
    tool = web_fetch(village)
    found: list[str] = []
    for number in range(1, 5):
        text = await desk.use(tool, url=A, page=number)
        assert len(text) < CLIP
        head, *inside = text.split("\n")
        found += [line for line in inside if line]
        more = f"continue with page={number + 1}" if number < 4 else "the last one"
        join = ";" if number < 4 else ","
        assert head == f"[{A} (text/html, 104.3 KB); part {number} of 4{join} {more}]"
    assert found == paragraphs
    assert await trouble(desk, tool, page=5) == f"{A} has only 4 parts; page=5 is past the end."
    assert house.connections == 1


async def test_a_page_that_takes_too_long_to_read_is_told_as_far_as_it_was_read(
    desk: Desk, village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_page, "READING_SECONDS", -1.0)
    text = await told(desk, village, page(b"<p>one" * 1_000, HTML))
    assert "; the page is too large to be read to its end" in text.splitlines()[0]
    assert "one" not in text


async def test_a_line_without_an_end_is_cut_anywhere(desk: Desk, village: Village) -> None:
    body = b"x" * (PART + 1)
    await village.build("a.example.net", page(body, PLAIN))
    first, second = [await desk.use(web_fetch(village), url=A, page=number) for number in (1, 2)]
    assert (first.count("x" * PART), second.split("\n")[1]) == (1, "x")


async def test_a_copy_lasts_a_quarter_of_an_hour_and_tells_its_age(desk: Desk, village: Village) -> None:
    house = await village.build("a.example.net", page(b"x", PLAIN))
    clock = Clock()
    tool = web_fetch(village, clock)
    last: list[str] = []
    for now in (0, 50, 250, 899, 901):
        clock.now = 5_000.0 + now
        last.append((await desk.output(tool, url=f"{A}#part{now}")).note.partition("; ")[2])
    assert last == ["", "", "this is a copy from 4 min ago", "this is a copy from 15 min ago", ""]
    assert house.connections == 2


@pytest.mark.parametrize("header", ["Cache-Control: no-store", "cache-control: private, No-Store"])
async def test_what_must_not_be_stored_is_not(desk: Desk, village: Village, header: str) -> None:
    house = await village.build("a.example.net", page(b"x", PLAIN, header))
    tool = web_fetch(village)
    for _ in range(2):
        await desk.use(tool, url=A)
    assert house.connections == 2


def test_copies_make_room_for_each_other() -> None:
    copies, half = PageCache(Clock()), "x" * (KEPT_CHARACTERS // 2)
    pages = {name: WebPage(name, 200, "", half) for name in "abc"}
    for name, each in pages.items():
        copies.keep(name, each)
    assert [copies.find(name) for name in "abc"] == [None, (pages["b"], 0.0), (pages["c"], 0.0)]
    copies.keep("c", pages["c"])
    assert copies.find("b") == (pages["b"], 0.0)
    copies.keep("d", WebPage("d", 200, "", half * 3))
    assert [copies.find(name) for name in "bcd"] == [None, None, None]


async def test_a_redirect_on_the_same_host_is_followed(desk: Desk, village: Village) -> None:
    async def act(visit: Visit) -> None:
        await (page(b"there", PLAIN) if visit.path == "/new" else redirect("/new"))(visit)

    assert (await told(desk, village, act)).splitlines()[0] == f"[{A}new (text/plain, 5 bytes)]"


@pytest.mark.parametrize("host", ["b.example.net", "www.a.example.net", "example.net"])
async def test_a_redirect_to_another_host_is_told_and_not_followed(
    desk: Desk, village: Village, host: str
) -> None:
    await village.build("a.example.net", redirect(f"http://{host}/x"))
    other = await village.build(host, page(b"secret"))
    assert await trouble(desk, web_fetch(village)) == (
        f"{A} redirects to another host and was not followed; "
        f"call WebFetch with http://{host}/x if you want that page."
    )
    assert (other.connections, village.looked_up) == (0, ["a.example.net"])


async def test_a_redirect_that_is_never_allowed_is_refused(desk: Desk, village: Village) -> None:
    await village.build("a.example.net", redirect("http://169.254.169.254/latest"))
    assert await trouble(desk, web_fetch(village)) == (
        "'http://169.254.169.254/latest' is not fetched: 169.254.169.254 is no public address."
    )


async def test_a_redirect_loop_ends(desk: Desk, village: Village) -> None:
    house = await village.build("a.example.net", redirect("/again"))
    assert await trouble(desk, web_fetch(village)) == (
        f"'{A}again' is not fetched: it was redirected more than 5 times."
    )
    assert house.connections == 6


async def test_of_a_page_without_end_the_beginning_is_read(desk: Desk, village: Village) -> None:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000000\r\n\r\n"
    await village.build("a.example.net", endless(start, b"line of text\n" * 5000))
    text = await desk.use(web_fetch(village), url=A)
    assert text.splitlines()[0] == (
        f"[{A} (text/plain, over 5.2 MB); the page is longer than 5.2 MB; this is its beginning; "
        f"part 1 of {LIMITS.most_bytes // PART + 1}; continue with page=2]"
    )


async def test_a_name_nobody_knows_and_a_door_nobody_opens_are_told(desk: Desk, village: Village) -> None:
    assert await trouble(desk, web_fetch(village)) == (
        f"'{A}' is not fetched: a.example.net has no address; check how it is spelled."
    )
    await village.build("a.example.net", page(b""))
    village.dead.add("151.101.1.1")
    assert await trouble(desk, web_fetch(village)) == (
        "a.example.net cannot be reached at port 80: nothing listens there; try another page."
    )


async def test_a_certificate_that_is_not_trusted_is_told(desk: Desk, village: Village) -> None:
    await village.build("a.other.net", page(b""), port=443, tls=True)
    assert await trouble(desk, web_fetch(village), "https://a.other.net/") == (
        "a.other.net shows no certificate that can be trusted; try another page."
    )


async def test_something_that_is_not_http_is_told(desk: Desk, village: Village) -> None:
    await village.build("a.example.net", raw(b"SSH-2.0-x\r\n"))
    assert await trouble(desk, web_fetch(village)) == (
        "a.example.net answered with something that is not HTTP; try another page."
    )


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://localhost:8080/", "file:///etc/passwd", "x"])
async def test_the_built_in_tool_does_not_reach_this_machine(desk: Desk, url: str) -> None:
    assert f"{url!r} is not fetched: " in await trouble(desk, WEB_FETCH, url)


def test_the_tool_only_reads_and_is_known_by_both_names() -> None:
    assert (WEB_FETCH.name, WEB_FETCH.effect, WEB_FETCH.aliases, WEB_FETCH.source) == (
        "WebFetch",
        "read",
        ("web_fetch",),
        "builtin",
    )
