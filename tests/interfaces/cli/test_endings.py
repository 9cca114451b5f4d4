"""Every ending has its exit code and, when it is not a good one, one plain sentence."""

import os
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import gencode
from gencode.core.errors import StoreTrouble
from gencode.interfaces.cli.main import exit_code
from tests.interfaces.cli.running import GEN, SECONDS, Ended, gen, script

OFFLINE = "the built-in offline search model answers"


def assert_one_sentence(ended: Ended, *pieces: str) -> None:
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("gen: ") and ended.err.count("\n") == 1
    assert [piece for piece in pieces if piece not in ended.err] == []


def test_the_version_is_told(tmp_path: Path) -> None:
    expected = Ended(0, f"gen {gencode.__version__}\n")
    assert gen("--version", cwd=tmp_path) == gen("-V", cwd=tmp_path) == expected


def test_gen_alone_without_a_terminal_says_how_to_ask(tmp_path: Path) -> None:
    ended = gen(cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert 'gen -p "your question"' in ended.err


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (("-p", "go", "--model", "offlin"), ("There is no model 'offlin'", "Did you mean offline")),
        (("-p", "go", "--model", "openai/gpt"), ("openai needs a key", "OPENAI_API_KEY")),
        (("-p", "go", "--model", "fast"), ("No model is set for the tier 'fast'", "settings.toml")),
        (("-p", "go", "--model", "scripted:none.json"), ("none.json cannot be read",)),
        (("-p", "go", "--agent", "Plam"), ("There is no agent 'Plam'", "Did you mean Plan")),
        (("-p", "go", "--permission-mode", "plam"), ("There is no permission mode 'plam'", "plan")),
        (("-p", "go", "--allow", "a b c"), ("is not a rule",)),
        (("-p", "go", "--cwd", "nowhere"), ("nowhere is not a folder", "--cwd")),
        (("-p", "go", "--session", "ffffffff"), ("'ffffffff'",)),
        (("-p", "go", "--continue", "--session", "ffffffff"), ("--session: not allowed with", "--continue")),
        (("-p", "go", "--no-offline"), ("--no-offline", "--model")),
        (("-p", "go", "--model", "offline", "--no-offline"), ("--no-offline",)),
        (("-p", "  "), ("The prompt is empty",)),
        (("-p", "go", "task", "list"), ("-p cannot be combined with the command 'task'",)),
        (("--continue", "doctor"), ("--continue cannot be combined with the command 'doctor'",)),
        (("taks", "list"), ("There is no command 'taks'", "task")),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], pieces: tuple[str, ...]) -> None:
    assert_one_sentence(gen(*words, cwd=tmp_path), *pieces)


def test_a_setting_that_does_not_exist_is_named(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text('modle = "offline"\n')
    assert_one_sentence(gen("-p", "go", cwd=tmp_path), "There is no setting 'modle'", "model")


def test_without_a_model_the_offline_one_answers_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "login.py").write_text("def check_password(password):\n    return password == 'x'\n")
    ended = gen("-p", "Where is the password checked?", cwd=tmp_path)
    assert (ended.code, ended.out.splitlines()[0].split()[0]) == (0, "login.py:1")
    assert ended.err.count("\n") == 1 and OFFLINE in ended.err


def test_an_offline_model_that_was_chosen_is_not_mentioned(tmp_path: Path) -> None:
    assert gen("-p", "list .", "--model", "offline", cwd=tmp_path).err == ""


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path, home: Path) -> None:
    assert gen("migrate", cwd=tmp_path).code == 0
    database = home / ".gen" / "gencode.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")
    before = database.read_bytes()
    for words in (("-p", "go"), ("task", "list"), ("migrate",)):
        assert_one_sentence(gen(*words, cwd=tmp_path), "has version 999", "upgrade GenCode")
    assert database.read_bytes() == before


def test_something_else_in_place_of_the_database_is_named(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "gencode.db").write_text("this is no database, " * 100)
    assert_one_sentence(gen("task", "list", cwd=tmp_path), "is not a database", "GEN_HOME")


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    home = str(tmp_path / "file" / "home")
    assert_one_sentence(gen("-p", "go", cwd=tmp_path, GEN_HOME=home), home, "cannot be opened")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_home_is_one_sentence(tmp_path: Path, home: Path) -> None:
    home.chmod(0o500)
    try:
        assert_one_sentence(gen("-p", "go", cwd=tmp_path), ".gen", "GEN_HOME")
    finally:
        home.chmod(0o700)


def test_a_fault_is_one_sentence_and_the_log_has_the_rest(tmp_path: Path, home: Path) -> None:
    """A second file beside the package stands in for a bug: it takes the place of a module we need."""
    (tmp_path / "tomllib.py").write_text("def loads(text):\n    raise RuntimeError('a bug')\n")
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text("")
    ended = gen("-p", "go", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    log = home / ".gen" / "logs" / "gen.log"
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"gen: GenCode crashed because of a bug. Details: {log}\n"
    assert "RuntimeError: a bug" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_an_open_pipe_that_stays_silent_is_not_waited_for(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "ok"}])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ended = subprocess.run(
            [*GEN, "-p", "go", "--model", model],
            cwd=tmp_path,
            stdin=theirs.fileno(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "ok\n")


@pytest.mark.parametrize(
    ("closed", "said"), [("<&-", "ok\n"), ("2>&-", "ok\n"), (">&-", ""), ("<&- >&- 2>&-", "")]
)
def test_streams_that_are_closed_are_done_without(tmp_path: Path, closed: str, said: str) -> None:
    model = script(tmp_path, main=[{"text": "ok"}])
    ended = subprocess.run(
        ["bash", "-c", f'exec "$@" {closed}', "gen", *GEN, "-p", "go", "--model", model],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


def test_a_row_that_cannot_be_read_is_one_sentence_and_the_rest_is_readable(
    tmp_path: Path, home: Path
) -> None:
    model = script(tmp_path, Explore=[{"text": "ok"}])
    words = ("task", "run", "Explore", "go", "--json", "--model", model)
    broken, whole = (gen(*words, cwd=tmp_path).json["agentId"] for _ in range(2))
    with closing(sqlite3.connect(home / ".gen" / "gencode.db")) as connection:
        connection.execute("UPDATE gen_journal SET body = 'garbage' WHERE task = ? AND seq = 2", (broken,))
        connection.commit()
    ended = gen("task", "export", broken, "-", cwd=tmp_path)
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert f"Fact 2 of task {broken} cannot be read" in ended.err
    assert f"with: gen task show {broken}" in ended.err
    assert gen("task", "show", whole, cwd=tmp_path).code == 0
    listed = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    assert {task["agentId"] for task in listed} == {broken, whole}


def test_a_disk_that_takes_no_more_is_no_mistake_and_what_was_said_is_printed(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    look = {"name": "Glob", "input": {"pattern": "*"}}
    turns = [{"text": f"part {number} {'x' * 2_000}", "calls": [look]} for number in range(100)]
    model = script(tmp_path, others=turns)
    words = ("task", "run", "Explore", "go", "--model", model, "--max-turns", "100")
    assert gen("migrate", cwd=tmp_path).code == 0
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -f 200; exec "$@"', "gen", *GEN, *words],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()[:1]) == (1, ["part"])
    assert "interrupted: The disk" in ended.stderr


@pytest.mark.parametrize(
    ("cause", "code"),
    [("SQLITE_FULL", 1), ("SQLITE_IOERR_WRITE", 1), ("SQLITE_CORRUPT", 1), ("SQLITE_READONLY", 2)],
)
def test_only_trouble_that_a_person_set_up_is_a_mistake(cause: str, code: int) -> None:
    error = sqlite3.OperationalError("trouble")
    error.sqlite_errorname = cause
    trouble = StoreTrouble("The database cannot be used.")
    trouble.__cause__ = error
    assert exit_code(trouble) == code


def test_neither_rich_nor_a_package_index_is_loaded_without_a_terminal(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "ok"}])
    ended = gen("-p", "go", "--model", model, cwd=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in ended.err.splitlines()}
    assert "gencode.interfaces.render.plain_text" in loaded
    assert (
        loaded & {"rich", "importlib.metadata", "gencode.interfaces.render.rich_panels", "textual"} == set()
    )


def test_a_terminal_that_speaks_only_ascii_gets_escapes(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "größer"}])
    text = gen("-p", "go", "--model", model, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (text.code, text.out) == (0, "gr\\xf6\\xdfer\n")
    json = gen("-p", "go", "--json", "--model", model, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert json.json["result"] == "größer"
