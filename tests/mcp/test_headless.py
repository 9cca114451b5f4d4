"""MCP servers where nobody looks at a screen: what is said of them, and how they are approved."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gencode.interfaces.log_file import log_file
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import gen_home
from tests.interfaces.cli.running import SECONDS, Ended, gen, in_terminal, script, start
from tests.mcp.fleet import Fleet, offer

USE: list[dict[str, Any]] = [{"calls": [{"name": "mcp__odd__one", "input": {}}]}, {"text": "done"}]
BROKEN: dict[str, dict[str, Any]] = {
    "nope": {"command": "mcp-server-does-not-exist"},
    "three": {"command": "sh", "args": ["-c", "echo first >&2; printf 'last \\033[31m' >&2; exit 3"]},
}


def write(**servers: dict[str, Any]) -> None:
    """The user's settings with these servers."""
    lines: list[str] = []
    for name, table in servers.items():
        lines += [f"[mcp_servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    gen_home().mkdir(parents=True, exist_ok=True)
    (gen_home() / "settings.toml").write_text("\n".join(lines) + "\n")


def results(ended: Ended, folder: Path) -> list[tuple[str, bool]]:
    """What the calls of a turn gave, each with whether it was an error."""
    shown = gen("sessions", "show", ended.json["sessionId"], "--json", cwd=folder).json
    found = [each for message in shown["transcript"] for each in message.get("results", ())]
    return [(each["text"], each.get("error", False)) for each in found]


def asked(folder: Path, *words: str) -> Ended:
    """One turn in which the main agent calls the tool `one` of the server `odd`."""
    model = script(folder, main=USE)
    return gen("-p", "go", "--model", model, "--output-format", "json", *words, cwd=folder)


@pytest.fixture
def changed(fleet: Fleet) -> dict[str, Any]:
    """A server whose tool was let through, and which is started otherwise since."""
    table = fleet.odd(tools=offer("one"))
    write(odd=table)
    before = asked(fleet.folder, "--allow", "mcp__odd")
    assert [error for _, error in results(before, fleet.folder)] == [False]
    table = {**table, "args": [*table["args"], "more"]}
    write(odd=table)
    return table


@pytest.mark.parametrize("output", ["json", "stream-json"])
def test_a_broken_server_is_told_on_stderr_in_json_and_in_the_log(tmp_path: Path, output: str) -> None:
    write(**BROKEN)
    model = script(tmp_path, main=[{"text": "done"}])
    ended = gen("-p", "go", "--model", model, "--output-format", output, cwd=tmp_path)
    nope, three = ended.lines[-1]["servers"]
    assert (nope["name"], nope["state"], three["name"]) == ("nope", "failed", "three")
    assert "mcp-server-does-not-exist" in nope["error"]
    assert three["state"] in ("down", "failed", "starting")
    assert "(Exit code 3)" in three["error"]
    assert "first / last" in three["error"] and "\x1b" not in three["error"]
    for told in (ended.err, log_file().read_text()):
        assert "mcp-server-does-not-exist" in told
        assert "(Exit code 3)" in told and "\x1b" not in told


def test_a_task_and_doctor_tell_of_a_broken_server(tmp_path: Path) -> None:
    write(**BROKEN)
    model = script(tmp_path, others=[{"text": "done"}])
    ran = gen("task", "run", "general-purpose", "go", "--model", model, "--json", cwd=tmp_path)
    assert [each["name"] for each in ran.json["servers"]] == ["nope", "three"]
    assert "mcp-server-does-not-exist" in ran.err
    seen = gen("doctor", "--json", cwd=tmp_path).json
    checks = [each for each in seen["checks"] if each["name"] == "mcp server"]
    assert [each["state"] for each in checks] == ["problem", "problem"]
    assert "(Exit code 3)" in checks[1]["detail"]
    assert not seen["healthy"]


def test_an_agent_without_tools_of_servers_is_told_nothing_of_them(tmp_path: Path) -> None:
    write(**BROKEN)
    model = script(tmp_path, others=[{"text": "done"}])
    assert gen("task", "run", "Explore", "go", "--model", model, cwd=tmp_path) == Ended(0, "done\n")


def begun(folder: Path) -> "tuple[subprocess.Popen[str], str]":
    """A turn that waits for its server, and what it says about that."""
    words = ("-p", "go", "--model", script(folder, main=USE), "--output-format", "json")
    process = start(*words, "--allow", "mcp__odd", cwd=folder)
    assert process.stderr is not None
    return process, process.stderr.readline()


def test_a_slow_server_is_waited_for_and_that_is_told(fleet: Fleet) -> None:
    opens = fleet.folder / "opens"
    write(odd=fleet.odd(tools=offer("one"), manner=f"waits for {opens}"))
    process, said = begun(fleet.folder)
    assert said == "Waiting for the MCP server odd to start.\n"
    opens.touch()
    out, err = process.communicate(timeout=SECONDS)
    assert err == ""
    ended = Ended(process.returncode, out, err)
    assert ended.json["servers"] == [{"name": "odd", "state": "ready", "error": None, "fix": None}]
    assert [error for _, error in results(ended, fleet.folder)] == [False]


def test_who_is_interrupted_waits_for_no_server(fleet: Fleet) -> None:
    write(odd={**fleet.odd(manner="mute"), "startup_seconds": 600})
    process, said = begun(fleet.folder)
    assert said == "Waiting for the MCP server odd to start.\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 130


def test_tools_of_servers_are_listed(fleet: Fleet) -> None:
    write(odd=fleet.odd(tools=offer("one")), nope=BROKEN["nope"])
    listed = gen("tools", "--json", cwd=fleet.folder)
    found = [each for each in listed.json["tools"] if each["source"] == "mcp"]
    assert [(each["name"], each["server"]) for each in found] == [("mcp__odd__one", "odd")]
    states = {each["name"]: each["state"] for each in listed.json["servers"]}
    assert states == {"nope": "failed", "odd": "ready"}
    assert "mcp-server-does-not-exist" in listed.err
    assert "mcp__odd__one" in gen("tools", cwd=fleet.folder).out


def test_servers_of_a_folder_that_is_not_trusted_are_named_and_not_started(fleet: Fleet) -> None:
    servers = {"mcpServers": {"odd": fleet.odd(tools=offer("one"))}}
    (fleet.folder / ".mcp.json").write_text(json.dumps(servers))
    listed = gen("tools", "--json", cwd=fleet.folder)
    assert [each for each in listed.json["tools"] if each["source"] == "mcp"] == []
    assert ".mcp.json" in listed.err and "gen trust" in listed.err
    assert fleet.heard() == []


def test_a_changed_server_says_everywhere_how_it_is_approved(fleet: Fleet, changed: dict[str, Any]) -> None:
    way = "gen trust --server odd"
    heard = len(fleet.heard())
    ended = asked(fleet.folder, "--allow", "mcp__odd", "--permission-mode", "dontAsk")
    assert (ended.code, way in ended.err) == (3, True)
    assert [(each["state"], each["fix"]) for each in ended.json["servers"]] == [("unapproved", way)]
    ((text, error),) = results(ended, fleet.folder)
    assert error and way in text
    words = ("permissions", "explain", "--tool", "mcp__odd__start", "--allow", "mcp__odd", "--json")
    explained = gen(*words, cwd=fleet.folder).json
    assert explained["decision"] == "ask" and way in explained["lifts"]
    assert gen(*words, "--background", cwd=fleet.folder).json["decision"] == "deny"
    checks = gen("doctor", "--json", cwd=fleet.folder).json["checks"]
    assert [each["fix"] for each in checks if each["name"] == "mcp server"] == [way]
    listed = gen("tools", "--json", cwd=fleet.folder)
    assert [each for each in listed.json["tools"] if each["source"] == "mcp"] == [] and way in listed.err
    assert len(fleet.heard()) == heard, "it was never started"


def test_a_changed_server_is_approved_without_a_terminal(fleet: Fleet, changed: dict[str, Any]) -> None:
    fleet.tell(tools=offer("one", "two"))
    words = ("trust", "--server", "odd")
    unsure = gen(*words, cwd=fleet.folder)
    assert (unsure.code, "add --yes" in unsure.err) == (2, True)
    by_agent = gen(*words, "--yes", cwd=fleet.folder, **{PROCESS_MARK: "x"})
    assert by_agent.code == 2
    (shown,) = gen(*words, "--json", cwd=fleet.folder).json["servers"]
    assert (shown["state"], shown["approved"]) == ("unapproved", False)
    (approved,) = gen(*words, "--yes", "--json", cwd=fleet.folder).json["servers"]
    assert (approved["state"], approved["approved"]) == ("ready", True)
    assert [each["name"] for each in approved["tools"]] == ["one", "two"]
    ended = asked(fleet.folder, "--allow", "mcp__odd")
    assert [error for _, error in results(ended, fleet.folder)] == [False]
    assert ended.err == ""


def test_a_tool_that_changed_is_explained_and_approved_by_the_same_command(fleet: Fleet) -> None:
    write(odd=fleet.odd(tools=offer("one")))
    asked(fleet.folder, "--allow", "mcp__odd")
    fleet.tell(tools=offer("one", description="Something else."))
    explain = ("permissions", "explain", "--tool", "mcp__odd__one", "--allow", "mcp__odd", "--json")
    assert gen(*explain, cwd=fleet.folder).json["decision"] == "ask"
    ((text, error),) = results(asked(fleet.folder, "--allow", "mcp__odd"), fleet.folder)
    assert error and "gen trust --server odd" in text
    assert gen("trust", "--server", "odd", "--yes", cwd=fleet.folder).code == 0
    assert gen(*explain, cwd=fleet.folder).json["decision"] == "allow"
    ended = asked(fleet.folder, "--allow", "mcp__odd")
    assert [error for _, error in results(ended, fleet.folder)] == [False]


def test_what_the_settings_call_reading_is_allowed_in_plan_mode(fleet: Fleet) -> None:
    hint = {"annotations": {"readOnlyHint": True}}
    nothing_written = {"log": "/dev/null"}
    write(odd={**fleet.odd(tools=offer("one", **hint), **nothing_written), "reads": ["one"]})
    ended = asked(fleet.folder, "--permission-mode", "plan")
    assert [error for _, error in results(ended, fleet.folder)] == [False]
    explain = ("permissions", "explain", "--tool", "mcp__odd__one", "--json", "--mode")
    assert gen(*explain, "plan", cwd=fleet.folder).json["decision"] == "allow"
    assert gen(*explain, "default", cwd=fleet.folder).json["decision"] == "ask"


def test_a_shell_completes_the_names_of_servers(tmp_path: Path) -> None:
    write(**BROKEN)
    offered = gen("__complete", "words", "trust", "--server", "", cwd=tmp_path).out.splitlines()
    assert [line.partition("\t")[0] for line in offered[1:]] == ["nope", "three"]


@pytest.mark.parametrize(("answer", "code", "state"), [(b"y\n", 0, "ready"), (b"n\n", 1, "unapproved")])
def test_at_a_terminal_a_person_is_asked_before_the_program_is_started(
    fleet: Fleet, changed: dict[str, Any], answer: bytes, code: int, state: str
) -> None:
    shown = in_terminal("trust", "--server", "odd", cwd=fleet.folder, answers=[answer])
    assert (shown.code, str(fleet.file("odd")) in shown.out.replace("\n", "")) == (code, True)
    (found,) = gen("trust", "--server", "odd", "--json", cwd=fleet.folder).json["servers"]
    assert found["state"] == state
