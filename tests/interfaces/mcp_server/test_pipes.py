"""Messages on two handles: whole lines, an answer to what is none, and nothing that hangs."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification

from gencode.interfaces.json_rpc import LineSplitter, OverlongLine
from gencode.interfaces.mcp_server.stdio_transport import StdioConnection

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_come_out_whole_however_they_were_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = [line.replace(b"\n", b"") for line in lines]
    content = b"".join(line + b"\n" for line in whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    taker = LineSplitter(longest=12)
    found: list[bytes | OverlongLine] = []
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        found += taker.take(content[begin:end])
    assert found + taker.rest() == [line if len(line) <= 12 else OverlongLine(line, line) for line in whole]


async def heard(content: bytes) -> tuple[list[Any], list[Any], bool]:
    """What a server hears and what it answers by itself when a client says this and goes."""
    theirs, ours = os.pipe()
    os.write(ours, content)
    os.close(ours)
    return await heard_from(theirs)


async def heard_from(theirs: int) -> tuple[list[Any], list[Any], bool]:
    gone = asyncio.Event()
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    complaints, said = anyio.create_memory_object_stream[SessionMessage](100)
    await StdioConnection(theirs, 1, gone.set, longest=100).read(to_us, complaints)
    os.close(theirs)
    async with incoming, said:
        messages = [each.message async for each in incoming if isinstance(each, SessionMessage)]
        errors = [each.message.model_dump(mode="json") async for each in said]
    return messages, errors, gone.is_set()


@pytest.mark.parametrize(
    ("line", "code", "asked"),
    [
        (b"what is this?", -32700, None),
        (b"\xff\xfe\x00", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', -32700, None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": 7}', -32600, None),
        (b"[1, 2]", -32600, None),
        (b"null", -32600, None),
        (b"[" * 90, -32700, None),
        (b"x" * 101, -32600, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 5}', -32600, 5),
        (b'{"id": 6, "method": 7}', -32600, 6),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "a", "params": {"a": "\\ud800"}}', -32700, 7),
        (b'{"jsonrpc": "2.0", "id": 8, "method": "a", "params": {"a": "' + b"x" * 99 + b'"}}', -32600, 8),
        (b'{"method": "a", "params": {"id": 1, "a": "' + b"x" * 99 + b'"}, "id": "nine"}', -32600, "nine"),
        (b'{"method": "a", "params": {"a": "' + b"x" * 99 + b'", "id": 1}}', -32600, None),
    ],
)
async def test_garbage_is_answered_and_the_next_line_is_heard(
    line: bytes, code: int, asked: str | int | None
) -> None:
    content = b"\n \r\n".join((line, json.dumps(PING).encode()))
    messages, errors, gone = await heard(content)
    assert [each.model_dump(exclude_unset=True) for each in messages] == [PING]
    assert [(each["id"], each["error"]["code"]) for each in errors] == [(asked, code)]
    assert gone


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 3, "result": {"a": "\\ud800"}}',
        b'{"jsonrpc": "2.0", "id": 3, "result": {"a": "' + b"x" * 99 + b'"}}',
    ],
)
async def test_a_broken_answer_of_the_client_is_one_that_failed(line: bytes) -> None:
    messages, errors, _ = await heard(line + b"\n")
    assert errors == []
    assert [(type(each), each.id) for each in messages] == [(JSONRPCError, 3)]


async def test_a_file_is_heard_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "asked").write_text(f"{json.dumps(PING)}\n" * 3 + "rest")
    messages, errors, gone = await heard_from(os.open(tmp_path / "asked", os.O_RDONLY))
    assert (len(messages), [each["error"]["code"] for each in errors], gone) == (3, [-32700], True)


async def test_a_message_longer_than_a_pipe_holds_is_written_whole() -> None:
    theirs, ours = os.pipe()
    outgoing, source = anyio.create_memory_object_stream[SessionMessage](0)
    writing = asyncio.create_task(StdioConnection(0, ours, lambda: None).write(source))
    reading = asyncio.create_task(asyncio.to_thread(Path(f"/dev/fd/{theirs}").read_bytes))
    text = "é" * 200_000
    async with outgoing:
        message = JSONRPCNotification(jsonrpc="2.0", method="told", params={"text": text})
        await outgoing.send(SessionMessage(message))
    await writing
    os.close(ours)
    assert json.loads(await reading)["params"] == {"text": text}
    os.close(theirs)


async def test_a_client_that_reads_no_more_is_gone() -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    gone = asyncio.Event()
    outgoing, source = anyio.create_memory_object_stream[SessionMessage](1)
    async with outgoing:
        await outgoing.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="told")))
        await StdioConnection(0, ours, gone.set).write(source)
    os.close(ours)
    assert gone.is_set()
