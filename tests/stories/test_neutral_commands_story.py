"""What is allowed because it only reads starts nothing that a repository names, sandbox or not."""

import os
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.sandbox.processes.poisoned_repository import plainly, poison, repository

from gencode.core.events import CallDecided
from gencode.core.messages import ToolMessage
from gencode.core.task import transcript_of
from gencode.testing import call, says, scripted

WALLS = pytest.mark.parametrize("walls", ["off", "auto"])


class Given(NamedTuple):
    """What came of a command: whether it was let through, and what it wrote."""

    allowed: bool
    text: str


async def run(folder: Path, walls: str, commands: list[str], **settings: list[str] | str) -> list[Given]:
    """What these commands give an agent in a folder that is not trusted, and nobody is asked."""
    main = [says("", *(call("Bash", command=command) for command in commands)), says("done")]
    async with scripted(folder, settings={"sandbox": walls, **settings}, main=main) as gen:
        outcome = await gen.ask("go").outcome()
        events = await gen.history.events(outcome.agent_id)
    facts = [event.fact for event in events]
    decided = [fact.decision.action == "allow" for fact in facts if isinstance(fact, CallDecided)]
    messages = [message for message in transcript_of(events) if isinstance(message, ToolMessage)]
    results = [result.text for message in messages for result in message.results]
    return [Given(*each) for each in zip(decided, results, strict=True)]


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A repository that has git start something, one inside of it that does too, and what both would make."""
    folder, canary = repository(tmp_path / "ws"), tmp_path / "ws" / "canary"
    repository(folder / "vendor" / "x")
    (folder / "src").mkdir()
    for each in (folder, folder / "vendor" / "x"):
        poison(each / ".git" / "config", canary)
    return folder, canary


@pytest.mark.needs("git")
@WALLS
async def test_a_plain_shell_starts_nothing_that_the_repository_names(
    hostile: tuple[Path, Path], walls: str
) -> None:
    folder, canary = hostile
    commands = [
        *("sh -c 'git status'", "bash -c 'sh -c \"git diff\"'", "timeout 20 sh -c 'git log -p'", "git diff"),
        *("cd vendor/x && git status", "cd vendor && cd x && git diff", "git -C vendor/x log -p"),
        *("cd src && git -C ../vendor/x diff", "sh -c 'cd vendor/x; git show'", "(cd vendor/x && git diff)"),
    ]
    given = await run(folder, walls, commands)
    assert (canary.exists(), [each.allowed for each in given]) == (False, [True] * len(commands))
    plainly(folder, "status")
    assert canary.exists()


@pytest.mark.needs("git")
@WALLS
async def test_a_rule_for_git_counts_in_a_nested_repository_only_without_its_programs(
    hostile: tuple[Path, Path], walls: str
) -> None:
    folder, canary = hostile
    rules = ["Bash(git diff:*)", "Bash(git add:*)", "Bash(git -C vendor/x add:*)", "Bash(mkdir:*)"]
    commands = [
        *("cd vendor/x && git diff --check", "cd vendor/x && git diff --ext-diff; git diff"),
        *("mkdir -p new && git status", "cd vendor/x && git add -v a.txt", "git -C vendor/x add -v a.txt"),
    ]
    given = await run(folder, walls, commands, allow=rules)
    assert not canary.exists()
    assert given[3].text == "add 'a.txt'", "what a rule allows may still write"
    await run(folder, walls, ["cd src && git add -v ../a.txt"], allow=rules)
    assert canary.exists(), "in its own repository a rule is a rule"


@pytest.mark.needs("git")
async def test_git_outside_of_the_workspace_is_neither_read_only_nor_what_a_rule_meant(
    tmp_path: Path,
) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    poison(repository(tmp_path / "other") / ".git" / "config", canary)
    (folder / "link").symlink_to(tmp_path / "other")
    commands = [
        "cd ../other && git diff",
        "git -C ../other diff",
        "cd link && git diff",
        "cd link; git status",
    ]
    given = await run(folder, "off", commands, allow=["Bash(git diff:*)", "Bash(git status)"])
    assert ([each.allowed for each in given], canary.exists()) == ([False] * 4, False)
    named = f"git -C {tmp_path}/other diff"
    (given,) = await run(folder, "off", [named], allow=[f"Bash(git -C {tmp_path}/other diff:*)"])
    assert given.allowed, "a rule that names the folder means it"


@WALLS
async def test_programs_of_the_folder_are_not_found_by_the_names_of_those_that_read(
    tmp_path: Path, walls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, canary = tmp_path / "ws", tmp_path / "ws" / "canary"
    for place in (folder, folder / "bin", folder / "node_modules" / ".bin"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "ls").write_text(f"#!/bin/sh\ntouch {canary}\n")
        (place / "ls").chmod(0o755)
    (tmp_path / "linked").symlink_to(folder / "bin")
    entries = ["", ".", "./node_modules/.bin", "bin", f"{folder}/bin", f"{tmp_path}/linked"]
    for entry in entries:
        monkeypatch.setenv("PATH", f"{entry}:{os.environ['PATH']}")
    (given, second) = await run(folder, walls, ["ls", "sh -c ls"])
    assert (given.allowed, second.allowed, canary.exists()) == (True, True, False)
    assert "node_modules" in given.text
    await run(folder, walls, ["ls; :>x"], allow=["Bash"])
    assert canary.exists(), "what a rule allows finds programs as ever"


async def test_passwords_under_other_names_reach_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = ["MYSQL_PWD", "SSHPASS", "DB_PWD", "SENTRY_DSN", "DSN"]
    for name in hidden:
        monkeypatch.setenv(name, f"not-for-commands {name}")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:not-for-commands@db.example.org/x")
    monkeypatch.setenv("OLDPWD", str(tmp_path))
    (given,) = await run(tmp_path, "off", ["env"], permission_mode="dontAsk")
    assert "not-for-commands" not in given.text
    assert {f"PWD={tmp_path}", f"OLDPWD={tmp_path}"} <= set(given.text.splitlines())


@pytest.mark.needs("git")
async def test_an_empty_script_runs_where_nobody_can_be_asked(tmp_path: Path) -> None:
    (tmp_path / "seen.txt").touch()
    commands = ["trap '' TERM; ls", "eval ''; ls", "bash -c ''; ls"]
    given = await run(tmp_path, "off", commands, permission_mode="dontAsk")
    assert given == [Given(True, "seen.txt")] * 3
