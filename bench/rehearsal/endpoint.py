"""An endpoint of OpenAI's Chat Completions on 127.0.0.1 that records every request and replies from files.

Request 7 of a folder is written to `requests/007.json`; its reply is `replies/007.json`:

    {"text": "I look.", "calls": [{"name": "Read", "arguments": {"file_path": "a.py"}}]}

Where it does not exist yet the endpoint waits for it, so that a person can write it, or asks a real model.
"""

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

JSON = dict[str, Any]
Reply = Callable[[int, JSON], JSON]
"""Gives the reply to the request of a number."""


class RealModel(NamedTuple):
    """A real model that writes the replies; `url` is the base address of its API."""

    url: str
    name: str
    key: str = ""

    def __call__(self, number: int, request: JSON) -> JSON:
        """The reply of the model, as it is kept in a file."""
        del number
        body = json.dumps({**_without_stream(request), "model": self.name}).encode()
        head = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        asked = urllib.request.Request(f"{self.url}/chat/completions", body, head)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=600) as answer:  # noqa: S310
            message = json.load(answer)["choices"][0]["message"]
        calls = [each["function"] for each in message.get("tool_calls") or ()]
        return {
            "text": message.get("content") or "",
            "calls": [
                {"name": each["name"], "arguments": json.loads(each["arguments"] or "{}")} for each in calls
            ],
        }


def _without_stream(request: JSON) -> JSON:
    return {key: value for key, value in request.items() if not key.startswith("stream")}


class WrittenReplies(NamedTuple):
    """Replies in files, by the number of the request; a missing one is written by `author`, or waited for."""

    folder: Path
    author: Reply | None = None

    def __call__(self, number: int, request: JSON) -> JSON:
        """The reply to a request."""
        path = self.folder / "replies" / f"{number:03}.json"
        if not path.exists() and self.author is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.author(number, request), indent=1, ensure_ascii=False) + "\n")
        if not path.exists():
            print(f"Write the reply to {path}", flush=True)
        while not path.exists():
            time.sleep(0.2)
        return json.loads(path.read_text())


class Recorder:
    """The requests that have come, in order; those of a folder are written there as they come."""

    def __init__(self, reply: Reply, folder: Path | None = None) -> None:
        self.requests: list[JSON] = []
        self._reply = reply
        self._folder = folder
        self._lock = threading.Lock()

    def answer(self, raw: bytes) -> tuple[int, JSON, bool]:
        """The number of a request, its reply, and whether it asks for a stream."""
        request: JSON = json.loads(raw)
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        if self._folder is not None:
            path = self._folder / "requests" / f"{number:03}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(request, indent=1, ensure_ascii=False) + "\n")
        return number, self._reply(number, request), bool(request.get("stream"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        number, reply, streams = cast("_Server", self.server).recorder.answer(raw)
        message = message_of(int(reply.get("number", number)), reply)
        used = {"prompt_tokens": len(raw) // 4, "completion_tokens": 20, "total_tokens": len(raw) // 4 + 20}
        body = _streamed(message, used) if streams else _whole(message, used)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, recorder: Recorder) -> None:
        self.recorder = recorder
        super().__init__(("127.0.0.1", port), _Handler)


def message_of(number: int, reply: Mapping[str, Any]) -> JSON:
    """A reply as a message; the ids of its calls say which reply it is."""
    message: JSON = {"role": "assistant", "content": reply.get("text") or None}
    calls = [
        {
            "id": f"call_{number:03}_{place}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call.get("arguments", {}))},
        }
        for place, call in enumerate(reply.get("calls", ()))
    ]
    return {**message, "tool_calls": calls} if calls else message


def _choice(message: JSON) -> JSON:
    return {"index": 0, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}


def _whole(message: JSON, used: JSON) -> bytes:
    choice = {**_choice(message), "message": message}
    return json.dumps(
        {"id": "r", "object": "chat.completion", "model": "rehearsal", "choices": [choice], "usage": used}
    ).encode()


def _streamed(message: JSON, used: JSON) -> bytes:
    calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls", ()))]
    delta = {**message, "tool_calls": calls} if calls else message
    head = {"id": "r", "object": "chat.completion.chunk", "model": "rehearsal"}
    chunks: list[JSON] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{**_choice(message), "delta": {}}]},
        {**head, "choices": [], "usage": used},
    ]
    return b"".join(b"data: %b\n\n" % each for each in (*(json.dumps(c).encode() for c in chunks), b"[DONE]"))


@contextmanager
def endpoint(recorder: Recorder, port: int = 0):
    """Serve a recorder; gives the base address of the API."""
    server = _Server(port, recorder)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def environment(home: Path, url: str) -> dict[str, str]:
    """The environment of a GenCode that talks to the endpoint and sees nothing of the user's."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
    own = {"HOME": str(home), "GEN_HOME": str(home / ".gen"), "TERM": "dumb"}
    return {**kept, **own, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-rehearsal"}
