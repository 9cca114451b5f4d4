"""Another process on the same database: `python -m tests.stores.other_process COMMAND PATH …`.

It says `ready`, waits for a line on its standard input, does its work and says what came of it.
"""

import asyncio
import json
import resource
import sqlite3
import sys
from pathlib import Path

from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.events import MessageAdded, TaskCreated
from gencode.core.messages import UserMessage
from gencode.journal.store import TaskSignal
from gencode.stores.sqlite import SqliteStore
from gencode.stores.sqlite_schema import migrate


def wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def do_migrate(path: Path) -> None:
    wait_for_go()
    print(json.dumps(migrate(path)[:2]), flush=True)


def do_migrate_with_room_for(path: Path, size: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    wait_for_go()
    try:
        migrate(path)
    except StoreTrouble as trouble:
        print(trouble, flush=True)


def do_stay_connected(path: Path) -> None:
    """Have a database of any version open and do nothing with it."""
    connection = sqlite3.connect(path)
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    wait_for_go()
    connection.close()


async def do_open(path: Path) -> None:
    wait_for_go()
    store = await SqliteStore.open(path)
    lease = await store.create(TaskCreated(), "other")
    await store.close()
    print(lease.task, flush=True)


async def do_append(path: Path, count: int) -> None:
    store = await SqliteStore.open(path)
    wait_for_go()
    lease = await store.create(TaskCreated(), "other")
    for n in range(count):
        await store.append(lease, [MessageAdded(UserMessage(f"{n}"))])
    await store.close()
    print(lease.task, flush=True)


async def do_append_for_ever(path: Path) -> None:
    store = await SqliteStore.open(path)
    wait_for_go()
    lease = await store.create(TaskCreated(), "other")
    print(lease.task, flush=True)
    while True:
        await store.append(lease, [MessageAdded(UserMessage("one")), MessageAdded(UserMessage("two"))])
        print(lease.state.seq, flush=True)


async def do_take(path: Path, tasks: list[str], owner: str) -> None:
    store = await SqliteStore.open(path)
    wait_for_go()
    won: list[str] = []
    for task in tasks:
        try:
            won.append((await store.take(task, owner)).task)
        except UserMistake:
            continue
    await store.close()
    print(json.dumps(won), flush=True)


async def do_post(path: Path, task: str, sender: str, count: int) -> None:
    store = await SqliteStore.open(path)
    wait_for_go()
    numbers = [await store.post(task, f"{n}", sender) for n in range(count)]
    await store.close()
    print(json.dumps(numbers), flush=True)


async def do_read_letters(path: Path, count: int) -> None:
    """Own a task and take the letters to it, one at a time, until so many have come."""
    store = await SqliteStore.open(path)
    lease = await store.create(TaskCreated(), "reader")
    wait_for_go()
    print(lease.task, flush=True)
    heard: list[tuple[str, str]] = []
    while len(heard) < count:
        for letter in await store.posted_messages("reader"):
            message = UserMessage(letter.text, letter.sender, mail=letter.number)
            await store.append(lease, [MessageAdded(message)])
            heard.append((letter.sender, letter.text))
        await asyncio.sleep(0.001)
    await store.close()
    print(json.dumps(heard), flush=True)


async def do_interrupt(path: Path, task: str, count: int) -> None:
    store = await SqliteStore.open(path)
    wait_for_go()
    asked = [await store.send_signal(task, TaskSignal.INTERRUPT) for _ in range(count)]
    await store.close()
    print(json.dumps(asked), flush=True)


async def do_fill(path: Path, size: int) -> None:
    """Append until the file system gives no more, then go on when there is room again."""
    store = await SqliteStore.open(path)
    lease = await store.create(TaskCreated(), "other")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    said = ""
    while not said:
        try:
            await store.append(lease, [MessageAdded(UserMessage("x" * 10_000))])
        except StoreTrouble as trouble:
            said = str(trouble)
    full = lease.state.seq
    readable = len(await store.events(lease.task))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await store.append(lease, [MessageAdded(UserMessage("room again"))])
    await store.close()
    told = {"task": lease.task, "said": said, "full": full, "readable": readable, "last": lease.state.seq}
    print(json.dumps(told), flush=True)


def main(command: str, path: Path, *rest: str) -> None:
    match command:
        case "migrate":
            do_migrate(path)
        case "migrate-with-room-for":
            do_migrate_with_room_for(path, int(rest[0]))
        case "stay-connected":
            do_stay_connected(path)
        case "open":
            asyncio.run(do_open(path))
        case "append":
            asyncio.run(do_append(path, int(rest[0])))
        case "append-for-ever":
            asyncio.run(do_append_for_ever(path))
        case "take":
            asyncio.run(do_take(path, json.loads(rest[0]), rest[1]))
        case "post":
            asyncio.run(do_post(path, rest[0], rest[1], int(rest[2])))
        case "read-letters":
            asyncio.run(do_read_letters(path, int(rest[0])))
        case "interrupt":
            asyncio.run(do_interrupt(path, rest[0], int(rest[1])))
        case "fill":
            asyncio.run(do_fill(path, int(rest[0])))
        case _:
            sys.exit(f"{command} is not a command")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
