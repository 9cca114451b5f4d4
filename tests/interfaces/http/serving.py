"""A server for the tests, in this process or as `gen serve`, and a client that reads event streams."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from gencode.agent.ports import Provider
from gencode.app import GenCode
from gencode.interfaces.http.guard import AccessTokens, Role
from gencode.interfaces.http.listener import ListenOptions
from gencode.interfaces.http.server import HttpServer, QuestionSignal, new_desk
from gencode.testing import Turns
from tests.interfaces.cli.running import script, start

SECONDS = 120
LONGEST_WAIT = 60_000
"""The most milliseconds that one request may wait for the end of a task."""


class Frame(NamedTuple):
    """One event of a stream."""

    id: str | None
    type: str
    data: dict[str, Any]


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Client:
    """Asks one server with one token."""

    base: str
    token: str
    http: aiohttp.ClientSession

    async def get(self, path: str, **params: Any) -> Answer:
        return await self.ask("GET", path, params=params)

    async def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.ask("POST", path, json={} if body is None else body, **more)

    async def ask(self, method: str, path: str, **more: Any) -> Answer:
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        async with self.http.request(
            method, f"{self.base}{path}", headers=headers, allow_redirects=False, **more
        ) as response:
            body = await response.read()
            told = json.loads(body) if response.content_type == "application/json" else body.decode()
            return Answer(response.status, told, response.headers)

    @asynccontextmanager
    async def stream(self, path: str, last: str | None = None) -> AsyncGenerator[AsyncIterator[Frame], None]:
        headers = {"Authorization": f"Bearer {self.token}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        timeout = aiohttp.ClientTimeout(total=None, sock_read=SECONDS)
        async with self.http.get(f"{self.base}{path}", headers=headers, timeout=timeout) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield frames(response)

    async def ended(self, task: str) -> Any:
        """A task once it has ended."""
        answer = await self.get(f"/api/tasks/{task}/output", block="true", timeout=LONGEST_WAIT)
        assert answer.status == 200, answer.json
        return answer.json

    async def heard(self, session: str) -> list[str]:
        """What the person said in a conversation, as far as it was heard."""
        said = (await self.get(f"/api/tasks/{session}/transcript")).json["transcript"]
        users = [each for each in said if each["role"] == "user" and each.get("sender", "user") == "user"]
        return [each["text"] for each in users]

    async def until(self, path: str, done: Callable[[Any], bool]) -> Any:
        """What a path answers as soon as it fits."""
        async with asyncio.timeout(SECONDS):
            while True:
                answer = await self.get(path)
                if answer.status == 200 and done(answer.json):
                    return answer.json
                await asyncio.sleep(0.02)


async def frames(response: aiohttp.ClientResponse) -> AsyncIterator[Frame]:
    """The events of a stream, one after the other."""
    fields: dict[str, str] = {}
    buffer = b""
    async for piece in response.content.iter_any():
        buffer += piece
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            if line:
                name, _, value = line.decode().partition(": ")
                fields[name] = value
            else:  # some readers take a block without data for an event
                yield Frame(fields.get("id"), fields["event"], json.loads(fields["data"]))
                fields = {}


async def take(stream: AsyncIterator[Frame], done: Callable[[Frame], bool]) -> list[Frame]:
    """Frames up to the one that fits."""
    found: list[Frame] = []
    async with asyncio.timeout(SECONDS):
        async for frame in stream:
            found.append(frame)
            if done(frame):
                return found
    raise AssertionError(f"the stream ended after {found}")


class Served(NamedTuple):
    """A server in this process."""

    gen: GenCode
    client: Client
    serving: HttpServer
    keys: AccessTokens

    def shared(self, number: int = 0) -> Client:
        """A client with one of the tokens that were shared."""
        return Client(self.client.base, self.keys.shared[number][1], self.client.http)


@asynccontextmanager
async def served(
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    share: Sequence[Role] = (),
    model: Provider | None = None,
    **agents: Turns,
) -> AsyncGenerator[Served, None]:
    """A server whose agents play a script, or have this model; its journal is that of GEN_HOME."""
    changed = QuestionSignal()
    desk = new_desk(changed)
    keys = AccessTokens(shared=share)
    async with (
        GenCode.open(folder, model=model or script(folder, **agents), settings=settings, asker=desk) as gen,
        aiohttp.ClientSession() as http,
    ):
        serving = HttpServer(gen, desk, changed, ListenOptions(keys))
        running = asyncio.create_task(serving.run())
        ready = asyncio.create_task(serving.ready.wait())
        await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            running.result()
        try:
            yield Served(gen, Client(f"http://127.0.0.1:{serving.port}", keys.owner, http), serving, keys)
        finally:
            serving.end()
            await running


class Process(NamedTuple):
    """`gen serve` in a process of its own."""

    client: Client
    shared: list[str]
    stop: Callable[[signal.Signals], "asyncio.Future[tuple[int, str, str]]"]


@asynccontextmanager
async def gen_serve(folder: Path, *words: str, **agents: Turns) -> AsyncGenerator[Process, None]:
    """Start `gen serve`; it is killed at the end unless it was stopped."""
    flags = ("--model", script(folder, **agents)) if agents else ()
    process = start("serve", *flags, *words, cwd=folder)
    assert process.stdout is not None
    loop = asyncio.get_running_loop()

    def _ended() -> tuple[int, str, str]:
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    def stop(number: signal.Signals) -> "asyncio.Future[tuple[int, str, str]]":
        process.send_signal(number)
        return loop.run_in_executor(None, _ended)

    try:
        line = await asyncio.to_thread(process.stdout.readline)
        shared = [await asyncio.to_thread(process.stdout.readline) for word in words if word == "--share"]
        base, _, token = line.strip().partition("/?token=")
        if not token:
            raise AssertionError(process.communicate(timeout=SECONDS)[1])
        async with aiohttp.ClientSession() as http:
            yield Process(Client(base, token, http), shared, stop)
    finally:
        if process.poll() is None:
            process.kill()
            await asyncio.to_thread(process.communicate)
