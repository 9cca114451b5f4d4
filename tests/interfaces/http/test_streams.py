"""Event streams: nothing is missed, nothing comes twice, whoever writes it and whoever dies."""

import asyncio
import contextlib
import select
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from gencode.app import GenCode, components
from gencode.interfaces.http import hub, listener
from gencode.places import database
from gencode.testing import call, says
from tests.interfaces.cli.running import gen
from tests.interfaces.http.serving import SECONDS, Client, Frame, Served, frames, served, take
from tests.waiting import until

LOOK = [says("", call("LS", path=".")), says("I have looked.")]


def ended(task: str) -> Callable[[Frame], bool]:
    return lambda frame: frame.type == "SubSessionCompleted" and frame.data["task"] == task


async def start(client: Client, prompt: str = "look") -> str:
    answer = await client.post("/api/tasks", {"agent": "Explore", "prompt": prompt})
    assert answer.status == 201, answer.json
    return answer.json["agentId"]


def ids(found: list[Frame]) -> list[str]:
    return [frame.id for frame in found if frame.id and frame.type not in ("StreamOpened", "StreamReset")]


async def journal(client: Client, task: str) -> list[str]:
    told = await client.get(f"/api/tasks/{task}/events", limit=500)
    return [f"{event['task']}:{event['seq']}" for event in told.json["events"]]


async def test_a_stream_of_a_task_tells_all_its_facts_from_the_first_one(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        task = await start(site.client)
        async with site.client.stream(f"/api/tasks/{task}/stream") as stream:
            found = await take(stream, ended(task))
        assert ids(found) == await journal(site.client, task)
        assert [frame.data["seq"] for frame in found if frame.id] == list(range(1, len(ids(found)) + 1))


async def test_every_block_of_a_stream_is_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some readers hand out a block without data, such as a sign of life, as an event without data."""
    monkeypatch.setattr(hub, "ALIVE_SECONDS", 0.0)
    async with served(tmp_path, Explore=[says("late", delay_ms=300)]) as site:
        task = await start(site.client)
        headers = {"Authorization": f"Bearer {site.client.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{site.client.base}/api/tasks/{task}/stream") as response,
        ):
            told = b""
            async with asyncio.timeout(SECONDS):
                while b"\n\n" not in told.partition(b"SubSessionCompleted")[2]:
                    told += await response.content.readany()
    blocks = told.rpartition(b"\n\n")[0].split(b"\n\n")
    assert blocks[0].startswith(b"retry: 1000\n")
    assert b"\n:\n" in told
    assert [block for block in blocks if b"\ndata: " not in block] == []


async def test_a_reader_who_comes_back_hears_exactly_the_rest(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        task = await start(site.client)
        await site.client.ended(task)
        whole = await journal(site.client, task)
        for at, last in enumerate(whole[:-1]):
            async with site.client.stream(f"/api/tasks/{task}/stream", last) as stream:
                found = await take(stream, ended(task))
            assert ids(found) == whole[at + 1 :]


async def test_the_stream_of_everything_goes_on_after_any_fact(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        async with site.client.stream("/api/stream", "0") as stream:
            tasks = [await start(site.client, f"look {number}") for number in range(3)]
            for task in tasks:
                await site.client.ended(task)
            told = await site.client.get("/api/events", after="0", limit=500)
            whole = [f"{event['task']}:{event['seq']}" for event in told.json["events"]]
            found = await take(stream, lambda frame: frame.id == whole[-1])
        assert ids(found) == whole
        for at in range(0, len(whole) - 1, 4):
            async with site.client.stream("/api/stream", whole[at]) as stream:
                again = await take(stream, lambda frame: frame.type == "StreamOpened")
            assert ids(again) == whole[at + 1 :]
            assert again[-1].id == whole[-1]


async def test_who_joins_now_is_told_where_that_is_and_nothing_older(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        await site.client.ended(await start(site.client))
        cursor = (await site.client.get("/api/tasks")).json["cursor"]
        async with site.client.stream("/api/stream") as stream:
            first = await take(stream, lambda frame: True)
            task = await start(site.client, "again")
            found = await take(stream, ended(task))
        assert first == [Frame(cursor, "StreamOpened", {"type": "StreamOpened", "cursor": cursor})]
        assert {frame.data["task"] for frame in found} == {task}
        assert ids(found) == await journal(site.client, task)


async def test_what_is_still_being_said_has_no_id_and_comes_before_its_message(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("word " * 50)]) as site:
        async with site.client.stream("/api/stream") as stream:
            task = await start(site.client)
            found = await take(stream, ended(task))
        said = [frame for frame in found if frame.data.get("partType") == "text"]
        assert "".join(frame.data["content"] for frame in said).strip() == ("word " * 50).strip()
        assert {frame.id for frame in said} == {None}
        replies = [
            place
            for place, frame in enumerate(found)
            if frame.type == "MessageAdded" and frame.data["message"]["role"] == "assistant"
        ]
        assert found.index(said[-1]) < replies[0]


async def test_brief_streams_cut_long_texts(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("word " * 500)]) as site:
        task = await start(site.client)
        await site.client.ended(task)
        async with site.client.stream(f"/api/tasks/{task}/stream?brief=true") as stream:
            found = await take(stream, ended(task))
        assert ids(found) == await journal(site.client, task)
        assert len(found[-1].data["result"]) == 241


async def test_tasks_of_other_processes_are_heard_of(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site, site.client.stream("/api/stream") as stream:
        model = f"scripted:{tmp_path}/script.json"
        ran = await asyncio.to_thread(
            gen, "task", "run", "Explore", "look", "--json", "--model", model, cwd=tmp_path
        )
        task = ran.json["agentId"]
        found = await take(stream, ended(task))
        assert ids(found) == await journal(site.client, task)


async def test_two_servers_on_one_database_tell_the_same(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Explore=LOOK) as one,
        served(tmp_path, Explore=LOOK) as other,
        one.client.stream("/api/stream") as here,
        other.client.stream("/api/stream") as there,
    ):
        tasks = [await start(one.client), await start(other.client)]
        for site in (one, other):
            for task in tasks:
                await site.client.ended(task)
        whole = [each for task in tasks for each in await journal(one.client, task)]
        for stream in (here, there):
            heard: set[str] = set()
            while heard < set(whole):
                heard |= set(ids(await take(stream, lambda frame: frame.id in whole)))
            assert heard == set(whole)


async def test_a_reader_whose_last_fact_was_deleted_is_told_to_begin_anew(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        kept = await start(site.client, "kept")
        await site.client.ended(kept)
        gone = await start(site.client, "gone")
        await site.client.ended(gone)
        last = (await journal(site.client, gone))[-1]
        async with site.client.stream("/api/stream") as stream:
            await take(stream, lambda frame: frame.type == "StreamOpened")
            await components(site.gen).tasks.records.delete(await site.gen.find(gone))
            task = await start(site.client, "new")
            assert ids(await take(stream, ended(task))) == await journal(site.client, task)
        async with site.client.stream("/api/stream", last) as stream:
            first = await take(stream, lambda frame: True)
        assert [frame.type for frame in first] == ["StreamReset"]
        assert (await site.client.get("/api/events", after=last)).status == 410


async def test_a_client_that_does_not_keep_up_is_dropped_and_catches_up_by_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MOST_WAITING", 100_000)
    async with served(tmp_path, Explore=[says("x" * 400_000)]) as site:
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.connect(("127.0.0.1", site.serving.port))
            _, writer = await asyncio.open_connection(sock=narrow.dup(), limit=1024)
        head = f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:{site.serving.port}\r\n"
        writer.write(f"{head}Authorization: Bearer {site.client.token}\r\n\r\n".encode())
        await writer.drain()
        cursor = await site.client.until("/api/health", lambda told: told["streams"] == 1)
        tasks: list[str] = []
        while (await site.client.get("/api/health")).json["streams"]:
            assert len(tasks) < 10
            tasks.append(await start(site.client))
            await site.client.ended(tasks[-1])
        writer.close()
        whole = [each for task in tasks for each in await journal(site.client, task)]
        async with site.client.stream("/api/stream", cursor["cursor"]) as stream:
            assert ids(await take(stream, ended(tasks[-1]))) == whole


async def raw(site: Served, version: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The stream of everything, asked for by hand; the head of the answer is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.serving.port)
    head = f"GET /api/stream HTTP/{version}\r\nHost: 127.0.0.1:{site.serving.port}\r\n"
    writer.write(f"{head}Authorization: Bearer {site.client.token}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_an_old_client_is_sent_plain_bytes(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        reader, writer = await raw(site, "1.0")
        await reader.readuntil(b"event: StreamOpened")
        task = await start(site.client)
        async with asyncio.timeout(SECONDS):
            told = await reader.readuntil(b"event: SubSessionCompleted\n")
        heard = [line[4:].decode() for line in told.splitlines() if line.startswith(b"id: ")]
        assert heard == await journal(site.client, task)
        writer.close()
        await writer.wait_closed()


async def test_a_reader_that_takes_nothing_for_long_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, Explore=[says("x" * 2_000_000)]) as site:
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.connect(("127.0.0.1", site.serving.port))
            task = await start(site.client)
            await site.client.ended(task)
            monkeypatch.setattr(listener, "STUCK_SECONDS", 0.1)
            head = f"GET /api/tasks/{task} HTTP/1.1\r\nHost: 127.0.0.1:{site.serving.port}\r\n"
            narrow.sendall(f"{head}Authorization: Bearer {site.client.token}\r\n\r\n".encode())
            await until(lambda: select.select([narrow], [], [], 0)[0], "the answer begins")
            await asyncio.sleep(0.5)
            narrow.setblocking(True)
            narrow.settimeout(SECONDS)

            def rest() -> int:
                size = 0
                with contextlib.suppress(ConnectionResetError):
                    while piece := narrow.recv(65536):
                        size += len(piece)
                return size

            assert await asyncio.to_thread(rest) < 2_000_000


async def test_a_fact_that_cannot_be_read_holds_nobody_up(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        broken = await start(site.client)
        await site.client.ended(broken)
    with closing(sqlite3.connect(database())) as file, file:
        file.execute("UPDATE gen_journal SET body = '{' WHERE rowid = (SELECT max(rowid) FROM gen_journal)")
    async with served(tmp_path, Explore=LOOK) as site, site.client.stream("/api/stream", "0") as stream:
        task = await start(site.client)
        found = ids(await take(stream, ended(task)))
        assert [each for each in found if each.startswith(task)] == await journal(site.client, task)
        assert (await site.client.get("/api/usage")).status == 200
        assert (await site.client.get("/api/tasks")).status == 200


async def test_a_client_that_goes_away_is_forgotten(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        async with site.client.stream("/api/stream") as stream:
            await take(stream, lambda frame: frame.type == "StreamOpened")
            assert (await site.client.get("/api/health")).json["streams"] == 1
        await site.client.until("/api/health", lambda told: told["streams"] == 0)
        assert (await site.client.get("/api/health")).json["status"] == "ok"


async def test_the_end_of_a_server_ends_its_streams_after_the_last_facts(tmp_path: Path) -> None:
    slow = [says("first", call("LS", path=".")), says("late", delay_ms=60_000)]
    async with aiohttp.ClientSession() as http:
        async with served(tmp_path, Explore=slow) as site:
            task = await start(site.client)
            headers = {"Authorization": f"Bearer {site.client.token}"}
            response = await http.get(f"{site.client.base}/api/tasks/{task}/stream", headers=headers)
            site.serving.end()
            found = [frame async for frame in frames(response)]
        assert (found[-1].type, found[-1].data["status"]) == ("SubSessionCancelled", "cancelled")


async def test_an_id_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        for text in ("x", "9f3a1c2e", "9f3a1c2e:x", ":1", "1:2:3"):
            assert (await site.client.get("/api/stream", after=text)).status == 400


async def test_the_journal_can_be_followed_through_a_shared_database_alone(tmp_path: Path) -> None:
    """What a server tells is in the journal: another GenCode reads the same facts without it."""
    async with served(tmp_path, Explore=LOOK) as site:
        task = await start(site.client)
        await site.client.ended(task)
        told = await journal(site.client, task)
    async with GenCode.open(tmp_path, model="offline") as other:
        assert told == [f"{task}:{event.seq}" for event in (await other.journal(task)).events]
