"""What a command sees of our environment."""

import os
from pathlib import Path

import pytest

from gencode.core.errors import ToolError
from gencode.providers.vendors import VENDORS
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.environment import PROCESS_MARK, EnvironmentFilter, system_path

ORDINARY = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "PWD": "/work",
    "OLDPWD": "/",
    "TERM": "xterm",
    "SSH_AUTH_SOCK": "/run/agent",
    "TOKENIZERS_PARALLELISM": "false",
    "KEYBOARD": "us",
    "MONKEY": "business",
    "XAUTHORITY": "/home/me/.Xauthority",
    "https_proxy": "http://127.0.0.1:3128",
}

SECRET_NAMES = [
    *(vendor.key for vendor in VENDORS if vendor.key),
    *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"),
    *("GITHUB_PAT", "SLACK_BOT_TOKEN", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PASS", "VAULT_SECRET", "secret"),
    *("GEN_KEY", "GEN_API_TOKEN", "GEN_PASSWORD", "OPENAI_API_KEY_2", "openai_api_key", "MISTRAL_APIKEY"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "SSH_PASSPHRASE", "ANTHROPIC_CUSTOM_HEADERS", "NPM_AUTH", "KEY"),
    *("MYSQL_PWD", "SSHPASS", "DB_PWD", "SENTRY_DSN", "DSN"),
]

SECRET_VALUES = [
    *("sk-" + "ant-" + "a1-" * 8, "Bearer " + "sk-" + "proj-" + "0f" * 10, "ghp_" + "a1" * 18),
    *(
        "AKIA" + "A1" * 8,
        "AIza" + "a" * 35,
        "-----BEGIN OPENSSH PRIVATE" + " KEY-----",
        "xoxb-" + "1234567890",
    ),
    *("postgres://me:" + "pw@db.example.org/x", "https://" + "token@example.org/x.git"),
]

OTHER_TEXT = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "BASH_FUNC_ls%%"]

SPEC = [
    *("BASH_ENV", "ENV", "PROMPT_COMMAND", "GIT_DIR", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS", "PAGER"),
    *("LESSOPEN", "LESS", "RIPGREP_CONFIG_PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
    *("NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT"),
]
"""Section 12 of the permission semantics: what a reading command never sees."""


def test_a_search_path_keeps_what_no_folder_of_ours_can_fill(tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    (ws / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(ws / "bin")
    own = ["", ".", "bin", "../x", f"{ws}", f"{ws}/bin", f"{tmp_path}/link", f"{tmp_path}/x/../ws/bin"]
    kept = ["/usr/local/bin", "/usr/bin", f"{tmp_path}/ws-old/bin"]
    assert system_path(":".join([*own, *kept, *own]), [ws]) == ":".join(kept)
    assert system_path(":".join([*own, *kept]), [Path("/")]) == "/usr/local/bin:/usr/bin"
    assert system_path(".:bin", [ws]) == os.defpath


def test_an_ordinary_environment_stays() -> None:
    assert EnvironmentFilter().without_secrets(ORDINARY) == ORDINARY


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_variable_that_is_called_like_a_key_is_taken_out(name: str) -> None:
    assert EnvironmentFilter().without_secrets({**ORDINARY, name: "x"}) == ORDINARY


@pytest.mark.parametrize("value", SECRET_VALUES)
def test_a_variable_that_looks_like_a_key_is_taken_out(value: str) -> None:
    assert EnvironmentFilter().without_secrets({**ORDINARY, "INNOCENT": value}) == ORDINARY


def test_a_copy_of_a_key_is_taken_out_too() -> None:
    environ = {**ORDINARY, "ACME_API_KEY": "correct-horse-battery", "ACME": "user:correct-horse-battery@host"}
    assert EnvironmentFilter().without_secrets(environ) == ORDINARY


def test_a_key_that_is_a_path_takes_nothing_else_out() -> None:
    assert EnvironmentFilter().without_secrets({**ORDINARY, "MY_SECRETS": "/home/me/.Xauthority"}) == ORDINARY


def test_the_person_may_add_names_and_make_exceptions() -> None:
    scrub = EnvironmentFilter(drop=frozenset({"LANG"}), keep=frozenset({"GH_TOKEN"}))
    environ = {"LANG": "C", "GH_TOKEN": "ghp_" + "a1" * 18, "GL_TOKEN": "x", "HOME": "/"}
    assert scrub.without_secrets(environ) == {"GH_TOKEN": "ghp_" + "a1" * 18, "HOME": "/"}


@pytest.mark.parametrize("name", OTHER_TEXT)
def test_what_changes_the_meaning_of_a_text_is_taken_out(name: str) -> None:
    assert EnvironmentFilter().without_secrets({**ORDINARY, name: "() { evil; }"}) == ORDINARY


@pytest.mark.parametrize("name", SPEC)
def test_a_reading_command_sees_nothing_that_starts_programs(name: str, tmp_path: Path) -> None:
    read = EnvironmentFilter().read_only({**ORDINARY, name: "evil"}, tmp_path)
    assert read == EnvironmentFilter().read_only(ORDINARY, tmp_path)
    assert {variable: read[variable] for variable in ORDINARY} == ORDINARY


async def test_no_key_reaches_a_command_or_who_watches_it(
    commands: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRET_NAMES:
        monkeypatch.setenv(name, "canary-in-a-coal-mine")
    monkeypatch.setenv("HARMLESS", "yes")
    text = "read -r _ _ _ keeper _ < /proc/$PPID/stat; cat /proc/$keeper/environ /proc/$PPID/environ; env"
    ended = await commands.run(Command(text, tmp_path))
    assert (b"canary" in ended.output.head, ended.output.head.count(b"HARMLESS=yes")) == (False, 3)


async def test_an_environment_of_its_own_is_cleaned_like_ours(
    commands: CommandRunner, tmp_path: Path
) -> None:
    environ = {"ONE": "1", "MY_API_KEY": "2", PROCESS_MARK: "3", "PATH": os.environ["PATH"]}
    ended = await commands.run(Command(("env",), tmp_path, environ=environ))
    names = sorted(line.partition("=")[0] for line in ended.output.text().splitlines())
    assert (names, f"{PROCESS_MARK}=3" in ended.output.text()) == (
        sorted(["ONE", "PATH", PROCESS_MARK]),
        False,
    )


@pytest.mark.needs("git")
async def test_git_reads_without_writing_or_starting_anything(
    commands: CommandRunner, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repository = tmp_path / "repository"
    evil = f"touch {tmp_path}/evil; true"
    made = await commands.run(
        Command(
            f"""git init -q {repository} && cd {repository}
            git config user.email a@b && git config user.name a
            echo one > file && git add file && git commit -qm one && touch -d '1 hour ago' file
            git config core.fsmonitor '{evil}' && git config core.pager '{evil}'
            git config log.showSignature true && git config gpg.program '{evil}'
            printf '#!/bin/sh\\n{evil}\\n' > .git/hooks/post-index-change
            chmod +x .git/hooks/post-index-change""",
            tmp_path,
        )
    )
    assert (made.exit_code, made.output.text()) == (0, "")
    (tmp_path / "evil").unlink(missing_ok=True)
    before = (repository / ".git" / "index").read_bytes()
    read = Command("git status --short; git diff; git log --oneline | wc -l", repository, reads_only=True)
    ended = await commands.run(read)
    assert (ended.exit_code, ended.output.text().strip()) == (0, "1")
    assert ((repository / ".git" / "index").read_bytes() == before, (tmp_path / "evil").exists()) == (
        True,
        False,
    )


async def test_a_folder_for_hooks_that_is_not_empty_is_refused(
    commands: CommandRunner, state: Path, tmp_path: Path
) -> None:
    (state / "empty").mkdir(parents=True)
    (state / "empty" / "pre-commit").touch()
    with pytest.raises(ToolError, match="'pre-commit'"):
        await commands.run(Command("true", tmp_path, reads_only=True))
