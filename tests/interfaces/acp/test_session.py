"""A whole session: text, plans, calls with differences, agents at any depth, questions, modes, commands."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError
from acp.schema import AcceptElicitationResponse, McpServerStdio, SseMcpServer

from tests.interfaces.acp.driving import WAIT, Asked, Wired, waiting
from tests.interfaces.cli.running import script, send
from tests.mcp.fleet import Fleet, offer
from tests.pictures import PNG

pytestmark = pytest.mark.asyncio(loop_scope="package")

WRITE = {"name": "Write", "input": {"file_path": "b.txt", "content": "new\n"}}
EDIT = {"name": "Edit", "input": {"file_path": "a.txt", "old_string": "old", "new_string": "young"}}
READ = {"name": "Read", "input": {"file_path": "a.txt", "offset": 2}}
TODOS = [
    {"content": "look", "status": "completed"},
    {"content": "write", "status": "in_progress"},
    {"content": "tell \x1b[2J", "status": "pending"},
]
PLAN = {"name": "TodoWrite", "input": {"todos": TODOS}}
SCOPES = [
    ("y", "allow_once", "approve once"),
    ("a", "allow_always", "approve for this agent"),
    ("t", "allow_always", "approve for this agent and its subagents"),
    ("s", "allow_always", "approve for all agents in this session"),
    ("!", "allow_always", "always approve, in every folder"),
    ("n", "reject_once", "decline"),
]


def texts(call: dict[str, Any]) -> list[str]:
    """The text that a tool call shows."""
    return [each["content"]["text"] for each in call["content"] if each["type"] == "content"]


def diffs(call: dict[str, Any]) -> list[dict[str, str]]:
    """The differences that a tool call shows."""
    return [each for each in call["content"] if each["type"] == "diff"]


async def test_a_question_of_an_agent_that_an_agent_sent_reaches_the_person(
    wire: Wired, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("an old\nfile\n")
    editor = wire.editor
    session = await wire.new(
        tmp_path,
        main=[
            {"text": "Let me see.", "calls": [READ, PLAN]},
            {"text": "Now I send one.", "calls": send("the lead", agent="leader")},
            {"text": "It is \x1b[31mdone\u202e."},
        ],
        leader=[
            {"text": "I send another.", "calls": send("the hand", agent="Bash")},
            {"text": "the lead has seen it"},
        ],
        Bash=[{"calls": [{"name": "Bash", "input": {"command": "touch made"}}]}, {"text": "made it"}],
    )
    assert (await wire.say(session, "Do it.")).stop_reason == "end_turn"
    assert (tmp_path / "made").exists()
    assert editor.text(session) == "Let me see.Now I send one.It is \\x1b[31mdone\\u202e."
    plan = [each for each in editor.updates[session] if each["sessionUpdate"] == "plan"]
    assert [[entry["content"], entry["status"]] for entry in plan[-1]["entries"]] == [
        ["look", "completed"],
        ["write", "in_progress"],
        ["tell \\x1b[2J", "pending"],
    ]
    read = editor.call(session, "Read(a.txt)")
    assert (read["kind"], read["status"]) == ("read", "completed")
    assert read["locations"] == [{"path": str(tmp_path / "a.txt"), "line": 2}]
    assert texts(read) == ["```\n2\tfile\n```"]
    lead = editor.call(session, "leader: the lead")
    assert (lead["kind"], lead["status"]) == ("think", "completed")
    assert texts(lead)[0].startswith("the lead has seen it\n\n*completed · 2 turns · ")
    hand = editor.call(session, "leader › Bash: the hand")
    assert (hand["status"], texts(hand)[0].splitlines()[0]) == ("completed", "made it")
    steps = [
        texts(each)[0]
        for each in editor.updates[session]
        if each.get("toolCallId") == hand["toolCallId"] and each["status"] == "in_progress"
    ]
    assert any("↳ Bash(touch made)" in step for step in steps)
    deep = next(each for each in editor.asked if each.call.title == "leader › Bash: Bash(touch made)")
    assert "main › leader › Bash needs approval to use Bash:" in str(deep.call.content)
    assert [option.option_id for option in deep.options] == ["y", "w", "a", "t", "s", "!", "n"]
    assert editor.calls(session)[deep.call.tool_call_id]["status"] == "completed"


async def test_changes_are_asked_about_with_what_would_change_and_every_scope(
    wire: Wired, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("an old\nfile\n")

    def answer(asked: Asked) -> str:
        return "n" if "Write" in str(asked.call.title) else "s"

    wire.editor.answer = answer
    turns = [{"calls": [READ]}, {"calls": [EDIT]}, {"calls": [WRITE]}, {"text": "changed"}]
    session = await wire.new(tmp_path, main=turns)
    await wire.say(session, "Change it.")
    edit, write = wire.editor.asked
    assert [(each.option_id, each.kind, each.name) for each in edit.options] == SCOPES
    change = {
        "type": "diff",
        "path": str(tmp_path / "a.txt"),
        "oldText": "an old\nfile\n",
        "newText": "an young\nfile\n",
    }
    assert diffs(edit.call.model_dump(mode="json", by_alias=True, exclude_none=True)) == [change]
    edited = wire.editor.call(session, "Edit(a.txt)")
    assert (edited["kind"], edited["status"], diffs(edited)) == ("edit", "completed", [change])
    refused = wire.editor.call(session, "Write(b.txt)")
    assert (refused["status"], diffs(refused)) == ("failed", [])
    assert "The user declined this call." in texts(refused)[0]
    assert write.call.tool_call_id == refused["toolCallId"]
    assert not (tmp_path / "b.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "an young\nfile\n"


async def test_background_work_is_told_when_it_comes_back(wire: Wired, tmp_path: Path) -> None:
    session = await wire.new(
        tmp_path,
        main=[
            {"calls": [waiting(tmp_path, "a look")]},
            {"text": "It runs beside us."},
            {"text": "It still runs."},
            {"text": "The look came back."},
        ],
        Bash=[{"calls": [{"name": "Bash", "input": {"command": WAIT}}]}, {"text": "there is a file"}],
    )
    assert (await wire.say(session, "Send one.")).stop_reason == "end_turn"
    assert wire.editor.text(session).endswith("It runs beside us.")
    assert (await wire.say(session, "And?")).stop_reason == "end_turn"
    assert wire.editor.text(session).endswith("It still runs.")
    assert wire.editor.call(session, "Bash: a look")["status"] == "in_progress"
    (tmp_path / "go").touch()
    await wire.editor.until(lambda: "The look came back." in wire.editor.text(session))
    look = wire.editor.call(session, "Bash: a look")
    assert (look["status"], texts(look)[0].splitlines()[0]) == ("completed", "there is a file")


async def test_what_an_agent_changes_and_costs_is_shown_without_a_question(
    wire: Wired, tmp_path: Path
) -> None:
    cost = {"inputTokens": 30, "outputTokens": 4, "usd": 0.5}
    session = await wire.new(
        tmp_path,
        main=[{"calls": send("it", agent="general-purpose")}, {"text": "done", "usage": cost}],
        general_purpose=[{"calls": [WRITE]}, {"text": "written"}],
    )
    await wire.agent.set_session_mode(session_id=session, mode_id="acceptEdits")
    await wire.say(session, "Write it.")
    written = wire.editor.call(session, "general-purpose: Write(b.txt)")
    assert (written["kind"], written["status"]) == ("edit", "completed")
    assert diffs(written) == [{"type": "diff", "path": str(tmp_path / "b.txt"), "newText": "new\n"}]
    assert [each.call.title for each in wire.editor.asked] == ["Task(general-purpose)"]
    usage = [each for each in wire.editor.updates[session] if each["sessionUpdate"] == "usage_update"]
    assert [(each["used"], each["size"], each["cost"]["amount"]) for each in usage] == [(34, 100_000, 0.5)]


async def test_the_servers_of_an_editor_are_used_through_the_gate(wire: Wired, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    table = fleet.odd(tools=offer("one", "paint"))
    stdio = McpServerStdio(name="odd", command=table["command"], args=table["args"], env=[])
    sse = SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1/", headers=[])
    made = await wire.agent.new_session(cwd=str(tmp_path), mcp_servers=[stdio, sse])
    session, editor = made.session_id, wire.editor
    calls: list[dict[str, Any]] = [{"name": f"mcp__odd__{name}", "input": {}} for name in ("one", "paint")]
    model = script(tmp_path, main=[{"calls": calls}, {"text": "done"}])
    await wire.agent.set_config_option(config_id="model", session_id=session, value=model)
    await wire.say(session, "Use it.")
    assert "MCP server old was left out" in editor.text(session)
    assert [each.call.title for each in editor.asked] == ["mcp__odd__one()", "mcp__odd__paint()"]
    assert editor.call(session, "mcp__odd__one()")["status"] == "completed"
    assert [each["content"] for each in editor.call(session, "mcp__odd__paint()")["content"]] == [
        {"type": "text", "text": "painted"},
        {"type": "image", "mimeType": "image/png", "data": PNG.base64},
    ]


async def test_a_server_of_the_editor_that_does_not_work_is_told_of(wire: Wired, tmp_path: Path) -> None:
    gone = McpServerStdio(name="gone", command=str(tmp_path / "nowhere"), args=[], env=[])
    session = (await wire.agent.new_session(cwd=str(tmp_path), mcp_servers=[gone])).session_id
    await wire.editor.until(
        lambda: "> The MCP server gone could not be started: " in wire.editor.text(session)
    )
    nameless = McpServerStdio(name=" ", command="true", args=[], env=[])
    with pytest.raises(RequestError, match="One of the MCP servers has no name"):
        await wire.agent.new_session(cwd=str(tmp_path), mcp_servers=[nameless])


async def test_modes_models_and_commands(wire: Wired, tmp_path: Path) -> None:
    made = await wire.agent.new_session(cwd=str(tmp_path), mcp_servers=[])
    session, editor = made.session_id, wire.editor
    assert made.modes is not None
    listed = [mode.id for mode in made.modes.available_modes]
    assert (made.modes.current_mode_id, listed) == (
        "default",
        ["default", "acceptEdits", "plan", "unattended"],
    )
    assert [(each.id, each.category) for each in made.config_options or ()] == [
        ("mode", "mode"),
        ("model", "model"),
    ]
    await editor.until(lambda: "available_commands_update" in editor.kinds(session))
    names = {each["name"] for each in editor.updates[session][0]["availableCommands"]}
    assert {"help", "tasks", "stop", "mode", "cost", "compact"} <= names
    assert not {"quit", "theme", "new", "sessions"} & names
    await wire.agent.set_session_mode(session_id=session, mode_id="plan")
    await editor.until(lambda: "current_mode_update" in editor.kinds(session))
    told = [each for each in editor.updates[session] if each["sessionUpdate"] == "current_mode_update"]
    assert told[-1]["currentModeId"] == "plan"
    with pytest.raises(RequestError, match="/mode dontAsk"):
        await wire.agent.set_session_mode(session_id=session, mode_id="dontAsk")
    await wire.say(session, "/mode acceptEdits")
    assert "All agents of this session now run in acceptEdits mode" in editor.text(session)
    assert editor.updates[session][-1]["configOptions"][0]["currentValue"] == "acceptEdits"
    await wire.say(session, "/quit")
    assert "Close the session in the editor" in editor.text(session)
    await wire.say(session, "/nonsense")
    assert "Unknown command /nonsense." in editor.text(session)
    assert (await wire.say(session, "/tasks")).stop_reason == "end_turn"
    assert "No subagents yet." in editor.text(session)
    model = script(tmp_path, main=[{"text": "hello"}])
    chosen = await wire.agent.set_config_option(config_id="model", session_id=session, value=model)
    assert [each.current_value for each in chosen.config_options] == ["acceptEdits", model]


async def test_two_sessions_at_once_know_nothing_of_each_other(wire: Wired, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    read = {"name": "Read", "input": {"file_path": "name.txt"}}
    sessions: list[str] = []
    for folder in folders:
        folder.mkdir()
        (folder / "name.txt").write_text(f"this is {folder.name}\n")
        turns = [{"calls": [read], "delay_ms": 200}, {"text": "read"}]
        sessions.append(await wire.new(folder, main=turns))
    await wire.agent.set_session_mode(session_id=sessions[0], mode_id="plan")
    await asyncio.gather(*(wire.say(session, "Read it.") for session in sessions))
    found = [texts(wire.editor.call(session, "Read(name.txt)"))[0] for session in sessions]
    assert ["this is one" in found[0], "this is two" in found[1]] == [True, True]
    assert [wire.editor.text(session) for session in sessions] == ["read", "read"]
    modes = [str(wire.editor.updates[session]).count("'currentModeId': 'plan'") for session in sessions]
    assert modes == [1, 0]
    await wire.agent.close_session(session_id=sessions[0])
    with pytest.raises(RequestError, match="No session .* is open"):
        await wire.say(sessions[0], "Again.")
    assert (await wire.say(sessions[1], "Again.")).stop_reason == "end_turn"


async def test_an_agent_asks_what_it_wants_to_know(wire: Wired, tmp_path: Path) -> None:
    options = [{"label": "red", "description": "like fire"}, {"label": "blue", "description": "like water"}]
    questions = [{"question": "Which colour?", "header": "Colour", "options": options, "default": "red"}]
    ask = {"name": "AskUserQuestion", "input": {"questions": questions}}
    turns = [{"calls": [ask]}, {"text": "Thank you."}]
    editor = wire.editor
    await wire.introduce(forms=True)
    editor.form = AcceptElicitationResponse(action="accept", content={"0": "blue"})
    session = await wire.new(tmp_path, main=turns)
    await wire.say(session, "Paint it.")
    message, form = editor.forms[0]
    first, _, end = message.partition("\n")
    assert (first, end.rpartition(": ")[2]) == ("main asks: Which colour?", "red")
    assert [each.const for each in form.requested_schema.properties["0"].one_of] == ["red", "blue"]
    assert "blue" in texts(editor.call(session, "AskUserQuestion"))[0]
    await wire.introduce(forms=False)
    editor.answer = lambda _: "0"
    session = await wire.new(tmp_path, main=turns)
    await wire.say(session, "Paint it.")
    asked = editor.asked[-1]
    assert asked.call.title == "main asks: Which colour?"
    *offered, nothing = [each.name for each in asked.options]
    assert offered == ["red", "blue"]
    assert nothing.startswith("No answer") and "red" in nothing
    assert "red" in texts(editor.call(session, "AskUserQuestion"))[0]


async def test_what_is_wrong_with_a_session_is_said_in_a_sentence(wire: Wired, tmp_path: Path) -> None:
    wrong = [
        (wire.agent.new_session(cwd="some/folder", mcp_servers=[]), "not an absolute path"),
        (wire.agent.new_session(cwd=str(tmp_path / "gone"), mcp_servers=[]), "is not a folder"),
        (wire.agent.load_session(cwd=str(tmp_path), session_id="deadbeef", mcp_servers=[]), "deadbeef"),
        (wire.agent.prompt(session_id="nobody", prompt=[]), "No session 'nobody' is open"),
        (wire.agent.authenticate(method_id="login"), "needs no login"),
    ]
    for asking, sentence in wrong:
        with pytest.raises(RequestError, match=sentence):
            await asking


async def test_a_session_that_is_not_there_is_a_resource_that_is_not_found(
    wire: Wired, tmp_path: Path
) -> None:
    for asking in (
        wire.agent.load_session(cwd=str(tmp_path), session_id="deadbeef", mcp_servers=[]),
        wire.agent.resume_session(cwd=str(tmp_path), session_id="acp-deadbeef", mcp_servers=[]),
        wire.agent.prompt(session_id="nobody", prompt=[]),
        wire.agent.close_session(session_id="nobody"),
    ):
        with pytest.raises(RequestError) as missing:
            await asking
        assert missing.value.code == RequestError.resource_not_found().code


async def test_an_editor_hears_only_of_modes_that_it_was_offered(wire: Wired, tmp_path: Path) -> None:
    made = await wire.agent.new_session(cwd=str(tmp_path), mcp_servers=[])
    session, editor = made.session_id, wire.editor
    assert made.modes is not None
    offered = {mode.id for mode in made.modes.available_modes}
    for mode in ("plan", "dontAsk", "default"):
        await wire.say(session, f"/mode {mode}")
    updates = editor.updates[session]
    modes = [each["currentModeId"] for each in updates if each["sessionUpdate"] == "current_mode_update"]
    options = [
        each["configOptions"][0] for each in updates if each["sessionUpdate"] == "config_option_update"
    ]
    assert (modes, [each["currentValue"] for each in options]) == (
        ["plan", "default"],
        ["plan", "dontAsk", "default"],
    )
    assert {*modes} <= offered
    assert all(each["currentValue"] in [one["value"] for one in each["options"]] for each in options)
