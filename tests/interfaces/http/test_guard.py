"""The guard: no request passes without a token, for a foreign host or origin, or beyond the limits."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gencode.interfaces.http import endpoints, listener
from gencode.interfaces.http.application import ENDPOINTS
from gencode.interfaces.http.guard import FEW, LARGEST_BODY, RIGHTS, ROLES, AccessTokens, Role
from gencode.testing import says
from tests.interfaces.http.serving import Served, served

OTHERS = [("GET", "/"), ("GET", "/openapi.json"), ("GET", "/static/page.js"), ("GET", "/static/nothing.js")]
ROUTES = [*OTHERS, *((each.method, re.sub(r"{\w+(:\w+)?}", "00000000", each.path)) for each in ENDPOINTS)]
CHANGES = [path for method, path in ROUTES if method != "GET"]
INERT = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def status(site: Served, method: str, path: str, **more: Any) -> int:
    """What one request is answered with; a JSON body where one may be sent."""
    headers = {"Authorization": f"Bearer {site.client.token}", **more.pop("headers", {})}
    headers = {name: value for name, value in headers.items() if value is not None}
    if method != "GET" and "data" not in more:
        more["json"] = {}
    async with site.client.http.request(
        method, f"{site.client.base}{path}", headers=headers, allow_redirects=False, **more
    ) as response:
        return response.status


Attack = Callable[[Served, str, str], Any]
ATTACKS: dict[str, tuple[Attack, set[int]]] = {
    "no token": (
        lambda site, method, path: status(site, method, path, headers={"Authorization": None}),
        {401},
    ),
    "wrong token": (
        lambda site, method, path: status(
            site, method, path, headers={"Authorization": "Bearer " + "x" * 43}
        ),
        {401, 429},
    ),
    "another scheme": (
        lambda site, method, path: status(
            site, method, path, headers={"Authorization": f"Basic {site.client.token}"}
        ),
        {401},
    ),
    "foreign host": (
        lambda site, method, path: status(site, method, path, headers={"Host": "evil.example"}),
        {421},
    ),
    "right host, wrong port": (
        lambda site, method, path: status(site, method, path, headers={"Host": "127.0.0.1:1"}),
        {421},
    ),
    "foreign origin": (
        lambda site, method, path: status(site, method, path, headers={"Origin": "http://evil.example"}),
        {403},
    ),
    "no origin at all": (
        lambda site, method, path: status(site, method, path, headers={"Origin": "null"}),
        {403},
    ),
    "another port's page": (
        lambda site, method, path: status(
            site, method, path, headers={"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}
        ),
        {403},
    ),
    "oversized body": (
        lambda site, method, path: status(site, method, path, data=b"x" * (LARGEST_BODY + 1)),
        {413},
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_route_lets_an_attack_through(tmp_path: Path, attack: str) -> None:
    send, refused = ATTACKS[attack]
    async with served(tmp_path) as site:
        passed = {
            f"{method} {path}": found
            for method, path in ROUTES
            if (found := await send(site, method, path)) not in refused
        }
        assert passed == {}
        assert (await site.client.get("/api/health")).status == 200
        assert (await site.client.get("/api/tasks")).json["tasks"] == []


async def test_nothing_is_changed_by_get(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("done")]) as site:
        task = (await site.client.post("/api/tasks", {"agent": "Explore", "prompt": "go"})).json["agentId"]
        await site.client.ended(task)
        before = (await site.client.get("/api/events", after="0", limit=500)).json
        for path in CHANGES:
            for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
                await status(site, method, path.replace("00000000", task))
        assert (await site.client.get("/api/events", after="0", limit=500)).json == before


async def test_every_answer_is_inert_and_shares_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        for path in ("/", "/openapi.json", "/api/health", "/api/tasks/nothing", "/nowhere"):
            headers = (await site.client.get(path)).headers
            assert {name: headers.get(name) for name in INERT} == INERT
            assert [name for name in headers if name.lower().startswith("access-control")] == []
            policy = headers["Content-Security-Policy"]
            assert "script-src 'self';" in policy and "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy


async def test_every_way_to_ask_a_path_is_named(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        for path, ways in (
            ("/api/tasks", "GET, HEAD, POST"),
            ("/api/conversations/web/room", "GET, HEAD, POST"),
            ("/api/agents/Explore/file", "GET, HEAD, PUT"),
            ("/api/budget", "PUT"),
            ("/", "GET, HEAD"),
        ):
            answer = await site.client.ask("OPTIONS", path)
            assert (answer.status, answer.headers["Allow"]) == (405, ways)
        assert (await site.client.ask("OPTIONS", "/nowhere")).status == 404


async def test_a_person_without_a_token_is_told_what_to_open(tmp_path: Path) -> None:
    async with served(tmp_path) as site, aiohttp.ClientSession() as browser:
        browsing = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        html, plain = "text/html", "application/json"
        for path, kind in (("/", html), ("/?token=old", html), ("/api/tasks", plain)):
            async with browser.get(f"{site.client.base}{path}", headers=browsing) as page:
                assert (page.status, page.content_type) == (401, kind)
                assert {name: page.headers.get(name) for name in INERT} == INERT
                assert "script-src 'self';" in page.headers["Content-Security-Policy"]
                assert "gen serve" in await page.text()


async def test_the_first_visit_moves_the_token_into_a_cookie(tmp_path: Path) -> None:
    async with served(tmp_path) as site, aiohttp.ClientSession() as browser:
        url = f"{site.client.base}/?token={site.client.token}"
        async with browser.get(url, allow_redirects=False) as first:
            assert (first.status, first.headers["Location"]) == (303, "/")
            name, _, rest = first.headers["Set-Cookie"].partition("=")
            assert name == f"gen_{site.serving.port}"
            assert rest.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict"]
        cookie = {"Cookie": f"{name}={site.client.token}"}
        async with browser.get(f"{site.client.base}/", headers=cookie) as page:
            assert (page.status, page.content_type) == (200, "text/html")
            assert site.client.token not in await page.text()
        origin = {**cookie, "Origin": site.client.base, "Sec-Fetch-Site": "same-origin"}
        async with browser.put(f"{site.client.base}/api/budget", json={}, headers=origin) as changed:
            assert changed.status == 200


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "none"}])
async def test_a_change_with_the_cookie_has_to_come_from_the_page(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with served(tmp_path) as site, aiohttp.ClientSession() as browser:
        cookie = {"Cookie": f"gen_{site.serving.port}={site.client.token}", **headers}
        async with browser.put(f"{site.client.base}/api/budget", json={}, headers=cookie) as changed:
            assert changed.status == 403


async def test_a_token_in_a_url_opens_nothing_but_the_first_visit(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        for method, path in ROUTES:
            if path != "/":
                found = await status(
                    site, method, f"{path}?token={site.client.token}", headers={"Authorization": None}
                )
                assert found == 400, path
        wrong = f"{site.client.base}/?token={'x' * 43}"
        async with site.client.http.get(wrong, allow_redirects=False) as response:
            assert response.status == 401
            assert "Set-Cookie" not in response.headers


async def test_guessing_is_slowed_and_locks_nobody_out(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        guesses = [
            await status(site, "GET", "/api/health", headers={"Authorization": f"Bearer {number:043}"})
            for number in range(FEW + 3)
        ]
        assert guesses == [401] * FEW + [429] * 3
        assert (await site.client.get("/api/health")).status == 200


async def test_a_role_gets_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    may: dict[Role, set[str]] = {"view": {"view"}, "act": {"view", "act"}, "answer": {"view", "answer"}}
    async with served(tmp_path, share=list(ROLES)) as site:
        for number, role in enumerate(ROLES):
            client = site.shared(number)
            assert set((await client.get("/api/health")).json["rights"]) == may[role]
            for each in ENDPOINTS:
                path = re.sub(r"{\w+(:\w+)?}", "00000000", each.path)
                if each.method != "GET":
                    refused = (await client.ask(each.method, path, json={})).status == 403
                    wider = each.name == "set_budget"  # it needs two rights
                    assert refused == (wider or each.right not in may[role]), (role, each.name)


def test_a_token_is_long_and_compared_as_a_whole() -> None:
    keys = AccessTokens(shared=["view"])
    assert len(keys.owner) >= 43 and keys.owner != keys.shared[0][1]
    assert keys.rights(keys.owner) == set(RIGHTS)
    assert keys.rights(keys.shared[0][1]) == {"view"}
    for wrong in ("", keys.owner[:-1], f"{keys.owner}x", keys.owner.swapcase(), "\udcff"):
        assert keys.rights(wrong) == set()


async def raw(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What a server answers to bytes, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def head(site: Served, line: str, *more: str) -> bytes:
    lines = [
        line,
        f"Host: 127.0.0.1:{site.serving.port}",
        f"Authorization: Bearer {site.client.token}",
        *more,
    ]
    return "\r\n".join((*lines, "", "")).encode()


async def test_clients_without_a_request_give_way_to_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MOST_IDLE", 3)
    async with served(tmp_path) as site:
        idle = [await asyncio.open_connection("127.0.0.1", site.serving.port) for _ in range(4)]
        assert b" 200 " in (
            await raw(site.serving.port, head(site, "GET /api/health HTTP/1.1", "Connection: close"))
        )
        assert await idle[0][0].read() == b""
        for _, writer in idle:
            writer.close()


async def test_a_slow_body_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "BODY_SECONDS", 0.2)
    async with served(tmp_path) as site:
        sent = head(site, "POST /api/tasks HTTP/1.1", "Content-Type: application/json", "Content-Length: 100")
        assert b" 408 " in (await raw(site.serving.port, sent, b'{"agent"')).splitlines()[0]


async def test_a_slow_head_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.2)
    async with served(tmp_path) as site:
        assert await raw(site.serving.port, b"GET / HTTP/1.1\r\n", b"Host: x\r\n") == b""
        assert await raw(site.serving.port) == b""


async def test_a_body_that_grows_in_pieces_is_bounded_too(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        sent = head(site, "POST /api/tasks HTTP/1.1", *chunked)
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        answer = await raw(site.serving.port, sent, *[chunk] * 17)
        assert not answer or b" 413 " in answer  # a peer that is cut off may not get to read why
        sent = head(site, "GET /api/tasks HTTP/1.1", *chunked)
        assert b" 400 " in await raw(site.serving.port, sent, chunk)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../serving.py",
        "/static/..%2fserving.py",
        "/static/%2e%2e/serving.py",
        "/static/....//serving.py",
        "/static//etc/passwd",
        "/static/%2Fetc%2Fpasswd",
        "/static/page.js%00.html",
        "/static/page.js/",
        "/static/",
        "/static/PAGE.js",
        "//api/health",
        "/api/health/",
        "/api//health",
    ],
)
async def test_tricks_with_paths_lead_nowhere(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as site:
        sent = head(site, f"GET {path} HTTP/1.1", "Connection: close")
        assert b" 404 " in (await raw(site.serving.port, sent)).splitlines()[0]


@pytest.mark.parametrize(
    "lines",
    [
        ("GET /api/health HTTP/1.1", "Host: 127.0.0.1:{port}", "Host: evil.example"),
        ("GET /api/health HTTP/1.1",),
        ("GET http://evil.example/api/health HTTP/1.1", "Host: evil.example"),
        ("CONNECT evil.example:80 HTTP/1.1", "Host: evil.example:80"),
        ("GET /api/health HTTP/1.1", "Host: 127.0.0.1:{port}", "X: " + "y" * 200_000),
        ("POST /api/tasks HTTP/1.1", "Host: 127.0.0.1:{port}", "Content-Length: 5", "Content-Length: 6"),
        (
            "POST /api/tasks HTTP/1.1",
            "Host: 127.0.0.1:{port}",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
        ),
    ],
)
async def test_requests_that_are_none_are_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    async with served(tmp_path) as site:
        token = f"Authorization: Bearer {site.client.token}"
        text = "\r\n".join((*lines, token, "", "")).replace("{port}", str(site.serving.port))
        answer = await raw(site.serving.port, text.encode(), b"{}   ")
        assert not answer or re.match(rb"HTTP/1\.1 4\d\d ", answer), answer[:200]
        assert (await site.client.get("/api/health")).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"agent": 1, "prompt": "x"}',
        b'{"agent": "x", "prompt": "y", "allow": ["*"]}',
        b'{"agent":' * 5000,
        b'{"agent": "Explore", "prompt": "x", "budget": {"usd": 1e999}}',
    ],
)
async def test_bodies_that_say_nothing_of_ours_are_refused(tmp_path: Path, body: bytes) -> None:
    async with served(tmp_path) as site:
        headers = {"Content-Type": "application/json"}
        answer = await site.client.ask("POST", "/api/tasks", data=body, headers=headers)
        assert answer.status == 400
        assert set(answer.json) == {"error"}
        plain = await site.client.ask(
            "POST", "/api/tasks", data=b"{}", headers={"Content-Type": "text/plain"}
        )
        assert plain.status == 415
