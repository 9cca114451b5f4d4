"""`gen cron`: what is planned survives every process, and real schedulers run it once, however they end."""

import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gencode.core.ids import stamp
from gencode.places import database
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.waiting import wait_until

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"


def jobs(folder: Path, *words: str) -> list[Any]:
    return gen("cron", "list", *words, "--json", cwd=folder).json["jobs"]


def make_due(*ids: str) -> None:
    """Let jobs be due now: nobody waits for minutes in a test."""
    with closing(sqlite3.connect(database(), timeout=SECONDS)) as file, file:
        for job in ids:
            (body,) = file.execute("SELECT body FROM gen_job WHERE id = ?", (job,)).fetchone()
            now = stamp()
            told = json.dumps({**json.loads(body), "due": now, "when": f"at {now}"})
            file.execute("UPDATE gen_job SET due = ?, body = ? WHERE id = ?", (now, told, job))


def ended(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    _, err = process.communicate(timeout=SECONDS)
    return process.returncode, err


def test_what_is_added_is_listed_with_its_zone_and_removed(tmp_path: Path) -> None:
    added = gen(
        *("cron", "add", "0 9 * * 1-5", "Look around.", "--agent", "Explore", "--to", "file:looks"),
        *("--label", "morning", "--permission-mode", "plan", "--deny", "Bash", "--model", "offline"),
        cwd=tmp_path,
        TZ=BERLIN,
    )
    (job,) = jobs(tmp_path)
    assert added.code == 0 and added.out.startswith(f"Job {job['id']} is scheduled (0 9 * * 1-5); next run: ")
    assert " 09:00 CE" in added.out
    assert {
        name: job[name]
        for name in ("schedule", "zone", "prompt", "agent", "task", "to", "label", "mode", "model", "cwd")
    } == {
        "schedule": "0 9 * * 1-5",
        "zone": BERLIN,
        "prompt": "Look around.",
        "agent": "Explore",
        "task": True,
        "to": "file:looks",
        "label": "morning",
        "mode": "plan",
        "model": "offline",
        "cwd": str(tmp_path),
    }
    listed = gen("cron", "list", cwd=tmp_path).out.splitlines()
    assert listed[0].split() == ["ID", "SCHEDULE", "NEXT", "RUNS", "MISSED", "LAST", "WHAT"]
    assert listed[1].endswith("Explore: morning") and f"0 9 * * 1-5 {BERLIN}" in listed[1]
    assert gen("cron", "remove", job["id"][:6], "--json", cwd=tmp_path).json == {"removed": [job["id"]]}
    assert gen("cron", "list", "--all", cwd=tmp_path).out == "There are no jobs.\n"


def test_other_folders_are_listed_only_with_all(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    gen("cron", "add", "@daily", "-", cwd=tmp_path / "a", piped="from a pipe")
    assert jobs(tmp_path) == []
    assert [job["prompt"] for job in jobs(tmp_path, "--all")] == ["from a pipe"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sometimes", "x"), "'sometimes' is not a schedule"),
        (("every 10s", "x"), "is not between a minute and a year"),
        (("@daily", " "), "The prompt is empty"),
        (("@daily", "x", "--agent", "Exploer"), "There is no agent 'Exploer'. Did you mean Explore?"),
        (("@daily", "x", "--session", "0badcafe"), "There is no conversation '0badcafe'"),
        (("@daily", "x", "--to", "nowhere"), "is no address"),
        (("@daily", "x", "--zone", "Mars"), "There is no time zone 'Mars'"),
        (("@daily", "x", "--model", "bogus/"), "bogus"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_planned(
    tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    done = gen("cron", "add", *words, cwd=tmp_path)
    assert (done.code, done.out, len(done.err.splitlines()), why in done.err) == (2, "", 1, True)
    assert jobs(tmp_path, "--all") == []


def test_nothing_is_removed_when_one_of_them_is_not_there(tmp_path: Path) -> None:
    job = gen("cron", "add", "@daily", "x", "--json", cwd=tmp_path).json["id"]
    assert gen("cron", "remove", job, "zzz", cwd=tmp_path).code == 2
    assert [each["id"] for each in jobs(tmp_path)] == [job]


def test_several_processes_run_each_job_once_and_an_interrupt_ends_them(tmp_path: Path, home: Path) -> None:
    (tmp_path / "other").mkdir()
    model = script(tmp_path, main=[{"text": "Done.", "delay_ms": 100}], Explore=[{"text": "Found."}])
    ids = [
        gen(
            "cron", "add", "@daily", f"job {n}", "--model", model, "--to", "file:all", "--json", cwd=tmp_path
        ).json["id"]
        for n in range(5)
    ]
    task = ("cron", "add", "@daily", "a task", "--agent", "Explore", "--model", model, "--json")
    ids.append(gen(*task, cwd=tmp_path / "other").json["id"])
    make_due(*ids)
    running = [start("cron", "run", cwd=tmp_path) for _ in range(3)]
    wait_until(lambda: not jobs(tmp_path, "--all"))
    box = home / ".gen" / "outbox" / "all.md"
    wait_until(lambda: box.is_file() and box.read_text().count("has finished.") == 5)
    assert {ended(process, signal.SIGINT)[0] for process in running} == {130}
    tasks = gen("task", "list", "--all", "--tree", "--json", cwd=tmp_path).json["tasks"]
    assert sorted((each["prompt"], each["status"], each["agent"]) for each in tasks) == [
        ("a task", "completed", "Explore"),
        *((f"job {n}", "completed", "main") for n in range(5)),
    ]
    said = box.read_text()
    assert [said.count(f"(job {n})] has finished.") for n in range(5)] == [1] * 5


def test_a_killed_scheduler_leaves_a_run_that_the_next_one_tells_of(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "never", "delay_ms": 600_000}])
    job = gen(
        "cron", "add", "@daily", "slow", "--model", model, "--to", "file:all", "--json", cwd=tmp_path
    ).json["id"]
    make_due(job)
    killed = start("cron", "run", cwd=tmp_path)
    wait_until(lambda: jobs(tmp_path)[0]["lastStatus"] == "running")
    assert ended(killed, signal.SIGKILL)[0] == -9
    session = jobs(tmp_path)[0]["lastTask"]
    again = start("cron", "run", cwd=tmp_path)
    wait_until(lambda: jobs(tmp_path)[0]["lastStatus"] == "interrupted")
    code, err = ended(again, signal.SIGTERM)
    assert code == 143
    assert (
        f"was interrupted, because its process died; resume it with: gen -p PROMPT --session {session}" in err
    )
    assert gen("sessions", "show", session, "--json", cwd=tmp_path).json["status"] == "interrupted"
    assert (jobs(tmp_path)[0]["runs"], jobs(tmp_path)[0]["missed"]) == (1, 0)


def test_an_interrupt_stops_what_runs_and_says_so(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "never", "delay_ms": 600_000}])
    job = gen("cron", "add", "@daily", "slow", "--model", model, "--json", cwd=tmp_path).json["id"]
    make_due(job)
    process = start("cron", "run", cwd=tmp_path)
    wait_until(lambda: jobs(tmp_path)[0]["lastStatus"] == "running")
    code, err = ended(process, signal.SIGINT)
    (left,) = jobs(tmp_path)
    assert (code, left["lastStatus"], left["running"]) == (130, "cancelled", False)
    assert "was cancelled" in err and "Traceback" not in err


def test_missed_runs_are_told_once_when_somebody_is_there_again(tmp_path: Path) -> None:
    job = gen("cron", "add", "every 1h", "look", "--json", cwd=tmp_path).json["id"]
    with closing(sqlite3.connect(database())) as file, file:
        (body,) = file.execute("SELECT body FROM gen_job").fetchone()
        later = (int(stamp()[14:16]) + 30) % 60  # none is due while the test runs
        created, due = (f"2026-01-01T{hour}:{later:02}:00.000000Z" for hour in ("00", "05"))
        told = json.dumps({**json.loads(body), "created_at": created, "due": due})
        file.execute("UPDATE gen_job SET due = ?, body = ?", (due, told))
    process = start("cron", "run", cwd=tmp_path)
    wait_until(lambda: jobs(tmp_path)[0]["missed"] > 0)
    _, err = ended(process, signal.SIGINT)
    (left,) = jobs(tmp_path)
    assert err.count(f"[The scheduled job {job} (look)]: ") == 1
    assert "runs since 2026-01-01" in err and left["missed"] == 1_000
    assert (left["next"] > stamp(), left["runs"], left["lastStatus"]) == (True, 0, "missed")
