"""Agents run commands: what was judged is what runs, nothing escapes, and the person sees how it went."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.messages import CommandRun, Message, ToolMessage, ToolResult
from gencode.core.task import transcript_of
from gencode.runtime.ports import Answer, Question
from gencode.runtime.sandbox.choose import chosen
from gencode.testing import call, says, scripted

FREE = {"permission_mode": "dontAsk"}


def results(transcript: list[Message]) -> list[ToolResult]:
    return [
        result for message in transcript if isinstance(message, ToolMessage) for result in message.results
    ]


async def answered(gen: GenCode) -> list[ToolResult]:
    """What the calls of the first turns of a new conversation gave."""
    outcome = await gen.ask("go").outcome()
    return results(transcript_of(await gen.store.events(outcome.agent_id)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def bash(command: str, **more: Any) -> dict[str, Any]:
    return call("Bash", command=command, **more)


async def test_output_exit_code_and_evidence(tmp_path: Path) -> None:
    main = [says("", bash("echo out; echo err >&2; exit 3"), bash("printf '%s' \"a  b\"")), says("done")]
    async with scripted(tmp_path, settings=FREE, main=main) as gen:
        outcome = await gen.ask("go").outcome()
        failed, went_well = results(transcript_of(await gen.store.events(outcome.agent_id)))
    assert (failed.text, failed.error) == ("out\nerr\nExit code 3.", True)
    assert (went_well.text, went_well.error) == ("a  b", False)
    assert outcome.evidence.commands == (
        CommandRun("echo out; echo err >&2; exit 3", 3),
        CommandRun("printf '%s' \"a  b\"", 0),
    )


async def test_a_command_that_takes_too_long_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    main = [says("", bash("sleep 300 & echo begun; sleep 300", timeout=300)), says("done")]
    async with scripted(tmp_path, settings=FREE, main=main) as gen:
        (result,) = await answered(gen)
    assert result.text.startswith("begun\nTimed out after ") and result.error


async def test_long_output_is_cut_in_the_middle_and_can_be_paged_without_a_question(tmp_path: Path) -> None:
    """The file lies outside of the workspace, but it was made for this agent."""
    rules = {"allow": ["Bash(seq:*)"]}
    async with scripted(tmp_path, settings=rules, main=[says("", bash("seq 1 20000")), says("x")]) as gen:
        outcome = await gen.ask("go").outcome()
        (result,) = results(transcript_of(await gen.store.events(outcome.agent_id)))
        (file,) = (Path(os.environ["GEN_HOME"]) / "outputs").rglob("*.txt")
    assert result.text.startswith("1\n2\n3\n") and f"everything is in {file}" in result.text
    assert len(result.text) < 34_000
    assert len(file.read_text().splitlines()) == 20_000


async def test_a_background_command_grows_a_file_that_its_agent_may_read(tmp_path: Path) -> None:
    background = bash("echo one; sleep 300", run_in_background=True)
    async with scripted(
        tmp_path, settings={"allow": ["Bash"]}, main=[says("", background), says("x")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        (result,) = results(transcript_of(await gen.store.events(outcome.agent_id)))
        shells = gen._running_shells()  # pyright: ignore[reportPrivateUsage]
        (shell,) = shells.of(outcome.agent_id).values()
        assert shell.id in result.text and str(shell.file) in result.text
        async with asyncio.timeout(20):
            while "one" not in shell.file.read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not shell.over
    assert shell.over


async def test_closing_the_session_ends_background_commands(tmp_path: Path) -> None:
    command = bash("sleep 300 & echo $! > pid; wait", run_in_background=True)
    async with scripted(tmp_path, settings=FREE, main=[says("", command), says("x")]) as gen:
        await gen.ask("go").outcome()
        (shell,) = gen._running_shells()._shells.values()  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(20):
            while not (tmp_path / "pid").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert shell.over and shell.running.task.result().cause == "stopped"


async def test_a_shell_is_killed_by_its_own_agent_only(tmp_path: Path) -> None:
    kill = call("KillShell", shell_id="shell_00000000")
    async with scripted(tmp_path, settings=FREE, main=[says("", kill), says("x")]) as gen:
        (result,) = await answered(gen)
    assert result.error and "shell_00000000" not in result.text.split("stopped")[-1]


async def test_keys_never_reach_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-commands-0123456789")
    monkeypatch.setenv("COPY_OF_IT", "x sk-not-for-commands-0123456789 y")
    monkeypatch.setenv("HARMLESS", "harmless")
    async with scripted(tmp_path, settings=FREE, main=[says("", bash("env")), says("x")]) as gen:
        (result,) = await answered(gen)
    assert "HARMLESS=harmless" in result.text and "not-for-commands" not in result.text


async def test_plan_mode_runs_what_only_reads_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept\n")
    tries = [
        "cat kept.txt",
        "echo x > kept.txt",
        "rm kept.txt",
        "sh -c 'rm kept.txt'",
        "find . -name kept.txt -delete",
        "sed -i s/kept/gone/ kept.txt",
        "$(echo rm) kept.txt",
        "sort kept.txt -o kept.txt",
        "git init .",
        "eval 'rm kept.txt'",
        "cat kept.txt | tee other.txt",
        "env rm kept.txt",
        "xargs rm < kept.txt",
        "cat <<< $(rm kept.txt)",
    ]
    main = [says("", *(bash(command) for command in tries)), says("x")]
    async with scripted(tmp_path, settings={"permission_mode": "plan", "allow": ["Bash"]}, main=main) as gen:
        given = await answered(gen)
    assert [result.error for result in given] == [False, *[True] * (len(tries) - 1)]
    assert given[0].text == "kept"
    assert names(tmp_path) == ["kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "kept\n"


class Generous:
    """A person who says yes, and may give the network too."""

    def __init__(self, *, network: bool) -> None:
        self._answer = Answer(True, network=network)

    async def ask(self, question: Question) -> Answer:
        return self._answer


@pytest.mark.parametrize("network", [False, True])
async def test_the_network_is_off_unless_a_person_gives_it_with_their_yes(
    tmp_path: Path, network: bool
) -> None:
    if not chosen().exists:
        pytest.skip("this machine has no sandbox")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connect = (
        f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' && echo there"
    )
    main = [says("", bash(connect)), says("x")]
    async with server, scripted(tmp_path, asker=Generous(network=network), main=main) as gen:
        (result,) = await answered(gen)
    assert ("there" in result.text.splitlines()) is network
