"""A repository cannot have git start its programs in a command that only reads."""

import os
import subprocess
from pathlib import Path

import pytest

from gencode.core.errors import ToolError
from gencode.runtime.processes.command import Command
from gencode.runtime.processes.commands import Commands
from gencode.runtime.processes.environment import Scrub
from gencode.runtime.processes.git_programs import may_run_git, neutral_settings

pytestmark = pytest.mark.needs("git")

READING = ("git status", "git diff", "git log -p", "git log --format=%G?", "git blame a.txt", "git show")

HOSTILE = """
[core]
    fsmonitor = "touch {0}; false"
    pager = "touch {0}; cat"
    hooksPath = {1}
    sshCommand = "touch {0}"
    alternateRefsCommand = "touch {0}"
[diff]
    external = "touch {0}"
[diff "Evil.One"]
    textconv = "touch {0}; cat"
    command = "touch {0}"
[filter "evil"]
    clean = "touch {0}; cat"
    smudge = "touch {0}; cat"
    process = "touch {0}"
    required = true
[gpg]
    program = "touch {0}"
[gpg "ssh"]
    program = "touch {0}"
[log]
    showSignature = true
[alias]
    status = "!touch {0}"
"""


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def plainly(folder: Path, *words: str) -> None:
    """Git as anybody would run it."""
    subprocess.run(["git", *words], cwd=folder, check=False, capture_output=True)


def repository(folder: Path) -> Path:
    """A repository with one commit and one change."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitattributes").write_text("*.txt filter=evil diff=Evil.One\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "a.txt").write_text("two\n")
    return folder


def poison(config: Path, canary: Path) -> None:
    with config.open("a") as file:
        file.write(HOSTILE.format(canary, config.parent))


async def read_all(folder: Path, tmp_path: Path) -> None:
    async with Commands(tmp_path / "state") as commands:
        for text in READING:
            await commands.run(Command(text, folder, seconds=30, reads_only=True))


async def test_what_a_repository_names_is_started_by_plain_git_and_never_by_ours(tmp_path: Path) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    poison(folder / ".git" / "config", canary)
    await read_all(folder, tmp_path)
    assert not canary.exists()
    plainly(folder, "status")
    assert canary.exists()


async def test_what_a_submodule_names_is_not_started_either(tmp_path: Path) -> None:
    inner, folder, canary = repository(tmp_path / "inner"), repository(tmp_path / "ws"), tmp_path / "canary"
    git(folder, "submodule", "--quiet", "add", str(inner), "deep")
    git(folder, "config", "--file", ".gitmodules", "submodule.deep.ignore", "none")
    git(folder, "add", ".gitmodules")
    poison(folder / ".git" / "modules" / "deep" / "config", canary)
    (folder / "deep" / "a.txt").write_text("three\n")
    await read_all(folder, tmp_path)
    (folder / ".gitmodules").unlink()
    await read_all(folder, tmp_path)
    git(folder, "config", "submodule.deep.ignore", "none")
    await read_all(folder, tmp_path)
    assert not canary.exists()
    plainly(folder, "status")
    assert canary.exists()


async def test_what_an_included_file_names_is_not_started(tmp_path: Path) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    poison(folder / ".git" / "more", canary)
    git(folder, "config", "include.path", "more")
    await read_all(folder, tmp_path)
    assert not canary.exists()


async def test_a_harmless_repository_is_read_as_ever(tmp_path: Path) -> None:
    folder = repository(tmp_path / "ws")
    async with Commands(tmp_path / "state") as commands:
        ended = await commands.run(Command("git diff --stat", folder, seconds=30, reads_only=True))
    assert (ended.exit_code, "a.txt | 2 +-" in ended.output.text()) == (0, True)


def test_the_settings_are_those_of_the_repository_and_not_the_persons(tmp_path: Path, home: Path) -> None:
    folder = repository(tmp_path / "ws")
    environ = Scrub().reading(os.environ, tmp_path)
    (home / ".gitconfig").write_text('[filter "lfs"]\nclean = git-lfs clean\n')
    assert neutral_settings(folder, environ) == {}
    git(folder, "config", "filter.own.clean", "cat")
    git(folder, "config", "filter.own.required", "true")
    (folder / "below").mkdir()
    expected = {"filter.own.clean": "", "filter.own.required": "false"}
    assert neutral_settings(folder / "below", environ) == expected
    assert neutral_settings(tmp_path, environ) == {}


def test_a_configuration_that_never_ends_is_an_error_and_nobody_waits_for_it(tmp_path: Path) -> None:
    folder = repository(tmp_path / "ws")
    (folder / ".git" / "config").unlink()
    os.mkfifo(folder / ".git" / "config")
    with pytest.raises(ToolError, match="git is not run in it"):
        neutral_settings(folder, Scrub().reading(os.environ, tmp_path))


@pytest.mark.parametrize("text", ["git status", 'g"i"t log', "g\\it diff", "$'\\x67it' log", "ls; git show"])
def test_git_is_suspected_however_it_is_spelled(text: str) -> None:
    assert may_run_git(text)


def test_other_commands_pay_nothing() -> None:
    assert not may_run_git("ls -la && cat README.md")
