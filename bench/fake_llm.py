"""A fake model server on 127.0.0.1 for the benchmark: OpenAI's Chat Completions, streamed or whole.

    python bench/fake_llm.py [--latency-ms 200] [--whole]

What it answers depends on nothing but the request. The conversation carries its script in plain text:

    [[BENCH id=a turns=5 tool=lookup]]            calls of `tool` until five results are there, then an answer
    [[BENCH id=m spawn=9 tool=Task childarg=prompt …]]     nine calls at once, each with a script for a child

Progress is counted by marks in results and answers, so whoever rewrites its history gets the same script.
`GET /_stats` tells what was asked so far. The standard library is enough; uvloop and orjson make it faster.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import re
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, cast

OBSERVED = b"BENCH-OBS"
ANSWERED = b"BENCH-FINAL"
SCRIPT = re.compile(rb"\[\[BENCH ([^\]]*)\]\]")
LARGEST_BODY = 64 * 1024 * 1024
PIECES = 8
ENDING = "All steps of the assignment are complete and nothing is left open; the findings are as listed. " * 2
MODEL = "fake-model"

Call = tuple[str, str, dict[str, Any]]


def _plain_dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


try:
    _orjson = importlib.import_module("orjson")
    loads: Callable[[bytes], Any] = _orjson.loads
    dumps: Callable[[object], bytes] = _orjson.dumps
except ImportError:
    loads, dumps = json.loads, _plain_dumps


class Told:
    """What the server was asked so far."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.bytes_in = 0
        self.first_prompt = 0
        self.first_at = 0.0
        self.unknown_tools = 0
        self.conversations: dict[str, list[int]] = {}

    def ask(self, raw: bytes, script: dict[str, str]) -> None:
        """Count one request."""
        if not self.requests:
            self.first_at, self.first_prompt = time.time(), len(raw)
        self.requests += 1
        self.bytes_in += len(raw)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.conversations.setdefault(script.get("id", "-"), []).append(len(raw))

    def plain(self) -> dict[str, Any]:
        """Everything as JSON."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {**vars(self), "server_cpu": used.ru_utime + used.ru_stime}


def script_of(raw: bytes) -> dict[str, str]:
    """The script a conversation carries; an empty one when it carries none."""
    found = SCRIPT.search(raw)
    words = found.group(1).decode("utf-8", "replace").split() if found else []
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def arguments(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The given arguments, and a plain value for every other required one."""
    plain: dict[str, object] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
    required: list[str] = schema.get("required") or []
    missing = [name for name in required if name not in given]
    return {**given, **{name: plain.get(properties[name].get("type", ""), "x") for name in missing}}


def decide(raw: bytes, body: dict[str, Any], script: dict[str, str]) -> tuple[str, list[Call]]:
    """The text or the calls that come next in a script."""
    tools: list[dict[str, Any]] = body.get("tools") or []
    functions: list[dict[str, Any]] = [each["function"] for each in tools]
    schemas: dict[str, dict[str, Any]] = {each["name"]: each["parameters"] for each in functions}
    name, tool = script.get("id", "-"), script.get("tool", "lookup")
    given = {key[4:]: value for key, value in script.items() if key.startswith("arg.")}
    spawn = int(script.get("spawn", "0"))
    if spawn and ANSWERED not in raw:
        child = f"turns={script.get('cturns', '5')} tool={script.get('ctool', 'lookup')}"
        return "", [
            (
                f"call_{name}_{number}",
                tool,
                arguments(
                    schemas.get(tool, {}),
                    {**given, script.get("childarg", "prompt"): f"[[BENCH id={name}-{number} {child}]]"},
                ),
            )
            for number in range(spawn)
        ]
    done = raw.count(OBSERVED)
    if not spawn and done < int(script.get("turns", "0")):
        told = given or {"key": f"k{done}"}
        return "", [(f"call_{name}_{done}", tool, arguments(schemas.get(tool, {}), told))]
    return f"BENCH-FINAL {name} {ENDING}", []


def pieces(text: str) -> list[str]:
    """A text in at most eight pieces."""
    size = max(1, -(-len(text) // PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _tool_call(number: int, call: Call, told: str) -> dict[str, Any]:
    head = {"index": number, "id": call[0], "type": "function"}
    return {**head, "function": {"name": call[1], "arguments": told}}


def whole(text: str, calls: list[Call], usage: dict[str, int]) -> bytes:
    """An answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            _tool_call(number, call, dumps(call[2]).decode()) for number, call in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    head = {"id": "chatcmpl-bench", "object": "chat.completion", "created": 1700000000, "model": MODEL}
    return dumps({**head, "choices": [choice], "usage": usage})


def streamed(text: str, calls: list[Call], usage: dict[str, int]) -> list[bytes]:
    """An answer as server-sent events: eight pieces for the text, or for the arguments of each call."""
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1700000000, "model": MODEL}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk({"role": "assistant", "content": None if calls else ""})]
    chunks += [chunk({"content": piece}) for piece in (() if calls else pieces(text))]
    for number, call in enumerate(calls):
        chunks.append(chunk({"tool_calls": [_tool_call(number, call, "")]}))
        for piece in pieces(dumps(call[2]).decode()):
            chunks.append(chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]}))
    chunks.append(chunk({}, "tool_calls" if calls else "stop"))
    chunks.append({**head, "choices": [], "usage": usage})
    return [b"data: %b\n\n" % each for each in (*map(dumps, chunks), b"[DONE]")]


class Connection(asyncio.Protocol):
    """One connection, kept open; one request at a time."""

    def __init__(self, told: Told, latency: float, only_whole: bool) -> None:
        self._told = told
        self._latency = latency
        self._only_whole = only_whole
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody called."""
        self._transport = cast("asyncio.Transport", transport)
        self._told.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """They hung up."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Collect until a request is whole."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end])
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        needed = int(length.group(1)) if length else 0
        if needed > LARGEST_BODY:
            raise SystemExit("a request is too large for the benchmark")
        if len(self._buffer) >= end + 4 + needed:
            body = bytes(self._buffer[end + 4 : end + 4 + needed])
            del self._buffer[: end + 4 + needed]
            self._answer(head, body)

    def _answer(self, head: bytes, raw: bytes) -> None:
        if b" /_stats " in head.split(b"\r\n", 1)[0]:
            self._told.connections -= 1
            self._send(dumps(self._told.plain()))
            return
        script = script_of(raw)
        self._told.ask(raw, script)
        loop = asyncio.get_running_loop()
        body = loads(raw)
        text, calls = decide(raw, body, script)
        read, said = len(raw) // 4, 20 + len(calls)
        usage = {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}
        if body.get("stream") and not self._only_whole:
            events = streamed(text, calls, usage)
            loop.call_later(self._latency, self._reply, events) if self._latency else self._reply(events)
        else:
            answer = whole(text, calls, usage)
            loop.call_later(self._latency, self._reply, answer) if self._latency else self._reply(answer)

    def _reply(self, answer: bytes | list[bytes]) -> None:
        self._told.in_flight -= 1
        if isinstance(answer, bytes):
            self._send(answer)
        elif self._transport is not None:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in answer]
            self._transport.write(head + b"".join(frames) + b"0\r\n\r\n")

    def _send(self, body: bytes) -> None:
        if self._transport is not None:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            self._transport.write(head % len(body) + body)


async def serve(latency: float, only_whole: bool) -> None:
    """Serve until told to stop; the port is the first line that is printed."""
    loop = asyncio.get_running_loop()
    told = Told()
    server = await loop.create_server(
        lambda: Connection(told, latency, only_whole), "127.0.0.1", 0, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    stopped = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    await stopped.wait()
    server.close()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description="A fake model server on 127.0.0.1.")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--whole", action="store_true", help="never stream, although asked to")
    chosen = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    with contextlib.suppress(ImportError):
        importlib.import_module("uvloop").install()
    asyncio.run(serve(chosen.latency_ms / 1000, chosen.whole))


if __name__ == "__main__":
    main()
