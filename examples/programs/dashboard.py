"""A dashboard over events: what every agent of a `gen serve` does at this moment, in a terminal.

    gen serve --json            (in another terminal; it prints the url and the token)
    python dashboard.py URL TOKEN [--once]

It reads one stream of server-sent events with `states=true`: the server sends the state of each task that
changed, so nothing has to be computed from events here. Only the standard library is used.
"""

import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

MARKS = {"completed": "✓", "running": "●", "pending": "…"}
MOST = 20


def get(url: str, token: str) -> urllib.request.Request:
    return urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})


def states(url: str, token: str, cursor: str) -> Iterator[dict[str, Any]]:
    """The states of tasks as they change."""
    request = get(f"{url}/api/stream?states=true", token)
    request.add_header("Last-Event-ID", cursor)
    with urllib.request.urlopen(request) as stream:
        for line in stream:
            if line.startswith(b"data:"):
                event = json.loads(line[5:])
                if event.get("type") == "TaskState":
                    yield event["state"]


def shown(known: dict[str, dict[str, Any]]) -> str:
    """The table: the newest tasks first, each below its parent's name."""
    lines: list[str] = []
    for each in sorted(known.values(), key=lambda state: state["createdAt"], reverse=True)[:MOST]:
        mark = MARKS.get(each["status"], "✗")
        step = (each["step"] or "").replace("\n", " ")
        lines.append(
            f"{mark} {each['agent']:<16.16} {each['turns']:>3} turns  {each['title']:<30.30}  {step:.40}"
        )
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    url, token = sys.argv[1].rstrip("/"), sys.argv[2]
    with urllib.request.urlopen(get(f"{url}/api/states?all=true", token)) as answer:
        start = json.load(answer)
    known: dict[str, dict[str, Any]] = {each["agentId"]: each for each in start["states"]}
    print(shown(known), flush=True)
    if "--once" in sys.argv:
        return 0
    for state in states(url, token, start["cursor"]):
        known[state["agentId"]] = state
        print(f"\033[H\033[2J{shown(known)}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
