"""`gen serve` as a process: its first line, its end, its death, and what the next one makes of it."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gencode.app import components
from gencode.core.extras import installing
from gencode.core.messages import UserMessage
from gencode.core.task import transcript_of
from gencode.interfaces.http.restart import PARENT_RESUMES, RESUME_NOTICE
from gencode.testing import call, says
from tests.interfaces.cli.running import gen, script
from tests.interfaces.cli.running import start as start_gen
from tests.interfaces.http.serving import Client, gen_serve, served, take

EVERYWHERE = "0.0.0.0"  # noqa: S104 (this is what the test is about)
LOOK = [says("", call("LS", path=".")), says("I have looked.")]
LONG = [says("half", call("LS", path=".")), says("whole", delay_ms=60_000)]


async def start(client: Client, agent: str = "Explore") -> str:
    answer = await client.post("/api/tasks", {"agent": agent, "prompt": "look"})
    assert answer.status == 201, answer.json
    return answer.json["agentId"]


async def test_the_first_line_is_the_address_and_the_token_opens_every_door(tmp_path: Path) -> None:
    async with gen_serve(tmp_path, "--share", "view", main=[says("x")]) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.client.base)
        assert len(server.client.token) >= 43
        for path in ("/", "/openapi.json", "/api/health", "/static/page.js"):
            assert (await server.client.get(path)).status == 200
        address = rf"view: {re.escape(server.client.base)}/\?token=\S{{43}}\n"
        assert [re.fullmatch(address, line) is not None for line in server.shared] == [True]
        assert await server.stop(signal.SIGTERM) == (143, "", "")


async def test_a_reader_of_a_server_that_was_killed_goes_on_at_the_next_one(tmp_path: Path) -> None:
    seen: list[str] = []
    async with gen_serve(tmp_path, Explore=LOOK, Plan=LONG) as server:
        async with server.client.stream("/api/stream", "0") as stream:
            await server.client.ended(await start(server.client))
            second = await start(server.client, "Plan")
            found = await take(
                stream, lambda frame: frame.data.get("task") == second and (frame.data["seq"] or 0) >= 3
            )
            seen += [frame.id for frame in found if frame.id and frame.data.get("task")]
        await server.stop(signal.SIGKILL)
    async with gen_serve(tmp_path, Explore=LOOK) as server:
        async with server.client.stream("/api/stream", seen[-1]) as stream:
            third = await start(server.client)
            found = await take(
                stream, lambda frame: frame.type == "SubSessionCompleted" and frame.data["task"] == third
            )
            seen += [frame.id for frame in found if frame.id and frame.data.get("task")]
        told = (await server.client.get("/api/events", after="0", limit=500)).json["events"]
        assert seen == [f"{event['task']}:{event['seq']}" for event in told]
        died = (await server.client.get(f"/api/tasks/{second}")).json
        assert (died["status"], died["error"]) == ("interrupted", "the process that ran it died")


async def test_what_a_shutdown_stops_is_named_and_goes_on_with_the_next_server(tmp_path: Path) -> None:
    async with gen_serve(tmp_path, Explore=LONG) as server:
        task = await start(server.client)
        await server.client.until(f"/api/tasks/{task}", lambda told: told["turns"] == 1)
        code, _, err = await server.stop(signal.SIGINT)
        assert code == 130
        assert f"Stopping {task} (Explore)" in err
    stopped = (await asyncio.to_thread(gen, "task", "show", task, "--json", cwd=tmp_path)).json
    assert (stopped["status"], stopped["result"]) == ("cancelled", "half")
    async with gen_serve(tmp_path, Explore=[*LONG[:1], says("whole")]) as server:
        ended = await server.client.ended(task)
        assert (ended["status"], ended["result"]) == ("completed", "whole")
        _, _, err = await server.stop(signal.SIGTERM)
        assert f"{task} (Explore)" in err
    async with gen_serve(tmp_path, Explore=[says("not again")]) as server:
        assert (await server.client.get(f"/api/tasks/{task}")).json["result"] == "whole"


async def test_a_task_that_was_stopped_by_a_person_stays_stopped(tmp_path: Path) -> None:
    async with gen_serve(tmp_path, Explore=LONG) as server:
        task = await start(server.client)
        await server.client.until(f"/api/tasks/{task}", lambda told: told["turns"] == 1)
        await server.client.post(f"/api/tasks/{task}/stop")
        await server.stop(signal.SIGTERM)
    async with gen_serve(tmp_path, Explore=LOOK) as server:
        assert (await server.client.get(f"/api/tasks/{task}")).json["status"] == "cancelled"


async def test_a_token_file_keeps_the_token_for_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens: list[str] = []
    for _ in range(2):
        async with gen_serve(tmp_path, "--token-file", str(path), main=[says("x")]) as server:
            tokens.append(server.client.token)
    assert tokens[0] == tokens[1] == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--port", "66000"), "from 0 to 65535"),
        (("--port", "1"), "--port"),
        (("--bind", "example.org"), "is not an IP address"),
        (("--bind", "192.0.2.1"), "192.0.2.1"),
        (("--allow-host", "a b"), "is not a host name"),
        (("--token-file", "/nowhere/token"), "cannot be written"),
        (("--share", "all"), "invalid choice"),
    ],
)
def test_what_cannot_be_served_says_why(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    if words == ("--port", "1") and os.geteuid() == 0:
        words = ("--port", "70000")
        sentence = "from 0 to 65535"
    ended = gen("serve", *words, "--model", "offline", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err and ended.err.count("\n") == 1


def test_a_token_file_that_others_can_read_or_that_is_weak_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text, mode, said in (("x" * 40, 0o644, "chmod 600"), ("short", 0o600, "no token")):
        path.write_text(text)
        path.chmod(mode)
        ended = gen("serve", "--token-file", str(path), "--model", "offline", cwd=tmp_path)
        assert ended.code == 2 and said in ended.err


async def test_another_address_is_said_to_be_one(tmp_path: Path) -> None:
    async with gen_serve(
        tmp_path, "--bind", EVERYWHERE, "--allow-host", "team.example", main=[says("x")]
    ) as server:
        for host, status in (("team.example", 200), ("other.example", 421)):
            answer = await server.client.ask("GET", "/api/health", headers={"Host": host})
            assert answer.status == status
        _, _, err = await server.stop(signal.SIGTERM)
        assert "not encrypted" in err and "--allow-host" in err


async def test_a_server_of_every_address_is_asked_under_each_in_numbers(tmp_path: Path) -> None:
    """127.0.0.2 stands for an address of this machine that nobody has named."""
    async with gen_serve(tmp_path, "--bind", EVERYWHERE, main=[says("x")]) as server:
        port = server.client.base.rpartition(":")[2]
        there = Client(f"http://127.0.0.2:{port}", server.client.token, server.client.http)
        own = f"127.0.0.2:{port}"
        for headers, status in (
            ({}, 200),
            ({"Origin": f"http://{own}"}, 200),
            ({"Origin": "http://127.0.0.3"}, 403),
            ({"Host": f"127.0.0.3:{port}"}, 421),
            ({"Host": "127.0.0.2"}, 421),
            ({"Host": f"evil.example:{port}"}, 421),
        ):
            assert (await there.ask("GET", "/api/health", headers=headers)).status == status
        elsewhere = await server.client.ask("GET", "/api/health", headers={"Host": own})
        assert (elsewhere.status, "--allow-host" in elsewhere.json["error"]) == (421, True)


async def test_the_addresses_come_as_json_when_that_is_asked_for(tmp_path: Path) -> None:
    process = start_gen("serve", "--json", "--share", "view", "--model", "offline", cwd=tmp_path)
    assert process.stdout is not None
    told = json.loads(await asyncio.to_thread(process.stdout.readline))
    process.terminate()
    await asyncio.to_thread(process.communicate)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", told["url"])
    tokens = [told["token"], told["shared"][0]["token"]]
    assert told == {"url": told["url"], "token": tokens[0], "shared": [{"right": "view", "token": tokens[1]}]}
    assert [len(each) for each in tokens] == [43, 43]


async def test_a_channel_that_leads_nowhere_is_named_at_the_start(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir(exist_ok=True)
    settings = (
        '[channels.near]\nurl = "http://127.0.0.1:9/in"\n[channels.far]\nurl = "https://hook.example.net/x"\n'
    )
    (home / ".gen" / "settings.toml").write_text(settings)
    async with gen_serve(tmp_path, main=[says("x")]) as server:
        _, _, err = await server.stop(signal.SIGTERM)
    assert "The channel near" in err and "127.0.0.1" in err
    assert "far" not in err


async def test_each_task_says_whether_it_goes_on_by_itself(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look", description="a look")
    main = [says("", send), says("I know what I know.")]
    async with gen_serve(tmp_path, main=main, Explore=LONG) as server:
        began = await server.client.post("/api/conversations/web/room", {"text": "go"})
        session = began.json["sessionId"]
        told = await server.client.until(
            "/api/tasks?agent=Explore&status=running", lambda told: told["tasks"]
        )
        child = told["tasks"][0]["agentId"]
        await server.client.until(f"/api/tasks/{child}", lambda told: told["turns"] == 1)
        _, _, err = await server.stop(signal.SIGTERM)
        assert f"{session} (main)" in err and f"{child} (Explore)" in err
    async with gen_serve(tmp_path, main=[*main[:1], says("Whole.")], Explore=LONG) as server:
        assert (await server.client.ended(session))["result"] == "Whole."
        left = (await server.client.get(f"/api/tasks/{child}")).json
        assert (left["status"], left["error"]) == ("cancelled", str(PARENT_RESUMES))


async def test_what_goes_on_and_waits_in_line_is_pending_and_told_so_once(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LONG) as site:
        tasks = [await start(site.client) for _ in range(2)]
        for task in tasks:
            await site.client.until(f"/api/tasks/{task}", lambda told: told["turns"] == 1)
    async with served(tmp_path, settings={"max_agents": 1}, Explore=LONG) as site:
        states = [(await site.client.get(f"/api/tasks/{task}")).json["status"] for task in tasks]
        listed = (await site.client.get("/api/tasks")).json["tasks"]
        assert sorted(states) == sorted(each["status"] for each in listed) == ["pending", "running"]
        async with served(tmp_path, settings={"max_agents": 1}, Explore=LONG) as other:
            for task in tasks:
                heard = transcript_of(await other.gen.history.events(task))
                told = [each.notice for each in heard if isinstance(each, UserMessage)]
                assert (
                    told.count(RESUME_NOTICE.notice),
                    await components(other.gen).store.unread_messages(task),
                ) == (1, [])


def test_a_shared_database_that_is_not_there_is_said_to_be_gone(tmp_path: Path) -> None:
    ended = gen("serve", cwd=tmp_path, GEN_DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be reached" in ended.err and ended.err.count("\n") == 1


def test_a_missing_extra_says_how_to_install_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from gencode.interfaces.cli.main import main; sys.exit(main(['serve']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr == f"gen: gen serve needs uvicorn. Install with: {installing('server')}\n"


async def test_the_terminal_and_a_server_see_the_same_facts(tmp_path: Path) -> None:
    async with gen_serve(tmp_path, Explore=LOOK, main=[says("hello")]) as server:
        task = await start(server.client)
        await server.client.ended(task)
        shown = await asyncio.to_thread(gen, "task", "show", task, "--json", cwd=tmp_path)
        told = (await server.client.get(f"/api/tasks/{task}/transcript")).json
        assert {name: told[name] for name in shown.json} == shown.json
        asked = await asyncio.to_thread(
            gen, "-p", "hi", "--json", "--model", script(tmp_path, main=[says("hi there")]), cwd=tmp_path
        )
        session = asked.json["sessionId"]
        chat = (await server.client.get(f"/api/conversations/session/{session}")).json
        assert (chat["address"], chat["session"]["result"]) == (f"session:{session}", "hi there")
