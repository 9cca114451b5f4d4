"""An editor that sends anything: messages of the protocol with hostile values in them, and such answers."""

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from tests.interfaces.acp.driving import begun
from tests.interfaces.cli.running import script

INTERNAL_ERROR = -32_603
SECONDS = 120
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1.5,
        2**70,
        "",
        "\0",
        "../../etc/passwd",
        "/etc/shadow",
        "\u202e\x1b[2J",
        "x" * 100_000,
    ),
    *("\ud800", [], {}, [[]], {"type": "text"}, ["x"] * 2_000, {"": {"": {}}}, "file:///proc/self/environ"),
)
CALLS = [
    {"name": "Read", "input": {"file_path": "a.txt"}},
    {"name": "Edit", "input": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}},
    {"name": "Bash", "input": {"command": "touch made"}},
]


class Attack(NamedTuple):
    """What came of it: how many messages were sent and answered, and the faults that were told."""

    sent: int
    answered: int
    faults: list[str]
    alive: bool


async def attack(folder: Path, count: int, seed: int) -> Attack:
    """Send so many messages, and answer what is asked in between."""
    (folder / "a.txt").write_text("one\n")
    turns = [turn for each in CALLS for turn in ({"calls": [each]}, {"text": "said"})]
    process = await begun(folder, "--model", script(folder, main=turns * 200))
    chance = random.Random(seed)
    out, read = process.stdin, process.stdout
    assert out is not None and read is not None
    heard: list[dict[str, Any]] = []
    last = asyncio.Event()
    sessions = ["nobody"]

    async def listen() -> None:
        while line := await read.readline():
            message = json.loads(line)
            if "method" in message and "id" in message:
                answer = mutated(chance, ANSWERS.get(message["method"], {}), 0.6)
                out.write(line_of({"jsonrpc": "2.0", "id": message["id"], "result": answer}))
            elif "method" not in message:
                heard.append(message)
                result = cast("dict[str, str]", message.get("result") or {})
                sessions.extend([result["sessionId"]] if "sessionId" in result else [])
                if message["id"] == "last":
                    last.set()

    listening = asyncio.create_task(listen())
    alive = True
    try:
        async with asyncio.timeout(SECONDS + count / 5):
            for number in range(count):
                method, params = chance.choice(REQUESTS)
                filled = fill(params, {"SESSION": chance.choice(sessions[-20:]), "FOLDER": str(folder)})
                share = chance.choice((0.0, 0.1, 0.5))
                message = {
                    "jsonrpc": "2.0",
                    "id": number,
                    "method": method,
                    "params": mutated(chance, filled, share),
                }
                out.write(line_of(mutated(chance, message, 0.2) if chance.random() < 0.1 else message))
                await out.drain()
            out.write(
                line_of({"jsonrpc": "2.0", "id": "last", "method": "initialize", "params": REQUESTS[0][1]})
            )
            await last.wait()
    except (TimeoutError, ConnectionError):
        alive = False
    finally:
        process.kill()
        await process.wait()
        listening.cancel()
    errors = [cast("dict[str, Any]", each["error"]) for each in heard if each.get("error")]
    faults = [str(each) for each in errors if each["code"] == INTERNAL_ERROR]
    return Attack(count, len(heard), faults, alive)


REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "initialize",
        {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}}},
    ),
    ("session/new", {"cwd": "FOLDER", "mcpServers": []}),
    (
        "session/new",
        {"cwd": "FOLDER", "mcpServers": [{"name": "x", "command": "/no/such", "args": ["x"], "env": []}]},
    ),
    ("session/load", {"sessionId": "SESSION", "cwd": "FOLDER", "mcpServers": []}),
    ("session/resume", {"sessionId": "SESSION", "cwd": "FOLDER", "mcpServers": []}),
    ("session/list", {"cwd": "FOLDER", "cursor": "x"}),
    ("session/set_mode", {"sessionId": "SESSION", "modeId": "default"}),
    ("session/set_config_option", {"sessionId": "SESSION", "configId": "model", "value": "x"}),
    ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "go @a.txt"}]}),
    (
        "session/prompt",
        {
            "sessionId": "SESSION",
            "prompt": [
                {"type": "resource_link", "uri": "file:///etc/shadow", "name": "x"},
                {"type": "resource", "resource": {"uri": "file:///x", "text": "hello"}},
                {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
            ],
        },
    ),
    ("session/cancel", {"sessionId": "SESSION"}),
    ("session/close", {"sessionId": "SESSION"}),
    ("authenticate", {"methodId": "x"}),
)
ANSWERS: Mapping[str, dict[str, Any]] = {
    "fs/read_text_file": {"content": "one\n"},
    "session/request_permission": {"outcome": {"outcome": "selected", "optionId": "n"}},
}


def fill(value: Any, names: Mapping[str, str]) -> Any:
    """A value with the names of sessions and folders in it."""
    match value:
        case str():
            return names.get(value, value)
        case dict():
            return {name: fill(each, names) for name, each in cast("dict[str, Any]", value).items()}
        case list():
            return [fill(each, names) for each in cast("list[Any]", value)]
        case _:
            return value


def mutated(chance: random.Random, value: Any, share: float) -> Any:
    """A value in which some of the parts are hostile, or missing."""
    if chance.random() < share / 3:
        return chance.choice(VALUES)
    match value:
        case dict():
            parts = cast("dict[str, Any]", value)
            return {
                name: mutated(chance, each, share)
                for name, each in parts.items()
                if chance.random() > share / 10
            }
        case list():
            return [mutated(chance, each, share) for each in cast("list[Any]", value)]
        case _:
            return value


def line_of(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
