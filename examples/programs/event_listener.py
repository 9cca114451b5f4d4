"""A listener of the journal: every finished task of every process becomes a line of a CSV file, once.

    python event_listener.py tasks.csv [--follow]

It reads the log of all events in the order in which they were committed, and keeps its place in a file beside
the CSV. So it may be stopped and started at any time: it misses nothing and writes nothing twice.
"""

import asyncio
import csv
import json
import sys
from pathlib import Path

from gencode import Event, GenCode, TaskEnded
from gencode.journal.global_log import LogPosition

COLUMNS = ("ended", "task", "agent", "status", "tokens", "usd")


def load_place(file: Path) -> LogPosition | None:
    """Where the last run stopped."""
    return LogPosition(*json.loads(file.read_text())) if file.exists() else None


async def row(gen: GenCode, event: Event) -> list[object]:
    """One finished task."""
    outcome = await gen.get(event.task)
    usage = outcome.usage
    tokens = usage.tree.input_tokens + usage.tree.output_tokens
    return [event.at, outcome.agent_id, outcome.agent, outcome.status, tokens, usage.tree.usd]


async def main(target: Path, follow: bool) -> None:
    """Write what is new; with `follow` wait for more."""
    kept = target.with_suffix(".place")
    async with GenCode.open(model="offline") as gen:
        with target.open("a", newline="") as file:
            table = csv.writer(file)
            if file.tell() == 0:
                table.writerow(COLUMNS)
            place = load_place(kept)
            while True:
                seen = gen.history.changes.count
                entries = await gen.history.log.after(place) or []
                for entry in entries:
                    if entry.event is not None and isinstance(entry.event.fact, TaskEnded):
                        table.writerow(await row(gen, entry.event))
                    place = entry.mark
                file.flush()
                if place is not None:
                    kept.write_text(json.dumps(place))
                if not entries:
                    if not follow:
                        return
                    await gen.history.changes.after(seen)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1]), "--follow" in sys.argv))
