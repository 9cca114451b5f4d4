"""The programs of `examples/programs` work, each as a person would start it, on the offline model."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from tests.house.source import ROOT

PROGRAMS = ROOT / "examples" / "programs"
SECONDS = 120


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The shop of the tutorials, with the change that is to be reviewed checked out."""
    folder = tmp_path / "shop"
    subprocess.run(["sh", ROOT / "examples/tutorial/make-shop", folder], check=True, capture_output=True)
    subprocess.run(["git", "switch", "-q", "discount"], cwd=folder, check=True)
    return folder


def test_the_script_of_the_tutorials_leaves_a_folder_alone(project: Path) -> None:
    script = ROOT / "examples/tutorial/make-shop"
    again = subprocess.run(["sh", script, "shop"], cwd=project.parent, capture_output=True, check=False)
    assert again.returncode == 1
    assert again.stderr == b"shop already exists: cd shop, or choose another name\n"


def run(program: str, *words: str, cwd: Path, given: str = "") -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / program, *words],
        cwd=cwd,
        env={**os.environ, "GEN_MODEL": "offline"},
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(folder: Path) -> Generator[tuple[str, str]]:
    """`gen serve` in a folder: its address and token."""
    command = [sys.executable, "-m", "gencode", "serve", "--json", "--model", "offline"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            told = json.loads(server.stdout.readline())
            yield told["url"], told["token"]
        finally:
            server.terminate()


def test_the_review_bot_reports_what_three_agents_say(project: Path) -> None:
    report = run("review_bot.py", "main", cwd=project)
    assert [line for line in report.splitlines() if line.startswith("#")][:1] == ["# Review"]
    assert [look for look in ("Security", "Tests", "Callers") if f"## {look}\n" not in report] == []
    assert report.count("completed: ") == 3


def test_the_chat_bot_answers_each_line_in_one_conversation(project: Path) -> None:
    with serving(project) as (url, token):
        asked = ["Where is the total?", "Where are discounts?"]
        said = run("chat_bot.py", url, token, "room", cwd=project, given="\n".join(asked))
    expected = [f"> {asked[0]}", "shop/cart.py", f"> {asked[1]}", "shop/discount.py"]
    places = [said.find(each) for each in expected]
    assert -1 < places[0] < places[1] < places[2] < places[3]


def test_the_nightly_job_writes_a_dated_report(project: Path) -> None:
    run("nightly.py", "reports", "Where is the total of a cart?", cwd=project)
    report = (project / "reports" / f"{date.today():%Y-%m-%d}.md").read_text()
    assert ("# Where is the total of a cart?" in report, "shop/cart.py:4" in report) == (True, True)


def test_a_provider_of_ones_own_answers_an_agent(project: Path) -> None:
    (project / "note.txt").write_text("the database\na database\n")
    assert run("custom_provider.py", cwd=project).splitlines()[0].startswith("completed It is in ")


def test_the_listener_writes_each_finished_task_once(project: Path) -> None:
    for _ in range(2):
        run("nightly.py", "reports", "Where is the total of a cart?", cwd=project)
        run("event_listener.py", "tasks.csv", cwd=project)
    with (project / "tasks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["agent"], row["status"]) for row in rows] == [("Explore", "completed")] * 2
    assert len({row["task"] for row in rows}) == 2


def test_the_dashboard_shows_every_task(project: Path) -> None:
    run("nightly.py", "reports", "Where is the total of a cart?", cwd=project)
    with serving(project) as (url, token):
        shown = run("dashboard.py", url, token, "--once", cwd=project)
    assert [(line.split()[:2]) for line in shown.splitlines()] == [["✓", "Explore"]]
