"""A chat bot over `gen serve`: each line of standard input is a message, each reply is printed.

    gen serve --json            (in another terminal; it prints the url and the token)
    python chat_bot.py URL TOKEN [CHAT]

Only the standard library is used, so that it can be ported to any chat system: put the name of the room in
the place of CHAT, and each room has a conversation of its own.
"""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote


class Server:
    """A running `gen serve`."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request; a body makes it a POST."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self._request(path, data)) as answer:
            return json.load(answer)

    def reply(self, chat: str, text: str) -> str:
        """Send a message to a conversation and wait for its reply."""
        sent = self.ask(f"/api/conversations/web/{quote(chat)}", {"text": text})
        while True:
            path = f"/api/tasks/{sent['sessionId']}/output?block=true&timeout=60000"
            turn = self.ask(path)
            if turn["status"] not in ("pending", "running"):
                return turn["result"] or turn["error"] or f"({turn['status']})"

    def _request(self, path: str, data: bytes | None) -> urllib.request.Request:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        return urllib.request.Request(self._url + path, data, headers)


def messages() -> Iterator[str]:
    """What people say."""
    for line in sys.stdin:
        if line.strip():
            yield line.strip()


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    server, chat = Server(sys.argv[1], sys.argv[2]), (sys.argv[3:] or ["lobby"])[0]
    try:
        for text in messages():
            print(f"> {text}\n{server.reply(chat, text)}\n", flush=True)
    except urllib.error.HTTPError as refused:
        print(f"gen serve refused: {refused.read().decode()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
