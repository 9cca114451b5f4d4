"""One server over its life: how it is greeted, how it answers, how it is lost and comes back."""

import asyncio
import json
import os
import signal
import sys

import pytest

from gencode import __version__
from gencode.agent.toolbox import ToolOutput
from gencode.core.errors import ToolError
from gencode.core.spec import AgentSpec, ToolChoice
from gencode.mcp import client, server, stdio
from gencode.mcp.definition import servers_from_settings
from gencode.mcp.servers import McpServers
from gencode.mcp.transport import BUG
from tests.mcp.fleet import PLENTY, Fleet, box, offer
from tests.sandbox.processes.living import alive, eventually, new_word


def state(servers: McpServers, name: str = "odd") -> tuple[str, str]:
    """How a server stands, and why."""
    found = next(each for each in servers.status() if each.name == name)
    return found.state, found.why


@pytest.mark.parametrize(
    ("manner", "version", "agreed"),
    [
        ("", "2025-11-25", "2025-11-25"),
        ("", "2025-06-18", "2025-06-18"),
        ("", "2025-03-26", "2025-03-26"),
        ("", "2024-11-05", "2024-11-05"),
        ("modern", "", "2026-07-28"),
        ("chatty", "2024-11-05", "2024-11-05"),
    ],
)
async def test_every_version_is_spoken(fleet: Fleet, manner: str, version: str, agreed: str) -> None:
    servers = await fleet.open(odd=fleet.odd(manner=manner, version=version, tools=offer("echo")))
    assert [(each.state, each.version, each.tools) for each in servers.status()] == [
        ("ready", agreed, ("echo",))
    ]
    output = await fleet.use(box(servers)["mcp__odd__echo"], message="hi")
    assert json.loads(output.text)["message"] == "hi"


async def test_a_server_that_is_silent_about_what_it_does_not_know_is_greeted_anyway(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SILENCE_SECONDS", 0.1)
    servers = await fleet.open(odd=fleet.odd(manner="silent"))
    assert state(servers) == ("ready", "")


async def test_a_server_that_leaves_when_it_is_not_greeted_first_is_greeted_the_next_time(
    fleet: Fleet,
) -> None:
    servers = await fleet.open(odd=fleet.odd(manner="leaves", tools=offer("echo")))
    assert state(servers) == ("ready", "")
    assert [message["method"] for message in fleet.heard()][:3] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
    ]


@pytest.mark.parametrize("manner", ["", "modern"])
async def test_a_server_is_told_our_name_and_version(fleet: Fleet, manner: str) -> None:
    await fleet.open(odd=fleet.odd(manner=manner))
    params = [message["params"] for message in fleet.heard() if "params" in message]
    key = "io.modelcontextprotocol/clientInfo"
    told = [each.get("clientInfo") or each.get("_meta", {}).get(key) for each in params]
    assert {"name": "gencode", "version": __version__} in told
    assert {"name": "gencode", "version": "1"} not in told


async def test_all_agents_share_one_process(fleet: Fleet) -> None:
    servers = await fleet.open(odd=fleet.odd(tools=offer("echo")))
    definition = {"odd": fleet.odd(tools=offer("echo"))}
    specs = [
        AgentSpec("a", ""),
        AgentSpec("b", "", mcp_servers=("odd",)),
        AgentSpec("c", "", mcp_servers=(definition,)),
    ]
    outputs = [await fleet.use(box(servers, spec)["mcp__odd__echo"]) for spec in specs]
    assert len({json.loads(output.text)["pid"] for output in outputs}) == 1


async def test_a_server_of_one_agent_is_only_there_for_it(fleet: Fleet) -> None:
    servers = await fleet.open()
    spec = AgentSpec("own", "", mcp_servers=({"odd": fleet.odd(tools=offer("echo"))},))
    assert box(servers, spec) == {}
    await servers.ready(PLENTY, spec)
    assert list(box(servers, spec)) == ["mcp__odd__echo"]
    assert box(servers) == {}
    assert box(servers, AgentSpec("other", "")) == {}


async def test_a_call_that_kills_its_server_is_an_error_and_the_server_comes_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FIRST_PAUSE", 0.01)
    tools = offer("crash", "crash in the middle", "echo", "sleep")
    servers = await fleet.open(odd=fleet.odd(tools=tools))
    tool = box(servers)
    beside = asyncio.create_task(fleet.use(tool["mcp__odd__sleep"]))
    with pytest.raises(ToolError, match=r"odd disconnected during the call: it exited \(Exit code 3\)"):
        await fleet.use(tool["mcp__odd__crash"])
    with pytest.raises(ToolError, match="disconnected during the call"):
        await beside
    assert await eventually(lambda: state(servers)[0] == "ready")
    with pytest.raises(ToolError, match=r"Exit code 4.*The call may or may not have completed"):
        await fleet.use(tool["mcp__odd__crash_in_the_middle"])
    assert await eventually(lambda: state(servers)[0] == "ready")
    assert json.loads((await fleet.use(tool["mcp__odd__echo"], message="again")).text)["message"] == "again"


async def test_servers_are_started_side_by_side(fleet: Fleet) -> None:
    one = fleet.odd("one", manner=f"waits for {fleet.log('two')}")
    two = fleet.odd("two", manner=f"waits for {fleet.log('one')}")
    servers = await fleet.open(one=one, two=two)
    assert [each.state for each in servers.status()] == ["ready", "ready"]


async def test_nobody_waits_for_a_slow_server_longer_than_they_want(fleet: Fleet) -> None:
    servers = McpServers(
        fleet.home, fleet.folder, servers_from_settings({"odd": fleet.odd(manner="mute")}, "", users=True)
    )
    servers.start()
    await servers.ready(0.01)
    assert state(servers) == ("starting", "")
    assert servers.tools() == []
    await servers.close()


async def test_an_agent_that_gets_no_tools_of_a_server_does_not_wait_for_it(fleet: Fleet) -> None:
    opens = fleet.folder / "opens"
    definitions = servers_from_settings(
        {"odd": fleet.odd(manner=f"waits for {opens}")}, "settings.toml", users=True
    )
    servers = McpServers(fleet.home, fleet.folder, definitions)
    servers.start()
    others = [ToolChoice(("Read",)), ToolChoice(("mcp__other__*",)), ToolChoice(deny=("mcp__odd",))]
    async with asyncio.timeout(PLENTY):
        for tools in others:
            await servers.ready(PLENTY * 10, AgentSpec("x", "", tools=tools))
    assert state(servers) == ("starting", "")
    opens.touch()
    named = AgentSpec("x", "", tools=ToolChoice(("Read",)), mcp_servers=("odd",))
    await servers.ready(PLENTY, named)
    assert state(servers) == ("ready", "")
    await servers.close()


async def test_while_a_server_is_down_its_tools_say_so_at_once(fleet: Fleet) -> None:
    servers = await fleet.open(odd=fleet.odd(tools=offer("echo")))
    tool = box(servers)["mcp__odd__echo"]
    first = json.loads((await fleet.use(tool)).text)["pid"]
    os.kill(first, signal.SIGKILL)
    assert await eventually(lambda: state(servers)[0] == "down")
    with pytest.raises(
        ToolError, match=r"odd is not available: it exited \(Ended by signal 9.*will be restarted"
    ):
        await fleet.use(tool)


async def test_a_server_that_never_holds_is_left_alone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(server, "MOST_FAILURES", 3)
    servers = await fleet.open(odd=fleet.odd(manner="dies"))
    assert await eventually(lambda: state(servers)[0] == "failed")
    assert state(servers) == ("failed", "it exited (Exit code 1), and its last output was: 'no such luck'")
    assert len(fleet.heard()) == 3


async def test_what_cannot_be_started_is_not_tried_again(fleet: Fleet) -> None:
    servers = await fleet.open(
        missing={"command": "no-such-program-here"},
        nowhere={"command": "true", "cwd": "/no/such/folder"},
        unset={"command": "true", "args": ["${NO_SUCH_VARIABLE}"]},
        off={"command": "true", "disabled": True},
    )
    assert {each.name: (each.state, each.why) for each in servers.status()} == {
        "missing": ("failed", "the program 'no-such-program-here' is not installed"),
        "nowhere": ("failed", "Cannot run commands in /no/such/folder: No such file or directory."),
        "unset": (
            "failed",
            "The MCP server unset needs the variable NO_SUCH_VARIABLE, which is not set; "
            "set it, or write ${NO_SUCH_VARIABLE:-default}.",
        ),
        "off": ("off", ""),
    }


async def test_a_call_that_is_cancelled_tells_the_server(fleet: Fleet) -> None:
    servers = await fleet.open(odd=fleet.odd(tools=offer("sleep", "echo")))
    tool = box(servers)
    asking = asyncio.create_task(fleet.use(tool["mcp__odd__sleep"]))
    await eventually(lambda: fleet.desk.told)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await fleet.use(tool["mcp__odd__echo"])
    called = next(message for message in fleet.heard() if message["method"] == "tools/call")
    cancelled = [message for message in fleet.heard() if message["method"] == "notifications/cancelled"]
    assert [message["params"]["requestId"] for message in cancelled] == [called["id"]]
    assert fleet.desk.told == ["odd: half[31m way"]


async def test_questions_of_a_server_are_answered(fleet: Fleet) -> None:
    servers = await fleet.open(odd=fleet.odd(tools=offer("asks back")))
    assert await fleet.use(box(servers)["mcp__odd__asks_back"]) == ToolOutput("asked", foreign=True)
    log = [json.loads(line) for line in fleet.log().read_text().splitlines()]
    answers = {message["id"]: message for message in log if "method" not in message}
    assert await eventually(lambda: len(fleet.heard()) > len(log) or answers.keys() == {"a", "b"})
    answers = {message["id"]: message for message in fleet.heard() if "method" not in message}
    assert answers["a"] == {"jsonrpc": "2.0", "id": "a", "result": {}}
    assert answers["b"]["error"]["code"] == -32601


async def test_tools_that_come_later_are_there_when_asked_next(fleet: Fleet) -> None:
    servers = await fleet.open(odd=fleet.odd(tools=offer("change")))
    change = box(servers)["mcp__odd__change"]
    fleet.tell(tools=offer("change", "later"))
    await fleet.use(change)
    assert await eventually(lambda: "mcp__odd__later" in box(servers))


async def test_a_server_gets_a_small_base_and_what_is_named_of_our_environment(fleet: Fleet) -> None:
    ours = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/ada",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef",
        "SECRET_TOKEN": "s3cr3t",
        "OTHER": "x",
    }
    url = "postgres://ada:" + "pw@db.example.org/x"
    given = {"MY_TOKEN": "${SECRET_TOKEN}", "PLAIN": "p", "DATABASE_URL": url}
    table = {**fleet.odd(tools=offer("environment")), "env": given}
    servers = await fleet.open(ours, odd=table)
    seen = json.loads((await fleet.use(box(servers)["mcp__odd__environment"])).text)
    assert {
        name: value for name, value in seen.items() if name not in ("PWD", "GENCODE_KEEPER", "_", "OLDPWD")
    } == {
        "PATH": os.environ["PATH"],
        "HOME": "/home/ada",
        "LC_ALL": "C",
        "LC_GENCODE_MCP": "1",
        "MY_TOKEN": "s3cr3t",
        "PLAIN": "p",
        "DATABASE_URL": url,
    }


async def test_a_bug_in_the_connection_is_logged_and_the_server_has_failed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: client.McpClient) -> None:
        raise KeyError("boom")

    monkeypatch.setattr(server, "list_tools", broken)
    servers = await fleet.open(odd=fleet.odd())
    assert state(servers) == ("failed", BUG)
    assert "KeyError: 'boom'" in caplog.text


async def test_a_bug_in_the_reading_of_a_server_is_logged_and_the_connection_is_lost(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: bytes) -> None:
        raise KeyError("boom")

    monkeypatch.setattr(stdio, "decoded", broken)
    servers = await fleet.open(odd=fleet.odd())
    assert state(servers)[1] == BUG
    assert "KeyError: 'boom'" in caplog.text


KILLED = """
import asyncio, json, sys
from pathlib import Path
from gencode.mcp.definition import servers_from_settings
from gencode.mcp.servers import McpServers

async def main():
    definitions = servers_from_settings(json.loads(sys.argv[2]), "", users=True)
    servers = McpServers(Path(sys.argv[1]), Path("/"), definitions)
    servers.start()
    await servers.ready(60)
    print([each.state for each in servers.status()], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_nothing_of_a_server_is_left_when_our_process_is_killed(fleet: Fleet) -> None:
    word = new_word()
    table = fleet.odd()
    given = json.dumps({"odd": {**table, "args": [*table["args"], word]}})
    command = (sys.executable, "-c", KILLED, str(fleet.home), given)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"['ready']\n"
    process.kill()
    await process.communicate()
    assert await eventually(lambda: not alive(word))


async def test_nothing_of_a_server_is_left_when_the_session_ends(fleet: Fleet) -> None:
    word = new_word()
    script = f"trap '' TERM; (setsid sleep 300; : {word}) & cat >/dev/null; sleep 300; : {word}"
    await fleet.open(
        hostile={"command": "bash", "args": ["-c", script, word], "startup_seconds": 0.3},
        odd=fleet.odd(word=word),
    )
    await fleet.close()
    assert alive(word) == []
