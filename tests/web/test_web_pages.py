"""Pages as servers send them, well or badly: cut, unpacked, given up, and never held whole when too large."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode.web.http_fetch import WebLimits, WebRequest, fetch
from tests.workspaces.village import (
    MIB,
    Act,
    Village,
    closing,
    endless,
    fetched,
    page,
    raw,
    trouble,
    village_in,
)

BRIEF = WebLimits(seconds=0.3)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        yield built


async def test_a_page_of_a_gigabyte_is_cut_and_never_held(village: Village) -> None:
    huge = endless(OK + b"Content-Length: 1073741824\r\n\r\n", b"x" * MIB)
    await village.build("a.example.net", huge)
    await fetched(village, "http://a.example.net/", WebLimits(1))
    tracemalloc.start()
    try:
        found = await fetched(village, "http://a.example.net/")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.cut, len(found.body)) == ("bytes", MIB)
    assert peak < 12 * MIB


async def test_a_packed_page_is_unpacked(village: Village) -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    await village.build("a.example.net", page(packed, "Content-Encoding: gzip"))
    found = await fetched(village, "http://a.example.net/")
    assert (found.body, found.cut) == (b"one two", "")


async def test_a_page_that_unpacks_to_very_much_is_cut_and_never_held(village: Village) -> None:
    packer = zlib.compressobj(1, wbits=31)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(100)) + packer.flush()
    await village.build("a.example.net", page(bomb, "Content-Encoding: gzip"))
    tracemalloc.start()
    try:
        found = await fetched(village, "http://a.example.net/")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(bomb) < MIB, found.cut, found.body) == (True, "bytes", bytes(MIB))
    assert peak < 12 * MIB


async def test_packed_bytes_that_unpack_to_nothing_come_to_an_end(village: Village) -> None:
    start = OK + b"Content-Encoding: gzip\r\n\r\n"
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    nothing = b"\x00\x00\x00\xff\xff" * 10_000
    await village.build("a.example.net", endless(start + first, nothing))
    await village.build("b.example.net", endless(start, gzip.compress(b"") * 1_000))
    found = await fetched(village, "http://a.example.net/")
    assert (found.cut, found.body) == ("bytes", b"")
    assert "cannot be unpacked" in await trouble(village, "http://b.example.net/")


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("br", b"x", "packed its page in a way that was not asked for"),
        ("gzip, gzip", b"x", "packed its page in a way that was not asked for"),
        ("gzip", b"this is plain", "sent a page that cannot be unpacked"),
        ("gzip", gzip.compress(b"half a page", mtime=0)[:-9], "sent only a part of its page"),
    ],
)
async def test_a_page_that_cannot_be_unpacked_is_told(
    village: Village, encoding: str, body: bytes, said: str
) -> None:
    await village.build("a.example.net", page(body, f"Content-Encoding: {encoding}"))
    assert said in await trouble(village, "http://a.example.net/")


async def test_a_page_that_drips_is_cut_at_the_time_limit(village: Village) -> None:
    await village.build("a.example.net", endless(OK + b"\r\n", b"x", 0.01))
    found = await fetched(village, "http://a.example.net/", WebLimits(seconds=1.0))
    assert (found.cut, set(found.body)) == ("seconds", {ord("x")})


@pytest.mark.parametrize("start", [b"", OK, OK + b"\r\n"])
async def test_a_server_that_says_nothing_is_given_up(village: Village, start: bytes) -> None:
    await village.build("a.example.net", endless(start, b"", 0.01))
    said = "a.example.net did not answer within 0.3 s; try again or another page."
    assert await trouble(village, "http://a.example.net/", BRIEF) == said


async def test_headers_that_drip_are_given_up(village: Village) -> None:
    await village.build("a.example.net", endless(OK, b"X: y\r\n", 0.01))
    assert "did not answer within 0.3 s" in await trouble(village, "http://a.example.net/", BRIEF)


@pytest.mark.parametrize(
    "answer",
    [
        endless(OK, b"X: y\r\n" * 1_000),
        endless(OK + b"X: ", b"y" * 100_000),
        raw(b"SSH-2.0-x\r\n"),
        raw(b"HTTP/1.1 999999 x\r\n\r\n"),
        raw(OK + b"Content-Length: -1\r\n\r\n"),
        raw(OK + b"Content-Length: 4\r\n\r\npage and more"),
        raw(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy"),
    ],
)
async def test_what_is_not_http_is_told(village: Village, answer: Act) -> None:
    await village.build("a.example.net", answer)
    assert "not HTTP" in await trouble(village, "http://a.example.net/")


@pytest.mark.parametrize(
    "rest",
    [b"Content-Length: 100\r\n\r\nonly this", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"],
)
async def test_a_page_that_breaks_off_is_told_and_not_taken_for_whole(village: Village, rest: bytes) -> None:
    await village.build("a.example.net", raw(OK + rest))
    said = "a.example.net broke off in the middle of its page; try again or another page."
    assert await trouble(village, "http://a.example.net/") == said


async def test_a_page_in_broken_pieces_is_told(village: Village) -> None:
    chunks = OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    await village.build("a.example.net", raw(chunks, b"no number\r\n"))
    said = await trouble(village, "http://a.example.net/")
    assert "broke off in the middle" in said or "not HTTP" in said


async def test_a_server_that_hangs_up_or_speaks_no_tls_is_told(village: Village) -> None:
    await village.build("a.example.net", closing)
    await village.build("b.example.net", page(b""), port=443)
    said = "a.example.net closed the connection without an answer; try again or another page."
    assert await trouble(village, "http://a.example.net/") == said
    assert "does not speak TLS at port 443" in await trouble(village, "https://b.example.net/")


async def test_only_the_head_is_asked_for(village: Village) -> None:
    await village.build("a.example.net", raw(OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n"))
    found = await fetch(WebRequest("http://a.example.net/", "HEAD"), internet=village)
    assert (found.status, found.body, found.cut) == (200, b"", "")
