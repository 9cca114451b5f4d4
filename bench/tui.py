"""How quickly the terminal app answers while many agents speak, and what an hour of that costs in memory.

python bench/tui.py            key presses on a real pty, long transcripts, big trees, memory
python bench/tui.py keys       only one of: keys, transcript, tree, memory
"""

import asyncio
import os
import pty
import resource
import select
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.events import AnyFact, Event, MessageAdded, TaskCreated, TaskStarted, TextArrived
from gencode.core.ids import stamp
from gencode.core.messages import AssistantMessage, CallPart, EndPart, Part, TextPart, ToolCall, UserMessage
from gencode.core.questions import Asker
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.tui.app import TerminalApp
from gencode.stores.memory import MemoryStore

AGENTS = 16
KEYS = 60
SIZE = (160, 48)
WORDS = "the parser reads a line and gives back what it **found** in `file.py`, then goes on.\n\n"


class Streaming:
    """A model whose agents speak a piece every few milliseconds, for as long as anybody listens."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Main sends all agents, and those speak."""
        if request.agent == "main":
            for number in range(AGENTS):
                told = {"subagent_type": "Explore", "prompt": "speak", "description": f"agent {number}"}
                yield CallPart(ToolCall(f"call_{number}", "Task", told))
            yield EndPart("streaming", "tool_use")
            return
        for _ in range(100_000):
            yield TextPart(WORDS)
            await asyncio.sleep(0.02)
        yield EndPart("streaming")


@asynccontextmanager
async def opener(asker: Asker) -> AsyncGenerator[GenCode, None]:
    """GenCode in memory."""
    async with GenCode.open(Path.cwd(), model=Streaming(), store=MemoryStore(), asker=asker) as gen:
        yield gen


async def speak(talk: Talk) -> None:
    """Begin at once."""
    await talk.say("go")


def app(begin: Callable[[Talk], object] | None = None) -> TerminalApp:
    """The app, which begins with a question to all agents when it is told to."""
    return TerminalApp(opener, folder=Path.cwd(), begin=speak if begin else None)


def child() -> None:
    """The app on the terminal we are on; every agent speaks."""
    app(speak).run()


def keys() -> None:
    """From a key that is pressed to its sign on the screen, while 16 agents stream."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in range(3):
            os.dup2(follower, number)
        os.environ |= {"TERM": "xterm-256color"}
        os.execv(sys.executable, [sys.executable, __file__, "child"])  # noqa: S606 (ourselves)
    _until(leader, b"agents in parallel", 30)
    _drain(leader, 3.0)
    took: list[float] = []
    for number in range(KEYS):
        sign = chr(0x0416 + number).encode()
        _drain(leader, 0.05)
        start = time.perf_counter()
        os.write(leader, sign)
        _until(leader, sign, 5)
        took.append((time.perf_counter() - start) * 1000)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    took.sort()
    worst = took[int(len(took) * 0.95)]
    print(f"keys: median {statistics.median(took):.1f} ms, 95 % {worst:.1f} ms, slowest {took[-1]:.1f} ms")


def _until(leader: int, wanted: bytes, seconds: float) -> None:
    seen = b""
    end = time.monotonic() + seconds
    while wanted not in seen:
        if time.monotonic() > end:
            raise SystemExit(f"{wanted!r} did not come")
        ready, _, _ = select.select([leader], [], [], 0.1)
        if ready:
            seen = seen[-64:] + os.read(leader, 1 << 16)


def _drain(leader: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if select.select([leader], [], [], rest)[0]:
            os.read(leader, 1 << 16)


def event(task: str, fact: AnyFact, seq: int | None = None) -> Event:
    """A fact that happens now."""
    return Event(task, seq, stamp(), fact)


async def transcript() -> None:
    """A transcript of 10,000 lines: opened, painted again, scrolled to its beginning."""
    screen = app()
    async with screen.run_test(size=SIZE) as pilot:
        while screen.talk is None:
            await pilot.pause(0.05)
        talk = screen.talk
        talk.take(event("m", TaskCreated(agent="main", conversation=True), 1))
        for number in range(200):
            talk.take(event("m", MessageAdded(UserMessage("and?")), 2 * number + 2))
            talk.take(event("m", MessageAdded(AssistantMessage(WORDS * 25)), 2 * number + 3))
        times = [_timed(screen.main.paint) for _ in range(20)]
        print(f"transcript: first paint {times[0]:.1f} ms, again {statistics.median(times[1:]):.1f} ms")
        reading = screen.main.reading
        pages: list[float] = []
        for _ in range(400):
            pages.append(_timed(reading.action_page_up))
            await pilot.pause(0)
            if reading.scroll_offset.y == 0:
                break
        print(f"transcript: {reading.lines:,} lines, {len(pages)} pages up, slowest {max(pages):.1f} ms")
        await screen.closed()


async def tree() -> None:
    """A tree of 1,000 agents: painted, and walked through."""
    screen = app()
    async with screen.run_test(size=SIZE) as pilot:
        while screen.talk is None:
            await pilot.pause(0.05)
        talk = screen.talk
        talk.take(event("m", TaskCreated(agent="main", conversation=True), 1))
        born = _timed(lambda: [_born(talk, number) for number in range(1_000)])
        screen.main.toggle_tree()
        await pilot.pause(0.1)
        times = [_timed(screen.main.paint) for _ in range(20)]
        steps = [_timed(lambda: screen.main.branches.move(1)) for _ in range(200)]
        folded = born / 3
        print(
            f"tree: 1,000 agents, {folded:.0f} us for each event, paint {statistics.median(times):.1f} ms, "
            f"step {statistics.median(steps):.2f} ms"
        )
        await screen.closed()


def _born(talk: Talk, number: int) -> None:
    task = f"{number:08x}"
    parent = "m" if number < 100 else f"{number // 10 - 10:08x}"
    talk.take(event(task, TaskCreated(agent="Explore", description=f"part {number}", parent=parent), 1))
    talk.take(event(task, TaskStarted(model="m"), 2))
    talk.take(event(task, MessageAdded(AssistantMessage("", (ToolCall("1", "Glob", {"pattern": "*"}),))), 3))


async def memory(hours: float = 1.0) -> None:
    """What the app grows by over an hour in which 16 agents speak 50 words a second."""
    screen = app()
    async with screen.run_test(size=SIZE) as pilot:
        while screen.talk is None:
            await pilot.pause(0.05)
        talk = screen.talk
        talk.take(event("m", TaskCreated(agent="main", conversation=True), 1))
        for number in range(AGENTS):
            talk.take(event(f"a{number}", TaskCreated(agent="Explore", parent="m"), 1))
        replies = int(3_600 * hours * 50 / (len(WORDS.split()) * 20))
        warm = 0
        for reply in range(replies):
            for task in ("m", *(f"a{number}" for number in range(AGENTS))):
                talk.take(event(task, TextArrived(WORDS * 20)))
                talk.take(event(task, MessageAdded(AssistantMessage(WORDS * 20)), reply + 2))
            screen.main.paint()
            await pilot.pause(0)
            if reply == replies // 5:
                warm = _resident()
        grown = (_resident() - warm) / warm
        print(f"memory: {_resident() / 2**20:.0f} MiB, {grown:+.1%} after the first fifth of an hour")
        await screen.closed()


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Measure what was named, or everything."""
    wanted = sys.argv[1:] or ["keys", "transcript", "tree", "memory"]
    if wanted == ["child"]:
        child()
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["GEN_HOME"] = home
        if "keys" in wanted:
            keys()
        for name, measure in (("transcript", transcript), ("tree", tree), ("memory", memory)):
            if name in wanted:
                asyncio.run(measure())


if __name__ == "__main__":
    main()
