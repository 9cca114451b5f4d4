"""A task that outlives its terminal: another process lists it, follows it, stops it and goes on with it."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.running import GEN, OWN_TERMINAL, SECONDS, Ended, gen, script, start
from tests.stories.agent_file import write_agent
from tests.stories.detached_agent import LOOK, SLOW, WITH_BASH, begun, wait_for, worker_of
from tests.waiting import Gate, wait_until

from gencode.testing import call, says


def works(process: int) -> bool:
    """Whether a process is there and has not ended; nobody may have looked after it yet."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


def close_terminal(command: list[str], folder: Path) -> str:
    """Run a command in a terminal of its own, then close the terminal; the first word that was printed."""
    leader, follower = pty.openpty()
    words = [sys.executable, "-c", OWN_TERMINAL, "/bin/sh", "-c", " ".join(command) + "; sleep 600"]
    shell = subprocess.Popen(
        words, cwd=folder, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
    )
    os.close(follower)
    shown = b""
    while b"\n" not in shown:
        shown += os.read(leader, 1024)
    os.close(leader)  # the kernel hangs up on everybody who still belongs to the terminal
    shell.wait(SECONDS)
    return shown.split()[0].decode()


def test_a_task_outlives_its_terminal_and_belongs_to_nobody(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    turns = [{"calls": [gate.call]}, {"text": "found it"}, {"text": "and the rest"}]
    model = script(tmp_path, others=turns)
    command = [*GEN, "task", "run", WITH_BASH, "look", "--background", "--model", model, "2>/dev/null"]
    task = close_terminal(command, tmp_path)
    (listed,) = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    assert (listed["agentId"], listed["status"], listed["background"]) == (task, "running", True)
    gate.open()
    followed = gen("task", "events", task, "--follow", "--json", cwd=tmp_path)
    assert [event["seq"] for event in followed.lines] == list(range(1, len(followed.lines) + 1))
    assert followed.lines[-1]["type"] == "SubSessionCompleted"
    assert gen("task", "output", task, cwd=tmp_path).out == "found it\n"
    assert gen("task", "resume", task, "go on", cwd=tmp_path).out == "and the rest\n"


def test_a_detached_task_is_stopped_from_another_process_and_goes_on_later(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[LOOK, SLOW])
    task = begun(tmp_path, model)["agentId"]
    wait_for(tmp_path, task, turns=1)
    stopped = gen("task", "stop", task, cwd=tmp_path)
    assert (stopped.code, stopped.out) == (
        0,
        f"Task {task} of Explore was stopped after 1 turn and is now cancelled.\n",
    )
    again = gen("task", "stop", task, cwd=tmp_path)
    assert again == Ended(0, f"Nothing to stop: Task {task} of Explore has already finished (cancelled).\n")
    model = script(tmp_path, Explore=[LOOK, {"text": "now I know"}])
    told = gen("task", "resume", task, "go on", "--json", cwd=tmp_path).json
    assert (told["agentId"], told["status"], told["result"]) == (task, "completed", "now I know")
    said = gen("task", "show", task, "--json", cwd=tmp_path).json["transcript"]
    heard = [(each.get("sender", "user"), each["text"]) for each in said if each["role"] == "user"]
    assert heard == [
        ("user", "go"),
        (
            "system",
            "[Your last run was stopped: another process stopped it. Calls that did not finish are marked as "
            "interrupted. Continue from there.]",
        ),
        ("user", "go on"),
    ]


def test_what_a_detached_agent_has_in_the_background_goes_on_when_only_that_agent_is_stopped(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home, "lead", "Task(general-purpose)")
    (home / ".gen" / "settings.toml").write_text("max_depth = 2\n")
    gate = Gate(tmp_path)
    send = call("Task", subagent_type=WITH_BASH, prompt="look", run_in_background=True)
    below = [{"calls": [gate.call]}, {"text": "found it"}]
    lead = [says("", send), SLOW]
    task = begun(tmp_path, script(tmp_path, lead=lead, others=below), agent="lead")["agentId"]
    wait_until(lambda: len(gen("task", "list", "--json", cwd=tmp_path).json["tasks"]) == 2, "it sent one")
    (child,) = wait_for(tmp_path, task, turns=1)["evidence"]["children"]
    wait_for(tmp_path, child, turns=1)
    worker = worker_of(home, child)
    stopped = gen("task", "stop", task, cwd=tmp_path)
    assert (stopped.out, stopped.err.splitlines()[0]) == (
        f"Task {task} of lead was stopped after 1 turn and is now cancelled.\n",
        f"This stops 1 task: {task} (lead).",
    )
    gate.open()
    assert gen("task", "output", child, cwd=tmp_path).out == "found it\n"
    wait_until(lambda: not works(worker), "its process has ended, too")
    model = script(tmp_path, lead=[says("", send), says("so it was found")])
    assert gen("task", "resume", task, "go on", "--model", model, cwd=tmp_path).out == "so it was found\n"
    said = gen("task", "show", task, "--json", cwd=tmp_path).json["transcript"]
    assert [each["delivers"] for each in said if each.get("delivers")] == [[child]]


def test_so_it_is_where_a_terminal_runs_that_agent(tmp_path: Path, home: Path) -> None:
    write_agent(home, "lead", "Task(general-purpose)")
    (home / ".gen" / "settings.toml").write_text("max_depth = 2\n")
    gate = Gate(tmp_path)
    send = call("Task", subagent_type=WITH_BASH, prompt="look", run_in_background=True)
    model = script(
        tmp_path, lead=[says("", send), SLOW], others=[{"calls": [gate.call]}, {"text": "found it"}]
    )
    process = start("task", "run", "lead", "go", "--model", model, cwd=tmp_path)
    wait_until(lambda: len(listed(tmp_path)) == 2, "both are there")
    task, child = listed(tmp_path)
    wait_for(tmp_path, child, turns=1)
    stopped = gen("task", "stop", task, cwd=tmp_path)
    assert stopped.err.splitlines()[0] == f"This stops 1 task: {task} (lead)."
    assert [line.split()[1] for line in stopped.out.splitlines() if "was stopped" in line] == [task]
    gate.open()
    assert gen("task", "output", child, cwd=tmp_path).out == "found it\n"
    _, err = process.communicate(timeout=SECONDS)
    goes_on = (
        f"Task {task} was stopped. Still running in the background: {child} ({WITH_BASH}). Ctrl-C stops it."
    )
    assert (process.returncode, goes_on in err) == (1, True)


def listed(folder: Path) -> list[str]:
    """The ids of the tasks that `gen task list` shows, oldest first."""
    return [each["agentId"] for each in gen("task", "list", "--json", cwd=folder).json["tasks"]]


def test_a_worker_that_is_killed_leaves_an_interrupted_task(tmp_path: Path, home: Path) -> None:
    model = script(tmp_path, Explore=[LOOK, SLOW])
    task = begun(tmp_path, model)["agentId"]
    wait_for(tmp_path, task, turns=1)
    os.kill(worker_of(home, task), signal.SIGKILL)
    ended = gen("task", "output", task, "--json", cwd=tmp_path).json
    assert (ended["status"], ended["result"], ended["error"]) == (
        "interrupted",
        "I look around.",
        "the process that ran it died",
    )
    model = script(tmp_path, Explore=[LOOK, {"text": "whole again"}])
    assert gen("task", "resume", task, "go on", cwd=tmp_path).out == "whole again\n"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be looked at here")
def test_a_worker_keeps_no_descriptor_of_its_caller(tmp_path: Path, home: Path) -> None:
    model = script(tmp_path, Explore=[SLOW])
    leak = tmp_path / "leak"
    command = [*GEN, "task", "run", "Explore", "go", "--background", "--model", model]
    with leak.open("w") as file:
        subprocess.run(
            command,
            cwd=tmp_path,
            pass_fds=[file.fileno()],
            check=True,
            timeout=SECONDS,
            capture_output=True,
        )
    (told,) = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    worker = worker_of(home, told["agentId"])
    open_files = [str(each.readlink()) for each in Path(f"/proc/{worker}/fd").iterdir()]
    leads = os.getsid(worker) == worker
    gen("task", "stop", told["agentId"], cwd=tmp_path)
    assert str(leak) not in open_files
    assert [name for name in open_files if name.startswith(("pipe:", "/dev/pts", "/dev/tty"))] == []
    assert leads


def test_a_mistake_is_told_by_the_command_that_was_typed(tmp_path: Path) -> None:
    for words, sentence in (
        (("run", "Explor", "go"), "There is no agent 'Explor'"),
        (("run", "Explore", " "), "The prompt is empty"),
        (("run", "Explore", "go", "--model", "nonsense"), "There is no model 'nonsense'"),
        (("run", "Explore", "go", "--resume", "0badcafe"), "There is no task '0badcafe'"),
    ):
        ended = gen("task", *words, "--background", cwd=tmp_path)
        assert (ended.code, ended.out) == (2, "")
        assert sentence in ended.err


def test_a_detached_task_goes_on_detached(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = script(tmp_path, others=[{"text": "one"}, {"calls": [gate.call]}, {"text": "two"}])
    task = begun(tmp_path, model, agent=WITH_BASH)["agentId"]
    wait_for(tmp_path, task, status="completed")
    ended = gen("task", "resume", task, "more", "--background", "--json", cwd=tmp_path)
    assert (ended.code, ended.json["agentId"], ended.json["status"]) == (0, task, "running")
    refused = gen("task", "resume", task, "me too", cwd=tmp_path)
    assert (refused.code, "wait for it, or stop it first" in refused.err) == (2, True)
    gate.open()
    assert gen("task", "output", task, cwd=tmp_path).out == "two\n"


def test_the_rules_of_the_command_line_hold_in_the_worker(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the word")
    read = {"text": "", "calls": [{"name": "Read", "input": {"file_path": "secret.txt"}}]}
    model = script(tmp_path, Explore=[read, {"text": "done"}, read, {"text": "done again"}])
    task = begun(tmp_path, model, "--deny", "Read(secret.txt)")["agentId"]
    first = wait_for(tmp_path, task, status="completed")
    gen("task", "resume", task, "again", cwd=tmp_path)
    second = gen("task", "show", task, "--json", cwd=tmp_path).json
    assert [each["decision"]["action"] for each in first["decisions"]] == ["deny"]
    assert [each["decision"]["action"] for each in second["decisions"]] == ["deny", "deny"]


def test_whoever_waits_in_the_foreground_is_sent_on_its_way(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    send = {"name": "Task", "input": {"subagent_type": WITH_BASH, "prompt": "look"}}
    main = [{"text": "I send one.", "calls": [send]}, {"text": "meanwhile"}, {"text": "It found the thing."}]
    model = script(tmp_path, main=main, others=[LOOK, {"calls": [gate.call]}, {"text": "the thing"}])
    process = start("-p", "go", "--json", "--model", model, cwd=tmp_path)
    child = waited(tmp_path)
    moved = gen("task", "background", child, "--json", cwd=tmp_path)
    assert (moved.code, moved.json["background"], moved.json["status"]) == (0, True, "running"), moved.err
    gate.open()
    out, _ = process.communicate(timeout=SECONDS)
    answer = json.loads(out)
    assert (answer["result"], answer["status"]) == ("meanwhile\n\nIt found the thing.", "completed")
    said = gen("task", "show", answer["sessionId"], "--json", cwd=tmp_path).json["transcript"]
    (result,) = [each["results"][0]["text"] for each in said if each["role"] == "tool"]
    assert f"is running in the background as task {child}" in result
    assert [each["delivers"] for each in said if each.get("delivers")] == [[child]]


def test_a_task_of_a_terminal_can_be_sent_to_the_background(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = script(tmp_path, others=[LOOK, SLOW])
    process = start("task", "run", WITH_BASH, "look", "--json", "--model", model, cwd=tmp_path)
    task = waited(tmp_path)
    script(tmp_path, others=[LOOK, {"calls": [gate.call]}, {"text": "found it"}])  # for the next process
    moved = gen("task", "background", task, cwd=tmp_path)
    out, _ = process.communicate(timeout=SECONDS)
    told = json.loads(out)
    assert (moved.code, task in moved.out) == (0, True)
    assert (process.returncode, told["agentId"], told["status"]) == (0, task, "running")
    gate.open()
    assert gen("task", "output", task, cwd=tmp_path).out == "found it\n"
    again = gen("task", "background", task, cwd=tmp_path)
    assert (again.code, "has already ended" in again.err) == (2, True)


def waited(folder: Path) -> str:
    """The first task of a folder, once it has had a turn."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        tasks = gen("task", "list", "--json", cwd=folder).json["tasks"]
        if tasks and tasks[0]["turns"]:
            return tasks[0]["agentId"]
    raise AssertionError("no task had a turn")


def test_a_conversation_is_not_sent_to_the_background(tmp_path: Path) -> None:
    model = script(tmp_path, main=[LOOK, SLOW])
    process = start("-p", "go", "--model", model, cwd=tmp_path)
    until = time.monotonic() + SECONDS
    sessions: list[dict[str, Any]] = []
    while not sessions and time.monotonic() < until:
        sessions = gen("sessions", "list", "--json", cwd=tmp_path).json["sessions"]
    refused = gen("task", "background", sessions[0]["agentId"], cwd=tmp_path)
    process.terminate()
    process.communicate(timeout=SECONDS)
    assert (refused.code, "is a conversation" in refused.err) == (2, True)
