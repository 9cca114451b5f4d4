"""What a server costs with many tasks and many readers, with the limits that must hold.

    python bench/serve.py [--tasks 500] [--streams 200] [--turns 5] [--pause 4000]

So many agents run at once in one `gen serve`; each turn of theirs is a call and takes `--pause` milliseconds
of a model's time. So many clients read the stream of everything; a few of them read every fact and when it
came, the others count. Then the list of all tasks is paged. The exit code is 1 when a limit is missed.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil

MOST_DELAY = 0.100
MOST_MEMORY = 600e6
MOST_PAGE = 0.250
WATCHED = 4
CROWD_PAUSE = 0.05
"""Those who only count read so seldom, so that they do not take the processor from what is measured."""
MARK = b"\nid: "
ID = re.compile(rb"^id: ([0-9a-f]{8}:\d+)\r?\nevent: (?!Stream)", re.MULTILINE)
AT = re.compile(rb'"at":"([^"]+)"')


class Server(NamedTuple):
    """`gen serve` as a process, and how to get in."""

    process: asyncio.subprocess.Process
    port: int
    token: str

    def ask(self, path: str, body: Any = None) -> Any:
        """One request, on a connection of its own."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
            return json.load(answer)


async def pieces(sock: socket.socket, pause: float) -> AsyncIterator[bytes]:
    """What a server sends in chunks, without their lengths; who pauses between reads gets more at once."""
    loop = asyncio.get_running_loop()
    rest = b""
    while b"\r\n\r\n" not in rest:
        rest += await loop.sock_recv(sock, 2**12)
    data = rest.partition(b"\r\n\r\n")[2]
    while True:
        at = 0
        found: list[bytes] = []
        while (end := data.find(b"\r\n", at)) >= 0:
            after = end + 2 + int(data[at:end], 16)
            if len(data) < after + 2:
                break
            found.append(data[end + 2 : after])
            at = after + 2
        if found:
            yield b"".join(found)
        if pause:
            await asyncio.sleep(pause)
        data = data[at:] + await loop.sock_recv(sock, 2**18)


@dataclass
class Reader:
    """One stream: the ids it saw, and how late each fact was; or only how many there were."""

    watched: bool
    count: int = 0
    ids: list[bytes] = field(default_factory=list[bytes])
    delays: list[float] = field(default_factory=list[float])
    rest: bytes = b""

    async def read(self, port: int, token: str, opened: asyncio.Event) -> None:
        """Read until cancelled."""
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", port))
            head = f"GET /api/stream?brief=true HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            await loop.sock_sendall(sock, f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
            async for piece in pieces(sock, 0 if self.watched else CROWD_PAUSE):
                opened.set()
                if self.watched:
                    self.take(piece)
                else:
                    joined = self.rest + piece
                    self.count += joined.count(MARK)
                    self.rest = joined[1 - len(MARK) :]

    def take(self, piece: bytes) -> None:
        """Look at whole frames; what is cut waits for its rest."""
        whole, end, self.rest = (self.rest + piece).rpartition(b"\n\n")
        now = time.time()
        for frame in (whole + end).split(b"\n\n"):
            if found := ID.search(frame):
                self.count += 1
                self.ids.append(found[1])
                if at := AT.search(frame):
                    self.delays.append(now - datetime.fromisoformat(at[1].decode()).timestamp())


async def crowd(port: int, token: str, number: int) -> list[int]:
    """So many clients that only count, until stdin is closed."""
    readers = [Reader(False) for _ in range(number)]
    reading = await opened(readers, port, token)
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for each in reading:
        each.cancel()
    return [each.count - 1 for each in readers]  # the frame that opens a stream has an id, too


async def opened(readers: list[Reader], port: int, token: str) -> "list[asyncio.Task[None]]":
    """Let readers read, once all of them are let in."""
    events = [asyncio.Event() for _ in readers]
    reading = [
        asyncio.create_task(each.read(port, token, event))
        for each, event in zip(readers, events, strict=True)
    ]
    for event in events:
        await event.wait()
    return reading


async def start_server(folder: Path, options: argparse.Namespace) -> Server:
    turn = {"text": "", "calls": [{"name": "LS", "input": {"path": "."}}], "delay_ms": options.pause}
    script = {"agents": {"*": [*[turn] * (options.turns - 1), {"text": "done", "delay_ms": options.pause}]}}
    (folder / "script.json").write_text(json.dumps(script))
    env = {**os.environ, "GEN_HOME": str(folder / "home"), "GEN_MAX_AGENTS": str(options.tasks)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gencode", "serve", "--model", f"scripted:{folder / 'script.json'}"),
        cwd=folder,
        env=env,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode().strip()
    base, _, token = line.partition("/?token=")
    return Server(process, int(base.rpartition(":")[2]), token)


class Cost(NamedTuple):
    """What a server took at most of memory, and in all of the processor."""

    memory: float
    seconds: float


async def load(server: Server, options: argparse.Namespace) -> tuple[list[Reader], list[int], Cost]:
    """Open the streams, start the tasks, wait for their ends; what was read, and what it cost."""
    crowded = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--crowd", f"{server.port}:{server.token}:{options.streams - WATCHED}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert crowded.stdout is not None
    await crowded.stdout.readline()
    readers = [Reader(True) for _ in range(WATCHED)]
    reading = await opened(readers, server.port, server.token)
    body = {"agent": "Explore", "prompt": "look", "maxTurns": options.turns + 1}
    for _ in range(options.tasks):
        await asyncio.to_thread(server.ask, "/api/tasks", body)
    memory, process = 0.0, psutil.Process(server.process.pid)
    until = time.monotonic() + 600
    while time.monotonic() < until:
        counts = (await asyncio.to_thread(server.ask, "/api/usage"))["tasks"]
        memory = max(memory, process.memory_info().rss)
        if not counts["running"] and not counts["pending"]:
            break
        await asyncio.sleep(1)
    await asyncio.sleep(2)
    for each in reading:
        each.cancel()
    out, _ = await crowded.communicate(b"")
    times = process.cpu_times()
    return readers, json.loads(out), Cost(memory, times.user + times.system)


def page_through(server: Server) -> list[float]:
    """How long each page of the list of all tasks takes."""
    found: list[float] = []
    before = ""
    while True:
        began = time.perf_counter()
        page = server.ask(f"/api/tasks?limit=100{before}")
        found.append(time.perf_counter() - began)
        if page["next"] is None:
            return found
        before = f"&before={page['next']}"


def facts(server: Server) -> list[bytes]:
    """The ids of all facts, from the journal."""
    found: list[bytes] = []
    after, more = "0", True
    while more:
        page = server.ask(f"/api/events?after={after}&limit=500")
        found += [f"{event['task']}:{event['seq']}".encode() for event in page["events"]]
        after, more = page["cursor"], page["more"]
    return found


def share(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


async def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, usual in (("tasks", 500), ("streams", 200), ("turns", 5), ("pause", 4000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--crowd", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crowd:
        port, token, number = options.crowd.split(":")
        print(json.dumps(await crowd(int(port), token, int(number))))
        return 0
    busy = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        server = await start_server(Path(folder), options)
        began = datetime.now(UTC)
        try:
            readers, counts, cost = await load(server, options)
            whole = await asyncio.to_thread(facts, server)
            pages = await asyncio.to_thread(page_through, server)
        finally:
            server.process.terminate()
            await server.process.wait()
    seconds = (datetime.now(UTC) - began).total_seconds()
    delays = [delay for each in readers for delay in each.delays]
    missed = sum(len(whole) != count for count in (*counts, *(each.count for each in readers)))
    out_of_order = sum(each.ids != whole for each in readers)
    late = share(delays, 0.99)
    print(
        f"{options.tasks} tasks, {options.streams} streams, {len(whole)} facts in {seconds:.0f} s; "
        f"load average before it {busy:.1f}"
    )
    print(
        f"delay p50 {share(delays, 0.5) * 1e3:.1f} ms, p99 {late * 1e3:.1f} ms, most {max(delays) * 1e3:.1f}"
    )
    print(f"streams that missed something or heard it twice: {missed}; in another order: {out_of_order}")
    print(f"memory of the server at most {cost.memory / 1e6:.0f} MB, processor {cost.seconds:.1f} s")
    print(f"a page of 100 tasks: p50 {share(pages, 0.5) * 1e3:.0f} ms, max {max(pages) * 1e3:.0f} ms")
    kept = late <= MOST_DELAY and not missed and not out_of_order and cost.memory <= MOST_MEMORY
    return 0 if kept and share(pages, 0.5) <= MOST_PAGE else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
