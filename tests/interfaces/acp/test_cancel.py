"""What a person cuts ends at once: in a reply, in a command, in a question; the background goes on."""

import asyncio
import signal
from pathlib import Path

import pytest
from acp.exceptions import RequestError

from gencode.interfaces.acp.editor_session import SessionNames
from tests.interfaces.acp.driving import WAIT, Wired, waiting, wired
from tests.interfaces.cli.running import gen, script, send
from tests.providers.dialects import chat_chunk
from tests.providers.fake_server import events, fake_server, say_nothing, streamed

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_reply_is_cut_in_the_middle(tmp_path: Path) -> None:
    spoken = events(chat_chunk({"role": "assistant", "content": "Once upon "}), chat_chunk({"content": "a "}))
    async with fake_server(streamed(*spoken, then=say_nothing)) as server:
        url = f"{server.url}/v1"
        async with wired(tmp_path, "--model", "vllm/some-model", VLLM_BASE_URL=url) as wire:
            session = await wire.new(tmp_path)
            saying = asyncio.create_task(wire.say(session, "Tell me a story."))
            await wire.editor.until(lambda: "Once upon a" in wire.editor.text(session))
            await wire.agent.cancel(session_id=session)
            assert (await saying).stop_reason == "cancelled"
            async with asyncio.timeout(60):
                await server.hung_up.wait()
            assert "The turn has ended." in wire.editor.text(session)


async def test_a_command_is_cut_and_background_agents_go_on(wire: Wired, tmp_path: Path) -> None:
    editor = wire.editor
    session = await wire.new(
        tmp_path,
        main=[
            {"calls": [waiting(tmp_path, "beside us")]},
            {"calls": [{"name": "Bash", "input": {"command": "sleep 60"}}]},
            {"text": "It came back."},
        ],
        Bash=[{"calls": [{"name": "Bash", "input": {"command": WAIT}}]}, {"text": "found"}],
    )
    saying = asyncio.create_task(wire.say(session, "Do both."))
    await editor.until(
        lambda: any(
            (each["title"], each["status"]) == ("Bash(sleep 60)", "in_progress")
            for each in editor.calls(session).values()
        )
    )
    await wire.agent.cancel(session_id=session)
    assert (await saying).stop_reason == "cancelled"
    assert editor.call(session, "Bash(sleep 60)")["status"] == "failed"
    assert "Still running in the background: Bash: beside us" in editor.text(session)
    (tmp_path / "go").touch()
    await editor.until(lambda: "It came back." in editor.text(session))
    assert editor.call(session, "Bash: beside us")["status"] == "completed"


async def test_a_question_is_withdrawn_with_its_turn(wire: Wired, tmp_path: Path) -> None:
    editor = wire.editor
    editor.answer = lambda asked: None if asked.call.title == "Bash: Bash(touch made)" else "y"
    session = await wire.new(
        tmp_path,
        main=[{"calls": send("it", agent="Bash")}, {"text": "never said"}],
        Bash=[{"calls": [{"name": "Bash", "input": {"command": "touch made"}}]}, {"text": "never said"}],
    )
    saying = asyncio.create_task(wire.say(session, "Do it."))
    await editor.until(lambda: any(each.call.title == "Bash: Bash(touch made)" for each in editor.asked))
    await wire.agent.cancel(session_id=session)
    assert (await saying).stop_reason == "cancelled"
    assert editor.call(session, "Bash: it")["status"] == "failed"
    assert not (tmp_path / "made").exists()


async def test_a_turn_that_fails_is_an_error_and_the_session_lives(wire: Wired, tmp_path: Path) -> None:
    session = await wire.new(tmp_path, main=[{"text": "no more", "error": "bad"}])
    with pytest.raises(RequestError, match="scripted error 'bad'"):
        await wire.say(session, "Go.")
    assert "no more" in wire.editor.text(session)
    assert (await wire.say(session, "/cost")).stop_reason == "end_turn"


async def test_a_session_has_one_id_in_the_editor_and_the_terminal_and_is_there_before_anything_is_said(
    tmp_path: Path,
) -> None:
    model = script(tmp_path, main=[{"text": "One."}, {"text": "Two."}])
    async with wired(tmp_path, "--model", model) as wire:
        session, beside = await wire.new(tmp_path), await wire.new(tmp_path)
        await wire.agent.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        assert (await wire.agent.list_sessions(cwd=str(tmp_path))).sessions == []
    async with wired(tmp_path, "--model", model) as wire:
        await wire.agent.resume_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        await wire.agent.load_session(cwd=str(tmp_path), session_id=beside, mcp_servers=[])
        assert (await wire.say(session, "Hello.")).stop_reason == "end_turn"
        assert wire.editor.text(session) == "One."
        listed = await wire.agent.list_sessions(cwd=str(tmp_path))
        assert [each.session_id for each in listed.sessions] == [session]
    shown = gen("sessions", "list", "--json", cwd=tmp_path)
    assert [each["agentId"] for each in shown.json["sessions"]] == [session]
    more = gen("-p", "And?", "--session", session, "--model", model, cwd=tmp_path)
    assert (more.code, more.out.strip()) == (0, "Two.")
    async with wired(tmp_path, "--model", model) as wire:
        await wire.agent.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        shown = wire.editor.text(session)  # with a notice between them: at the terminal nobody can approve
        assert (shown.startswith("One."), shown.endswith("Two.")) == (True, True)


async def test_a_session_of_an_earlier_version_is_found_by_the_name_that_its_editor_kept(
    tmp_path: Path, home: Path
) -> None:
    model = script(tmp_path, main=[{"text": "One."}])
    told = gen("-p", "Hello.", "--model", model, "--output-format", "json", cwd=tmp_path)
    SessionNames(home / ".gen", tmp_path).bind("acp-0123456789abcdef", told.json["sessionId"])
    async with wired(tmp_path, "--model", model) as wire:
        listed = await wire.agent.list_sessions(cwd=str(tmp_path))
        (name,) = [each.session_id for each in listed.sessions]
        await wire.agent.load_session(cwd=str(tmp_path), session_id=name, mcp_servers=[])
        assert (name, wire.editor.text(name)) == ("acp-0123456789abcdef", "One.")


async def test_an_end_from_outside_loses_nothing_and_another_process_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a file\n")
    read = {"name": "Read", "input": {"file_path": "a.txt"}}
    model = script(
        tmp_path,
        main=[
            {"text": "I look.", "calls": [read, *send("something")]},
            {"text": "Found it.", "calls": send("the rest", agent="Plan")},
            {"text": "Still here."},
        ],
        Explore=[{"text": "it is there"}],
        Plan=[{"text": "never said", "delay_ms": 600_000}],
    )
    async with wired(tmp_path, "--model", model) as wire:
        session, editor = await wire.new(tmp_path), wire.editor
        saying = asyncio.create_task(wire.say(session, "Where is it?"))
        await editor.until(lambda: "Found it." in editor.text(session))
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.process.wait() == 128 + signal.SIGTERM
        assert (await saying).stop_reason == "cancelled"
    async with wired(tmp_path, "--model", model) as wire:
        listed = await wire.agent.list_sessions(cwd=str(tmp_path))
        assert [(each.session_id, each.title) for each in listed.sessions] == [(session, "Where is it?")]
        loaded = await wire.agent.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        assert loaded.modes is not None
        editor = wire.editor
        assert editor.text(session, "user_message_chunk") == "Where is it?"
        assert editor.text(session).startswith("I look.Found it.")
        assert editor.call(session, "Read(a.txt)")["status"] == "completed"
        told = editor.call(session, "Explore: something")["content"][0]["content"]["text"]
        assert told.startswith("it is there")
        assert editor.call(session, "Plan: the rest")["status"] == "failed"
        assert (await wire.say(session, "And now?")).stop_reason == "end_turn"
        assert editor.text(session).endswith("Still here.")
