"""Fetching: connections go only where it was judged, and no server can make a page endless."""

import asyncio
from collections.abc import AsyncGenerator
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import Denied, ToolError
from gencode.permissions.urls import Hop, Target, UrlRefused, is_public
from gencode.web.http_fetch import INTERNET, WebLimits, WebRequest, WebResponse, fetch
from tests.workspaces.village import Village, Visit, fetched, page, redirect, trouble, village_in

BRIEF = WebLimits(seconds=1.0)


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        yield built


async def test_a_page_is_fetched_from_the_address_that_was_judged(village: Village) -> None:
    house = await village.build("a.example.net", page(b"hello", "Content-Type: text/plain"))
    target = Target("http", "a.example.net", 80, "/x%20y?é")
    assert await fetched(village, "http://A.example.net./x%20y?é#part") == WebResponse(
        200,
        {"content-type": "text/plain", "content-length": "5"},
        b"hello",
        "",
        (Hop(target, ("151.101.1.1",)),),
    )
    visit = house.visits[0]
    assert visit.head.split("\r\n") == [
        "GET /x%20y?%C3%A9 HTTP/1.1",
        "Host: a.example.net",
        "User-Agent: gencode",
        "Accept-Encoding: gzip",
        "Accept: */*",
        "Connection: close",
    ]
    assert (village.looked_up, village.placed) == (["a.example.net"], ["151.101.1.1"])


async def test_the_internet_has_no_way_to_this_machine(village: Village) -> None:
    house = await village.build("a.example.net", page(b"secret"))
    _, port = village.place("151.101.1.1", 80)
    for url in (f"http://127.0.0.1:{port}/", "http://localhost/", "http://127.0.0.1:8080/"):
        with pytest.raises(UrlRefused):
            await fetch(WebRequest(url))
    assert house.connections == 0


async def test_the_real_look_up_gives_every_address_of_a_name() -> None:
    found = await INTERNET.lookup("localhost")
    assert {ip_address(each).is_loopback for each in found} == {True}
    assert INTERNET.place("1.1.1.1", 80) == ("1.1.1.1", 80)
    assert INTERNET.trust() is True


async def test_a_name_with_one_private_address_is_not_connected_to_at_all(village: Village) -> None:
    house = await village.build("two.example.net", page(b""))
    village.names["two.example.net"] = [["151.101.1.1", "127.0.0.1"]]
    assert await trouble(village, "http://two.example.net/") == (
        "'http://two.example.net/' is not fetched: "
        "two.example.net leads to 127.0.0.1, which is no public address."
    )
    assert (house.connections, village.placed) == (0, [])


async def test_the_next_judged_address_is_tried_when_the_first_is_dead(village: Village) -> None:
    await village.build("two.example.net", page(b"alive"), address="151.101.2.2")
    village.names["two.example.net"] = [["151.101.2.1", "151.101.2.2"]]
    village.dead.add("151.101.2.1")
    assert (await fetched(village, "http://two.example.net/")).body == b"alive"
    village.dead.add("151.101.2.2")
    said = "two.example.net cannot be reached at port 80: nothing listens there; try another page."
    assert await trouble(village, "http://two.example.net/") == said


@pytest.mark.parametrize(
    "location", ["http://10.0.0.1/", "//127.0.0.1/", "http://inside.example.net/", "http://db.internal/"]
)
async def test_a_redirect_to_a_private_address_is_refused_before_connecting(
    village: Village, location: str
) -> None:
    first = await village.build("a.example.net", redirect(location))
    village.names["inside.example.net"] = [["192.168.0.7"]]
    assert " is not fetched: " in await trouble(village, "http://a.example.net/")
    assert (first.connections, village.trap.connections, village.placed) == (1, 0, ["151.101.1.1"])


async def test_a_name_that_changes_its_address_is_not_looked_up_again(village: Village) -> None:
    async def there_and_back(visit: Visit) -> None:
        await (page(b"second") if visit.path == "/b" else redirect("/b"))(visit)

    public = await village.build("flip.example.net", there_and_back)
    private = await village.build("private", page(b"stolen"), address="127.0.0.1")
    village.names["flip.example.net"] = [["151.101.1.1"], ["127.0.0.1"]]
    found = await fetched(village, "http://flip.example.net/a")
    assert (found.body, found.url) == (b"second", "http://flip.example.net/b")
    assert (public.connections, private.connections) == (2, 0)
    assert village.looked_up == ["flip.example.net"]


async def test_every_other_name_is_looked_up_once(village: Village) -> None:
    await village.build("a.example.net", redirect("http://b.example.net/"))
    await village.build("b.example.net", page(b"b"))
    found = await fetched(village, "http://a.example.net/")
    assert [hop.addresses for hop in found.hops] == [("151.101.1.1",), ("151.101.1.2",)]
    assert village.looked_up == ["a.example.net", "b.example.net"]


async def test_the_server_name_and_the_certificate_are_those_of_the_name(village: Village) -> None:
    house = await village.build("a.example.net", page(b"safe"), port=443, tls=True)
    other = await village.build("a.example.org", page(b"unsafe"), port=443, tls=True)
    assert (await fetched(village, "https://a.example.net/")).body == b"safe"
    assert (house.server_names, house.visits[0].header("host")) == (["a.example.net"], "a.example.net")
    assert await trouble(village, "https://a.example.org/") == (
        "a.example.org shows no certificate that can be trusted; try another page."
    )
    assert other.visits == []


async def test_a_redirect_may_not_leave_https(village: Village) -> None:
    await village.build("a.example.net", redirect("http://b.example.net/"), port=443, tls=True)
    plain = await village.build("b.example.net", page(b""))
    assert "gives up the encryption" in await trouble(village, "https://a.example.net/")
    assert plain.connections == 0


async def test_five_redirects_are_followed_and_the_sixth_is_not(village: Village) -> None:
    async def count_down(visit: Visit) -> None:
        left = int(visit.path[1:])
        await (redirect(f"/{left - 1}") if left else page(b"there"))(visit)

    house = await village.build("a.example.net", count_down)
    assert (await fetched(village, "http://a.example.net/5")).body == b"there"
    assert "redirected more than 5 times" in await trouble(village, "http://a.example.net/6")
    assert house.connections == 12


async def test_a_redirect_in_a_circle_ends(village: Village) -> None:
    house = await village.build("a.example.net", redirect("/"))
    assert "redirected more than 5 times" in await trouble(village, "http://a.example.net/")
    assert house.connections == 6


async def test_neither_cookies_nor_proxies_nor_passwords_of_this_machine_are_used(
    village: Village, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    proxy = await village.build("proxy", page(b"by proxy"))
    _, port = village.place("151.101.1.1", 80)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    (home / ".netrc").write_text("machine a.example.net login me password word\n")

    async def act(visit: Visit) -> None:
        await (page(b"straight") if visit.path == "/b" else redirect("/b"))(visit)

    house = await village.build("a.example.net", act)
    assert (await fetched(village, "http://a.example.net/")).body == b"straight"
    assert [(visit.header("cookie"), visit.header("authorization")) for visit in house.visits] == [
        (None, None),
        (None, None),
    ]
    assert proxy.connections == 0


async def test_headers_of_the_caller_stay_with_the_origin_they_were_meant_for(village: Village) -> None:
    first = await village.build("a.example.net", redirect("http://b.example.net/"))
    second = await village.build("b.example.net", page(b""))
    headers = {"Authorization": "Bearer x", "X-Key": "y", "Accept": "text/html"}
    await fetch(WebRequest("http://a.example.net/", headers=headers), internet=village)
    seen = [
        (visit.header("authorization"), visit.header("x-key"), visit.header("accept"))
        for visit in (*first.visits, *second.visits)
    ]
    assert seen == [("Bearer x", "y", "text/html"), (None, None, "text/html")]


async def test_a_post_is_answered_and_its_redirect_is_read_without_its_body(village: Village) -> None:
    async def act(visit: Visit) -> None:
        await (page(b"done") if visit.path == "/done" else redirect("/done", 303))(visit)

    house = await village.build("a.example.net", act)
    request = WebRequest("http://a.example.net/", "POST", {"Content-Type": "text/plain"}, b"payload")
    assert (await fetch(request, internet=village)).body == b"done"
    assert [(visit.head[:4], visit.body) for visit in house.visits] == [("POST", b"payload"), ("GET ", b"")]


@pytest.mark.parametrize(("method", "status"), [("POST", 307), ("POST", 308), ("PUT", 302), ("DELETE", 301)])
async def test_a_request_that_changes_something_is_not_repeated_elsewhere(
    village: Village, method: str, status: int
) -> None:
    await village.build("a.example.net", redirect("http://b.example.net/", status))
    other = await village.build("b.example.net", page(b""))
    with pytest.raises(ToolError, match=f"redirects the {method} to http://b.example.net/"):
        await fetch(WebRequest("http://a.example.net/", method, body=b"x"), internet=village)
    assert other.connections == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("Host", "b.example.net"), ("content-length", "1"), ("Transfer-Encoding", "chunked")),
        *(("Proxy-Authorization", "x"), ("X", "a\r\nHost: b"), ("X\n", "a"), ("", "a"), ("X", "\0")),
    ],
)
async def test_a_header_that_would_change_the_connection_is_refused(
    village: Village, name: str, value: str
) -> None:
    house = await village.build("a.example.net", page(b""))
    with pytest.raises(ToolError, match="^The header "):
        await fetch(WebRequest("http://a.example.net/", headers={name: value}), internet=village)
    assert house.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET /x HTTP/1.1\r\nX:", ""])
async def test_other_methods_are_refused(village: Village, method: str) -> None:
    with pytest.raises(ToolError, match="is no method"):
        await fetch(WebRequest("http://a.example.net/", method), internet=village)
    assert village.looked_up == []


async def test_a_redirect_is_asked_about_before_its_name_is_looked_up(village: Village) -> None:
    await village.build("a.example.net", redirect("http://b.example.net/x"))
    await village.build("b.example.net", page(b""))
    asked: list[Target] = []

    async def refuse(target: Target) -> None:
        asked.append(target)
        raise Denied("b.example.net was not asked for.")

    with pytest.raises(Denied):
        await fetch(WebRequest("http://a.example.net/"), internet=village, follow=refuse)
    assert asked == [Target("http", "b.example.net", 80, "/x")]
    assert village.looked_up == ["a.example.net"]


async def test_the_clock_stands_still_while_somebody_is_asked(village: Village) -> None:
    await village.build("a.example.net", redirect("http://b.example.net/x"))
    await village.build("b.example.net", page(b"b"))

    async def think(_: Target) -> None:
        await asyncio.sleep(1.2 * BRIEF.seconds)

    found = await fetch(WebRequest("http://a.example.net/"), BRIEF, internet=village, follow=think)
    assert found.body == b"b"


LOCATIONS = st.sampled_from(
    [
        *("/next", "//b.example.net/", "http://c.example.net", "http://127.0.0.1/", "//[::1]/", "http://0/"),
        *(
            "http://b.example.net:8080/",
            "http://0x7f.1/",
            "http://a@b.example.net/",
            "https:/x",
            "//c.local/",
        ),
        *("http://b.example.net.", "http://169.254.169.254/latest", "//[::ffff:127.0.0.1]/", "?x", "\\\\c"),
    ]
)
ADDRESSES = st.sampled_from(
    [
        "151.101.1.1",
        "151.101.1.2",
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "2606:4700::1",
        "fe80::1",
    ]
)
ANSWERS = st.lists(st.lists(ADDRESSES, max_size=2), min_size=1, max_size=3)


@given(st.lists(LOCATIONS, max_size=7), st.lists(ANSWERS, min_size=3, max_size=3))
def test_no_chain_of_redirects_and_no_name_server_leads_to_a_private_address(
    locations: list[str], answers: list[list[list[str]]]
) -> None:
    async def travel(folder: Path) -> None:
        async with village_in(folder) as village:
            left = list(locations)

            async def act(visit: Visit) -> None:
                await (redirect(left.pop(0)) if left else page(b"there"))(visit)

            for name, address in (("a", "151.101.1.1"), ("b", "151.101.1.2"), ("c", "2606:4700::1")):
                await village.build(f"{name}.example.net", act, address=address)
            village.names = {
                f"{name}.example.net": list(given) for name, given in zip("abc", answers, strict=True)
            }
            try:
                found = await fetched(village, "http://a.example.net/")
            except ToolError:
                found = None
            assert all(is_public(ip_address(address)) for address in village.placed)
            assert found is None or found.hops[-1].addresses[0] in village.placed

    with TemporaryDirectory() as folder:
        asyncio.run(travel(Path(folder)))
