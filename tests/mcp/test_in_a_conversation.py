"""Tools of servers in the hands of an agent: the whole way from a model's call to the program and back."""

import pytest

from gencode import GenCode
from gencode.app import components
from gencode.core.messages import ToolMessage
from gencode.core.questions import Answer, Question
from gencode.core.task import transcript_of
from gencode.mcp.approvals import ServerApprovals
from gencode.mcp.definition import servers_from_settings
from gencode.mcp.server import McpServer
from gencode.mcp.server_tool import ServerToolFactory
from gencode.mcp.servers import McpServers
from gencode.mcp.session_servers import ServerReport
from gencode.mcp.tool_list import parse_tool
from gencode.providers.scripted import ScriptedProvider
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says
from tests.mcp.fleet import Fleet, offer
from tests.sandbox.processes.living import eventually

DO_ONE = says("", call("mcp__odd__one"))


class Person:
    """Says yes or no to everything, and keeps the questions."""

    def __init__(self, allow: bool) -> None:
        self.allow = allow
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(self.allow)


async def told(
    fleet: Fleet, servers: McpServers, person: Person | None, *turns: dict[str, object], mode: str = "default"
) -> list[tuple[str, bool]]:
    """The results of the calls of a conversation, each with whether it was an error."""
    provider = ScriptedProvider.of({"main": [*turns, says("done")]})
    tools = servers.tools()
    opened = GenCode.open(
        fleet.folder,
        model=provider,
        tools=tools,
        store=MemoryStore(),
        asker=person,
        settings={"permission_mode": mode},
    )
    async with opened as gen:
        outcome = await gen.ask("go").outcome()
        transcript = transcript_of(await gen.history.events(outcome.agent_id))
    answers = [message for message in transcript if isinstance(message, ToolMessage)]
    return [(result.text, result.error) for message in answers for result in message.results]


def calls(fleet: Fleet) -> int:
    """How many calls have reached the server."""
    return sum(message.get("method") == "tools/call" for message in fleet.heard())


async def test_a_person_is_asked_once_and_sees_who_would_run(fleet: Fleet) -> None:
    servers, person = await fleet.open(odd=fleet.odd(tools=offer("one"))), Person(True)
    found = await told(fleet, servers, person, DO_ONE, DO_ONE)
    assert [error for _, error in found] == [False, False]
    (question,) = person.questions
    assert question.preview.startswith("The MCP server odd (settings.toml)\n  started by ")
    assert calls(fleet) == 2


async def test_a_server_all_of_whose_tools_are_denied_is_not_started(fleet: Fleet) -> None:
    table = {"odd": fleet.odd(tools=offer("one")), "other": fleet.odd("other", tools=offer("one"))}
    denied = {"mcp_servers": table, "deny": ["mcp__odd", "mcp__other__one"]}
    model = ScriptedProvider.of({"main": [DO_ONE, says("done")]})
    async with GenCode.open(fleet.folder, model=model, store=MemoryStore(), settings=denied) as gen:
        outcome = await gen.ask("go").outcome()
        [_, _, answered, _] = transcript_of(await gen.history.events(outcome.agent_id))
        assert await eventually(lambda: gen.mcp_servers.status()[1].state == "ready")
        seen = [(each.name, each.state, each.why) for each in gen.mcp_servers.status()]
    assert isinstance(answered, ToolMessage)
    assert answered.results[0].text.startswith("There is no tool 'mcp__odd__one'")
    why = "the rule deny mcp__odd(*) denies all of its tools"
    assert seen == [("odd", "off", why), ("other", "ready", "")]
    assert not fleet.log("odd").exists()


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("waits for nothing that ever is", "odd is still starting"),
        ("dies", "odd does not work: it exited (Exit code 1), and its last output was: 'no such luck'"),
    ],
)
async def test_a_call_of_a_tool_whose_server_is_not_ready_is_told_why(
    fleet: Fleet, manner: str, said: str
) -> None:
    table = {"odd": fleet.odd(tools=offer("one"), manner=manner)}
    settings = {"mcp_servers": table, "permission_mode": "dontAsk"}
    model = ScriptedProvider.of({"main": [DO_ONE, says("done")]})
    async with GenCode.open(fleet.folder, model=model, store=MemoryStore(), settings=settings) as gen:
        components(gen).mcp_servers.wait_at_most(0.0 if manner.startswith("waits") else None)
        outcome = await gen.ask("go").outcome()
        [_, _, answered, _] = transcript_of(await gen.history.events(outcome.agent_id))
    assert isinstance(answered, ToolMessage)
    assert said in answered.results[0].text


async def test_an_agent_waits_until_its_server_was_tried(fleet: Fleet) -> None:
    """One that leaves when it is not greeted first is greeted again within the same try."""
    table = {"odd": fleet.odd(tools=offer("one"), manner="leaves")}
    settings = {"mcp_servers": table, "permission_mode": "dontAsk"}
    model = ScriptedProvider.of({"main": [DO_ONE, says("done")]})
    async with GenCode.open(fleet.folder, model=model, store=MemoryStore(), settings=settings) as gen:
        outcome = await gen.ask("go").outcome()
        [_, _, answered, _] = transcript_of(await gen.history.events(outcome.agent_id))
        assert gen.mcp_servers.reports() == [ServerReport("odd", "ready")]
    assert isinstance(answered, ToolMessage)
    assert not answered.results[0].error


async def test_where_nobody_can_be_asked_nothing_is_used(fleet: Fleet) -> None:
    servers = await fleet.open(odd=fleet.odd(tools=offer("one")))
    ((text, error),) = await told(fleet, servers, None, DO_ONE)
    assert error and "nobody can approve it in this run" in text
    assert calls(fleet) == 0


async def test_a_changed_tool_is_not_used_without_a_yes_whatever_the_mode(fleet: Fleet) -> None:
    table = fleet.odd(tools=offer("one"))
    before = await fleet.open(odd=table)
    assert [error for _, error in await told(fleet, before, None, DO_ONE, mode="dontAsk")] == [False]
    await before.close()
    fleet.tell(tools=offer("one", description="Something else."))
    servers = await fleet.open(odd=table)
    ((_, error),) = await told(fleet, servers, None, DO_ONE, mode="dontAsk")
    assert error
    ((_, error),) = await told(fleet, servers, Person(False), DO_ONE)
    assert error
    assert calls(fleet) == 1
    person = Person(True)
    assert [error for _, error in await told(fleet, servers, person, DO_ONE)] == [False]
    assert person.questions[0].preview.startswith(
        "one of the MCP server odd has changed since the server was approved."
    )
    assert [error for _, error in await told(fleet, servers, None, DO_ONE, mode="dontAsk")] == [False]


async def test_a_call_that_takes_too_long_is_ended_and_the_server_told(fleet: Fleet) -> None:
    table = {**fleet.odd(tools=offer("sleep")), "call_seconds": 0.2}
    servers = await fleet.open(odd=table)
    found = await told(fleet, servers, None, says("", call("mcp__odd__sleep")), mode="dontAsk")
    assert found == [("mcp__odd__sleep did not finish in time and was stopped.", True)]
    assert await eventually(lambda: "notifications/cancelled" in [each["method"] for each in fleet.heard()])


async def test_bad_arguments_are_told_and_reach_nobody(fleet: Fleet) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    servers = await fleet.open(odd=fleet.odd(tools=offer("one", inputSchema=schema)))
    found = await told(fleet, servers, None, DO_ONE, mode="dontAsk")
    assert found == [("mcp__odd__one: a is required. It takes a.", True)]
    assert calls(fleet) == 0


async def test_only_a_server_that_is_a_program_here_is_taken_to_share_the_files(fleet: Fleet) -> None:
    """In a copy of a folder its arguments get the names of the copy; what is far away has other files."""
    servers = await fleet.open(odd=fleet.odd(tools=offer("one")))
    (near,) = servers.tools()
    table = {"far": {"url": "http://127.0.0.1:9/mcp"}}
    (definition,) = servers_from_settings(table, "settings.toml", users=True)
    server = McpServer(definition, fleet.folder, {}, lambda _: CommandRunner(fleet.home / "state"))
    one = parse_tool(offer("one")[0])
    far = ServerToolFactory(ServerApprovals(fleet.home)).tool(server, one, "mcp__far__one", reads=False)
    assert (near.local, far.local) == (True, False)


async def test_large_servers_are_deferred_and_their_tools_are_found_and_called(fleet: Fleet) -> None:
    names = [f"thing_{number}" for number in range(40)]
    offered = [{**each, "description": f"Do {each['name']}. {'More. ' * 60}"} for each in offer(*names)]
    table = {"odd": fleet.odd(tools=offered)}
    turns = [
        says("", call("ToolSearch", query="thing_7")),
        says("", call("ToolUse", name="mcp__odd__thing_7", arguments={"message": "hi"})),
        says("done"),
    ]
    heard = Overhearing(ScriptedProvider.of({"main": turns}))
    person = Person(allow=True)
    settings = {"mcp_servers": table}
    opened = GenCode.open(fleet.folder, model=heard, store=MemoryStore(), asker=person, settings=settings)
    async with opened as gen:
        outcome = await gen.ask("go").outcome()
        transcript = transcript_of(await gen.history.events(outcome.agent_id))
    tools = [[each.name for each in request.tools] for request in heard.requests]
    assert tools[0] == tools[1] == tools[2]
    assert [name for name in tools[0] if name.startswith(("mcp__", "Tool"))] == ["ToolSearch", "ToolUse"]
    found, used = [each.results[0] for each in transcript if isinstance(each, ToolMessage)]
    assert found.text.startswith("mcp__odd__thing_7: [MCP server odd] Do thing_7.") and not found.error
    assert (used.name, used.error) == ("mcp__odd__thing_7", False)
    assert [each.call.name for each in person.questions] == ["mcp__odd__thing_7"]
