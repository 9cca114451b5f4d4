"""The process itself: nothing but the protocol on stdout, garbage answered, and no package, no fault."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gencode.core.extras import installing
from gencode.interfaces.acp.stdio_transport import LONGEST_LINE, parse_line
from tests.interfaces.acp.driving import SECONDS, begun, ended
from tests.interfaces.cli.running import gen, script

HELLO = '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}'
GARBAGE = (
    (b"this is no JSON\n", -32_700),
    (b"\xff\xfe\x00\n", -32_700),
    (b"[" * 100_000 + b"\n", -32_700),
    (b"[1, 2]\n", -32_600),
    (b'"text"\n', -32_600),
    (b'{"jsonrpc": "2.0", "id": [1], "method": "initialize"}\n', -32_600),
    (b'{"jsonrpc": "2.0", "id": 7, "method": {"a": 1}}\n', -32_600),
    (b'{"jsonrpc": "2.0", "id": 8, "method": "initialize", "params": [1]}\n', -32_600),
    (b'{"jsonrpc": "2.0", "id": 9}\n', -32_600),
    (b'{"jsonrpc": "2.0", "id": 10, "method": "no/such"}\n', -32_601),
    (b'{"jsonrpc": "2.0", "id": 11, "method": "session/new", "params": {"cwd": 5}}\n', -32_602),
    (b'{"jsonrpc": "2.0", "id": 12, "method": "session/load", "params": {"cwd": "x"}}\n', -32_602),
    (b"x" * (LONGEST_LINE + 100) + b"\n", -32_700),
)
UNANSWERED = (
    b"\n",
    b'{"jsonrpc": "2.0", "id": 99, "result": {}}\n',
    b'{"jsonrpc": "2.0", "id": 99, "error": "odd"}\n',
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "?"}}\n',
    b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nobody"}}\n',
    b'{"jsonrpc": "2.0", "method": "no/such"}\n',
)


async def answer(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next line of stdout, which is JSON whatever happens."""
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        return json.loads(await process.stdout.readline())


PRINTS = """\
import os, sys
print("on stdout, from a command")
sys.stdout.flush()
os.write(1, b"more of it")
"""


async def test_garbage_is_answered_and_only_the_protocol_reaches_stdout(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(PRINTS)
    call = {"name": "Bash", "input": {"command": f"{sys.executable} noisy.py"}}
    model = script(tmp_path, main=[{"calls": [call]}, {"text": "\u2028 said \x00"}])
    process = await begun(tmp_path, "--model", model, "--permission-mode", "dontAsk", "--verbose")
    assert process.stdin is not None
    assert process.stdout is not None
    for line, code in GARBAGE:
        process.stdin.write(line)
        await process.stdin.drain()
        assert (await answer(process))["error"]["code"] == code, line[:80]
    for line in UNANSWERED:
        process.stdin.write(line)
    told = await asked(process, 1, "initialize", protocolVersion=1)
    assert (told[-1]["protocolVersion"], told[-1]["agentInfo"]["name"]) == (1, "gencode")
    session = (await asked(process, 2, "session/new", cwd=str(tmp_path), mcpServers=[]))[-1]["sessionId"]
    said = [{"type": "text", "text": "Go."}]
    *updates, ending = await asked(process, 3, "session/prompt", sessionId=session, prompt=said)
    assert ending == {"stopReason": "end_turn"}
    assert "on stdout, from a command" in str(updates)
    words = [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(words).endswith("\\u2028 said \\x00")
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 4, "meth')
    assert await ended(process) == 0
    left = (await process.stdout.read()).splitlines()
    assert [json.loads(line)["error"]["code"] for line in left] == [-32_700]


async def asked(
    process: asyncio.subprocess.Process, number: int, method: str, **params: Any
) -> list[dict[str, Any]]:
    """The updates that come before the answer, and then the answer."""
    assert process.stdin is not None
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    found: list[dict[str, Any]] = []
    while True:
        message = await answer(process)
        if "result" in message:
            assert message["id"] == number
            return [*found, message["result"]]
        assert message["method"] == "session/update"
        found.append(message["params"]["update"])


def test_a_file_instead_of_an_editor_is_answered_and_ends(tmp_path: Path) -> None:
    told = gen("acp", cwd=tmp_path, piped=f"{HELLO}\n")
    assert (told.code, told.json["result"]["protocolVersion"]) == (0, 1)
    assert gen("acp", "--cwd", ".", cwd=tmp_path).code == 2


def test_without_the_package_a_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['acp'] = None\n")
    told = gen("acp", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (told.code, told.out) == (2, "")
    assert told.err == (f"gen: gen acp needs agent-client-protocol. Install it with: {installing('acp')}\n")


@given(
    st.binary(max_size=200)
    | st.from_regex(rb'\{"(id|method|result|error|params)": ?[0-9a-z\[\]{}",: ]{0,40}\}')
)
def test_every_line_becomes_a_message_or_a_fault(line: bytes) -> None:
    found = parse_line(line)
    if found is not None and "fault" in found:
        assert found["fault"]["error"]["code"] in (-32_700, -32_600)
    elif found is not None:
        assert isinstance(found.get("id"), str | int | float | None)
        assert isinstance(found.get("method", ""), str)
