"""A small MCP server for tests, a program of its own that needs nothing but Python.

    python odd_server.py FILE

FILE is JSON and read anew for every request: `tools` is the list it offers, `page` how many at once, `manner`
how it behaves, `version` what it answers to a greeting, `log` a file that gets every message it hears.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
ECHO: Message = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {}},
}


def tell(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(number: Any, result: Message) -> None:
    tell({"id": number, "result": result})


def text(said: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": said}], **more}


def misbehave(manner: str, method: str) -> None:
    """What some servers do instead of answering."""
    if manner.startswith("waits for "):
        while not Path(manner.removeprefix("waits for ")).exists():
            time.sleep(0.01)
    if manner == "leaves" and method not in (
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ):
        sys.exit("this is no greeting")
    if manner == "dies":
        sys.exit("no such luck")
    if manner == "garbage":
        for _ in range(200):
            print("x" * 10_000, flush=True)
    if manner == "endless line":
        while True:
            sys.stdout.write("x" * 1_000_000)
    if manner == "mute":
        time.sleep(600)


def call(name: str, arguments: Message, number: Any, token: Any) -> None:
    match name:
        case "crash":
            os._exit(3)
        case "crash in the middle":
            sys.stdout.write('{"jsonrpc": "2.0", "id": ' + str(number) + ', "result": {"cont')
            sys.stdout.flush()
            os._exit(4)
        case "sleep":
            tell(
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": 1, "message": "half\x1b[31m way"},
                }
            )
        case "look":
            found = Path(arguments["message"]).read_text()
            answer(
                number,
                text(json.dumps({"cwd": str(Path.cwd()), "asked": arguments["message"], "read": found})),
            )
        case "environment":
            answer(number, text(json.dumps(dict(os.environ))))
        case "change":
            tell({"method": "notifications/tools/list_changed"})
            answer(number, text("changed"))
        case "paint":
            picture = {"type": "image", "mimeType": "image/png", "data": DOT}
            answer(number, {"content": [{"type": "text", "text": "painted"}, picture]})
        case "large":
            answer(number, text("y" * 3_000_000))
        case "refuse":
            tell({"id": number, "error": {"code": -32602, "message": "not\x07 like this"}})
        case "asks back":
            tell({"id": "a", "method": "ping"})
            tell({"id": "b", "method": "roots/list"})
            answer(number, text("asked"))
        case _:
            answer(number, text(json.dumps({"pid": os.getpid(), **arguments})))


def receive(message: Message, told: Message) -> None:
    method, number = message.get("method"), message.get("id")
    params: Message = message.get("params", {})
    meta: Message = params.get("_meta", {})
    manner = told.get("manner", "")
    if not isinstance(method, str):
        return
    misbehave(manner, method)
    match method:
        case "server/discover" if manner == "silent":
            pass
        case "server/discover" if manner == "modern":
            versions = {"supportedVersions": ["2026-07-28"], "resultType": "complete"}
            answer(number, {**versions, "capabilities": {"tools": {"listChanged": True}}})
        case "initialize" if manner != "modern":
            version = told.get("version", "2025-06-18")
            answer(number, {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}})
        case "tools/list":
            tools, page = told.get("tools", [ECHO]), told.get("page", 1_000_000)
            start = int(params.get("cursor", 0))
            following = {"nextCursor": str(start + page)} if start + page < len(tools) else {}
            following = {"nextCursor": "0"} if manner == "in circles" else following
            answer(number, {"tools": tools[start : start + page], **following})
        case "tools/call":
            call(params["name"], params["arguments"], number, meta.get("progressToken"))
        case _ if number is not None:
            tell({"id": number, "error": {"code": -32601, "message": "unknown"}})
        case _:
            pass


def main() -> None:
    file = Path(sys.argv[1])
    if json.loads(file.read_text()).get("manner") == "chatty":
        print("Starting up…\n\n{]\n[1, 2]\n", flush=True)
    for line in sys.stdin:
        told = json.loads(file.read_text())
        if "log" in told:
            with Path(told["log"]).open("a") as log:
                log.write(line)
        receive(json.loads(line), told)


if __name__ == "__main__":
    main()
