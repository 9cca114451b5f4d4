"""Servers on a shared database: the same facts in the same order, from whichever of them one hears."""

import asyncio
import signal
from pathlib import Path

import pytest

from gencode.app import components
from gencode.testing import call, says
from tests.interfaces.cli.running import gen
from tests.interfaces.cli.running import start as run
from tests.interfaces.http.serving import Client, Frame, gen_serve, served, take
from tests.postgres import Postgres
from tests.waiting import Gate, until

pytestmark = pytest.mark.needs("postgres")

LOOK = [says("", call("LS", path=".")), says("I have looked.", delay_ms=20)]


@pytest.fixture
def url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of its own, named by the environment."""
    found = postgres.new_schema()
    monkeypatch.setenv("GEN_DATABASE_URL", found)
    return found


async def start(client: Client, number: int = 0) -> str:
    answer = await client.post("/api/tasks", {"agent": "Explore", "prompt": f"look {number}"})
    assert answer.status == 201, answer.json
    return answer.json["agentId"]


def ids(frames: list[Frame]) -> list[str]:
    return [frame.id for frame in frames if frame.id and not frame.type.startswith("Stream")]


async def journal(client: Client) -> list[str]:
    told = (await client.get("/api/events", after="0", limit=500)).json
    assert not told["more"]
    return [f"{event['task']}:{event['seq']}" for event in told["events"]]


async def test_two_servers_tell_the_same_facts_in_the_same_order(tmp_path: Path, url: str) -> None:
    async with (
        served(tmp_path, Explore=LOOK) as one,
        served(tmp_path, Explore=LOOK) as other,
        one.client.stream("/api/stream", "0") as here,
        other.client.stream("/api/stream", "0") as there,
    ):
        sites = [one, other] * 4
        tasks = await asyncio.gather(*(start(site.client, at) for at, site in enumerate(sites)))
        await asyncio.gather(*(one.client.ended(task) for task in tasks))
        whole = await journal(one.client)
        assert {each.partition(":")[0] for each in whole} == set(tasks)
        for stream in (here, there):
            assert ids(await take(stream, lambda frame: frame.id == whole[-1])) == whole
        listed = (await other.client.get("/api/tasks", limit=3)).json
        rest = (await other.client.get("/api/tasks", before=listed["next"], limit=5)).json
        pages = [*listed["tasks"], *rest["tasks"]]
        assert sorted(task["agentId"] for task in pages) == sorted(tasks)
        assert rest["next"] is None
        used = (await other.client.get("/api/usage")).json
        assert (used["tasks"]["completed"], used["total"]["usd"]) == (8, None)


async def test_a_reader_goes_from_one_server_to_the_other(tmp_path: Path, url: str) -> None:
    async with served(tmp_path, Explore=LOOK) as one, served(tmp_path, Explore=LOOK) as other:
        heard: list[str] = []
        last = "0"
        for turn in range(4):
            site = (one, other)[turn % 2]
            async with site.client.stream("/api/stream", last) as stream:
                await start(one.client)
                heard += ids(await take(stream, lambda frame: frame.type == "SubSessionCompleted"))
            last = heard[-1]
        assert heard == await journal(one.client)


async def test_a_task_of_another_process_is_seen_and_a_resumed_one_runs_once(
    tmp_path: Path, url: str
) -> None:
    gate = Gate(tmp_path)
    async with gen_serve(tmp_path, others=[*LOOK, says("", gate.call), says("again")]) as server:
        model = ("--model", f"scripted:{tmp_path}/script.json")
        async with server.client.stream("/api/stream") as stream:
            ran = await asyncio.to_thread(
                gen,
                *("task", "run", "general-purpose", "look", "--json", *model),
                cwd=tmp_path,
                GEN_DATABASE_URL=url,
            )
            task = ran.json["agentId"]
            found = await take(stream, lambda frame: frame.type == "SubSessionCompleted")
        assert ids(found) == await journal(server.client)
        again = [server.client.post(f"/api/tasks/{task}/resume", {"prompt": "more"}) for _ in range(3)]
        codes = [answer.status for answer in await asyncio.gather(*again)]
        assert sorted(codes) == [200, 409, 409]
        await until(gate.opened)
        assert (await server.client.ended(task))["result"] == "again"
        code, _, err = await server.stop(signal.SIGTERM)
        assert (code, err) == (143, "")


async def test_a_word_left_for_a_chat_at_rest_begins_a_turn(tmp_path: Path, url: str) -> None:
    async with served(tmp_path, main=[says("one"), says("I heard it.")]) as site:
        begun = await site.client.post("/api/conversations/web/room", {"text": "hello"})
        session = begun.json["sessionId"]
        await site.client.ended(session)
        await components(site.gen).store.post(session, "It is nine o'clock.", "system")
        await site.client.until(f"/api/tasks/{session}", lambda told: told["result"] == "I heard it.")
        assert await site.client.heard(session) == ["hello"]


async def test_a_stream_outlives_a_restart_of_the_database(
    tmp_path: Path, url: str, postgres: Postgres
) -> None:
    async with (
        served(tmp_path, Explore=LOOK) as site,
        site.client.stream("/api/stream", "0") as stream,
    ):
        first = await start(site.client)
        heard = ids(await take(stream, lambda frame: frame.type == "SubSessionCompleted"))
        postgres.stop()
        postgres.start()  # not in a thread: it would end with it
        second = await start(site.client)
        heard += ids(await take(stream, lambda frame: frame.type == "SubSessionCompleted"))
        assert {each.partition(":")[0] for each in heard} == {first, second}
        assert heard == await journal(site.client)


async def test_what_an_agent_on_a_worker_asks_is_answered_over_http(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_BACKGROUND_QUESTIONS", "true")
    write = says("", call("Write", file_path="notes.txt", content="one\n"))
    async with gen_serve(tmp_path, general_purpose=[write, says("written")]) as server:
        worker = run("worker", cwd=tmp_path)
        wish = {"agent": "general-purpose", "prompt": "write", "detached": True}
        task = (await server.client.post("/api/tasks", wish)).json["agentId"]
        found = await server.client.until("/api/questions", lambda told: bool(told["questions"]))
        [question] = found["questions"]
        assert (question["task"], question["tool"]) == (task, "Write")
        answer = {"allow": True}
        told = await server.client.post(f"/api/questions/{question['number']}", answer)
        assert told.status == 200
        assert (await server.client.ended(task))["result"] == "written"
        worker.terminate()
        await asyncio.to_thread(worker.communicate)
    assert (tmp_path / "notes.txt").read_text() == "one\n"
