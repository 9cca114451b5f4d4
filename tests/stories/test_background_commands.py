"""The end of a background command: told to its agent exactly once, waited for, and never lost in silence."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.interfaces.tui.driving import seated, turns
from tests.waiting import until, wait_until

from gencode import GenCode
from gencode.agent.loop import EMPTY_REPLY
from gencode.core.messages import AssistantMessage, CommandRun, ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.testing import call, says, scripted
from gencode.tools.bash import STOP_FIRST

FREE = {"permission_mode": "dontAsk"}
CLI = ("--permission-mode", "dontAsk")


def behind(command: str) -> dict[str, Any]:
    return call("Bash", command=command, run_in_background=True)


async def told(opened: GenCode, task: str) -> list[UserMessage]:
    """What a task was told of its background commands."""
    messages = transcript_of(await opened.history.events(task))
    return [each for each in messages if isinstance(each, UserMessage) and each.commands]


async def test_an_agent_at_work_hears_of_it_before_its_next_reply_and_once(tmp_path: Path) -> None:
    first = says("", behind("exit 3"))
    busy = says("", call("Bash", command="while [ ! -e never ] && [ $((n++)) -lt 20 ]; do sleep 0.05; done"))
    async with scripted(tmp_path, settings=FREE, main=[first, busy, says("done"), says("again")]) as opened:
        outcome = await opened.ask("go").outcome()
        await opened.ask("more", session=outcome.agent_id).outcome()
        (heard,) = await told(opened, outcome.agent_id)
        transcript = transcript_of(await opened.history.events(outcome.agent_id))
    (command,) = heard.commands
    assert command == CommandRun("exit 3", 3, command.shell)
    assert heard.delivers == (command.shell,)
    assert heard.text.startswith("[") and "Exit code 3" in heard.text and f"{command.shell}.txt" in heard.text
    assert isinstance(transcript[transcript.index(heard) + 1], AssistantMessage)
    assert outcome.evidence.commands[0] == command


async def test_a_subagent_that_has_answered_waits_for_it_and_answers_with_what_came(tmp_path: Path) -> None:
    worker = [says("", behind("sleep 0.5; exit 4")), says("The tests run."), says("They failed.")]
    async with scripted(tmp_path, settings=FREE, general_purpose=worker) as opened:
        outcome = await opened.task("general-purpose", "test it")
        assert len(await told(opened, outcome.agent_id)) == 1
    assert outcome.status is Status.COMPLETED
    assert outcome.result == "The tests run.\n\nThey failed."
    assert [each.exit for each in outcome.evidence.commands] == [4]


async def test_an_empty_reply_is_judged_before_its_agent_waits(tmp_path: Path) -> None:
    command = "while [ ! -e stop ] && [ $((n++)) -lt 200 ]; do sleep 0.05; done"
    stops = says("", call("Write", file_path="stop", content=""))
    worker = [says("", behind(command)), says(""), stops, says("It runs."), says("It has ended.")]
    async with scripted(tmp_path, settings=FREE, general_purpose=worker) as opened:
        outcome = await opened.task("general-purpose", "serve")
        messages = transcript_of(await opened.history.events(outcome.agent_id))
    assert EMPTY_REPLY in [each.text for each in messages if isinstance(each, UserMessage)]
    assert (outcome.status, outcome.evidence.warnings) == (Status.COMPLETED, ())


async def test_who_waits_for_it_is_told_to_stop_what_does_not_end(tmp_path: Path) -> None:
    settings = {**FREE, "command_seconds": 0.3}
    worker = [says("", behind("sleep 600")), says("The server runs.")]
    async with scripted(tmp_path, settings=settings, general_purpose=worker) as opened:
        outcome = await opened.task("general-purpose", "serve")
        messages = transcript_of(await opened.history.events(outcome.agent_id))
    (result,) = [each.results[0].text for each in messages if isinstance(each, ToolMessage)]
    assert STOP_FIRST.format(seconds=0.3) in result


async def test_one_that_never_ends_holds_it_no_longer_than_is_set(tmp_path: Path) -> None:
    worker = [says("", behind("sleep 600")), says("The server runs.")]
    settings = {**FREE, "command_seconds": 0.3}
    async with scripted(tmp_path, settings=settings, general_purpose=worker) as opened:
        outcome = await opened.task("general-purpose", "serve")
        assert await told(opened, outcome.agent_id) == []
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "The server runs.")
    assert any("still running at the end" in each for each in outcome.evidence.warnings)


async def test_a_parent_can_stop_what_a_subagent_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gencode.sandbox.shells.new_id", lambda: "000000aa")
    sends = says("", call("Task", subagent_type="general-purpose", prompt="serve"))
    stops = says("", call("TaskStop", task_id="shell_000000aa"))
    worker = [says("", behind("sleep 600")), says("The server runs.")]
    settings = {**FREE, "command_seconds": 0.3}
    async with scripted(
        tmp_path, settings=settings, main=[sends, stops, says("ok")], general_purpose=worker
    ) as opened:
        outcome = await opened.ask("go").outcome()
        transcript = transcript_of(await opened.history.events(outcome.agent_id))
    report, stopped = [each.results[0] for each in transcript if isinstance(each, ToolMessage)]
    assert ("shell_000000aa" in report.text, stopped.error) == (True, False)
    assert stopped.trace.delivered == ("shell_000000aa",)


@pytest.mark.parametrize("tool", ["TaskOutput", "TaskStop", "KillShell"])
async def test_what_a_call_has_shown_already_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setattr("gencode.sandbox.shells.new_id", lambda: "000000aa")
    name = "shell_id" if tool == "KillShell" else "task_id"
    command = "exit 5" if tool == "TaskOutput" else "sleep 600"
    shows = says("", call(tool, **{name: "shell_000000aa"}))
    async with scripted(
        tmp_path, settings=FREE, main=[says("", behind(command)), shows, says("x")]
    ) as opened:
        outcome = await opened.ask("go").outcome()
        assert await told(opened, outcome.agent_id) == []
        assert (await opened.find(outcome.agent_id)).delivered.receipts == ("shell_000000aa",)
    ended = CommandRun(command, 5 if tool == "TaskOutput" else None, "shell_000000aa")
    assert outcome.evidence.commands == (ended,)


async def test_a_conversation_at_rest_is_woken_by_it(tmp_path: Path) -> None:
    wait = behind("while [ ! -e go ]; do sleep 0.05; done")
    main = [says("", wait), says("It runs."), says("It has ended, I see.")]
    async with scripted(tmp_path, settings=FREE, main=main) as opened:
        chat = ChatSession(opened)
        await chat.send("start it")
        await chat.wait_until_idle()
        assert chat.session is not None
        assert (await opened.find(chat.session)).result == "It runs."
        listening = asyncio.create_task(chat.listen())
        await asyncio.sleep(0)
        (tmp_path / "go").touch()

        async def woken() -> bool:
            found = await opened.find(chat.session or "")
            return found.status.ended and found.result.endswith("It has ended, I see.")

        await until(woken, "the conversation was woken")
        assert len(await told(opened, chat.session)) == 1
        listening.cancel()
        await asyncio.wait([listening])
        await chat.close()


async def test_the_app_shows_that_it_ended(tmp_path: Path) -> None:
    wait = behind("while [ ! -e go ]; do sleep 0.05; done; exit 6")
    main = [says("", wait), says("It runs."), says("I see.")]
    async with seated(tmp_path, settings=FREE, script=turns(main=main)) as setup:
        await setup.type("start it")
        await setup.rests()
        (tmp_path / "go").touch()
        await setup.assert_sees("exited with code 6")
        await setup.assert_sees("I see.")
        await setup.rests()


def test_gen_p_waits_for_it_and_answers_with_what_came(tmp_path: Path) -> None:
    model = script(tmp_path, main=[says("", behind("sleep 1; exit 7")), says("Started."), says("It failed.")])
    ended = gen("-p", "go", "--model", model, *CLI, "--json", cwd=tmp_path)
    assert ended.code == 0
    assert ended.json["result"] == "Started.\n\nIt failed."
    assert ended.json["stopped"] == []
    assert "waits up to" in ended.err and "exited with code 7" in ended.err


@pytest.mark.parametrize("limit", [("GEN_COMMAND_SECONDS", "0.3"), ("GEN_MAX_SECONDS", "4")])
def test_gen_p_stops_one_that_never_ends_and_says_so(tmp_path: Path, limit: tuple[str, str]) -> None:
    model = script(tmp_path, main=[says("", behind("sleep 600")), says("The server runs.")])
    name, value = limit
    ended = gen("-p", "go", "--model", model, *CLI, "--json", cwd=tmp_path, **{name: value})
    assert (ended.code, ended.json["status"], ended.json["result"]) == (0, "completed", "The server runs.")
    (stopped,) = ended.json["stopped"]
    assert stopped == {"id": stopped["id"], "command": "sleep 600"}
    assert f"Stopping the command {stopped['id']}" in ended.err


def test_after_a_crash_the_agent_hears_that_it_is_gone_once(tmp_path: Path) -> None:
    main = [says("", behind("touch begun; sleep 600")), says("Started."), says("I know."), says("Yes.")]
    model = script(tmp_path, main=main)
    process = start("-p", "go", "--model", model, *CLI, "--output-format", "stream-json", cwd=tmp_path)
    wait_until((tmp_path / "begun").exists, "the command runs")
    assert process.stdout is not None
    session = json.loads(process.stdout.readline())["task"]
    for line in process.stdout:
        if json.loads(line).get("message", {}).get("text") == "Started.":
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=SECONDS)
    for prompt in ("and now?", "again?"):
        assert gen("-p", prompt, "--model", model, *CLI, "--session", session, cwd=tmp_path).code == 0
    shown = gen("sessions", "show", session, "--json", cwd=tmp_path).json
    told = [each for each in shown["transcript"] if each.get("commands")]
    assert len(told) == 1
    assert told[0]["commands"][0]["exit"] is None and "was lost" in told[0]["text"]


def test_gen_p_waits_for_what_a_stopped_agent_had_sent(tmp_path: Path) -> None:
    """`gen task stop` says that it goes on, so it does."""
    sends = {"subagent_type": "Explore", "prompt": "look", "run_in_background": True}
    wait = call("Bash", command="while [ ! -e go ]; do sleep 0.05; done")
    lead = [says("", call("Task", **sends)), says("", call("Bash", command="touch begun; sleep 600"))]
    explore = [says("", wait), says("Found it.")]
    agents = json.dumps(
        {
            "lead": {"description": "d", "prompt": "p", "tools": ["Task(Explore)", "Bash"]},
            "Explore": {"description": "d", "prompt": "p", "tools": ["Bash"]},
        }
    )
    main = [says("", call("Task", subagent_type="lead", prompt="lead")), says("Over.")]
    model = script(tmp_path, main=main, lead=lead, Explore=explore)
    words = ("-p", "go", "--model", model, *CLI, "--agents", agents, "--json")
    process = start(*words, cwd=tmp_path, GEN_MAX_DEPTH="2")
    wait_until((tmp_path / "begun").exists, "the lead is at work")
    listed = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    (leader,) = [each["agentId"] for each in listed if each["agent"] == "lead"]
    assert gen("task", "stop", leader, cwd=tmp_path).code == 0
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=SECONDS)
    answer = json.loads(out)
    assert (process.returncode, answer["stopped"]) == (0, []), err
    ends = {each["agent"]: each["status"] for each in answer["tasks"]}
    assert ends == {"lead": "cancelled", "Explore": "completed"}
    assert "Still running in the background: " in err
