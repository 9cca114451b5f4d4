"""A repository cannot have git start its programs in a command that only reads."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gencode.core.errors import ToolError
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.environment import EnvironmentFilter
from gencode.sandbox.processes.git_programs import may_run_git, neutral_settings
from tests.sandbox.processes.poisoned_repository import git, plainly, poison, repository

pytestmark = pytest.mark.needs("git")

READING = (
    *(
        "git status",
        "git diff",
        "git diff HEAD",
        "git diff --cached",
        "git log -p",
        "git log -p -m",
        "git show",
    ),
    *("git log --format=%G?", "git log --pretty=evil", "git blame a.txt", "git describe --always --dirty"),
    *("git shortlog HEAD", "git ls-files -m -d -o", "git branch -vv", "git tag -l", "git remote -v"),
    *("git stash list", "git worktree list", "git reflog", "git cat-file -p HEAD", "git show"),
)
INTO_SUBMODULES = (
    "git status",
    "git diff",
    "git diff HEAD",
    "git log -p",
    "git show",
    "git describe --dirty",
)


async def read_all(folder: Path, tmp_path: Path, texts: tuple[str, ...] = READING) -> None:
    async with CommandRunner(tmp_path / "state") as commands:
        for text in texts:
            await commands.run(Command(text, folder, seconds=30, reads_only=True))


async def test_what_a_repository_names_is_started_by_plain_git_and_never_by_ours(tmp_path: Path) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    poison(folder / ".git" / "config", canary)
    await read_all(folder, tmp_path)
    assert not canary.exists()
    plainly(folder, "status")
    assert canary.exists()


async def test_passwords_in_the_urls_of_remotes_are_not_shown(tmp_path: Path) -> None:
    folder = repository(tmp_path / "ws")
    for name, url in (
        ("one", "https://me:s3cret@example.com/x.git"),
        ("two", "https://me:s3cret2@example.com/x.git"),
        ("three", "https://ghp_s3cret@example.com/y.git"),
        ("four", "ssh://git:s3cret@example.com/z.git"),
        ("five", "ssh://git@example.com/z.git"),
    ):
        git(folder, "remote", "add", name, url)
    git(folder, "config", "remote.one.pushurl", "https://me:s3cret@example.com/push.git")
    git(folder, "config", "--global", "remote.six.url", "https://me:s3cret@example.com/six.git")
    git(folder, "config", "branch.main.remote", "https://me:s3cret@example.com/main.git")
    said: dict[str, str] = {}
    async with CommandRunner(tmp_path / "state") as commands:
        for text in (
            "git remote -v",
            "git config --get branch.main.remote",
            *(f"git remote get-url {name}" for name in ("one", "two", "three", "four", "five")),
            *(f"git config --get remote.{name}.url" for name in ("one", "two", "four", "five", "six")),
        ):
            ended = await commands.run(Command(text, folder, seconds=30, reads_only=True))
            said[text] = ended.output.text()
    assert "s3cret" not in str(said)
    assert said["git remote get-url one"] == "https://***@example.com/x.git\n"
    assert said["git remote get-url two"] == "https://****@example.com/x.git\n"
    assert said["git remote get-url three"] == "https://***@example.com/y.git\n"
    assert said["git config --get remote.four.url"] == "ssh://***@example.com/z.git\n"
    assert said["git config --get remote.six.url"] == "https://***@example.com/six.git\n"
    assert said["git remote get-url five"] == said["git config --get remote.five.url"]
    assert said["git remote get-url five"] == "ssh://git@example.com/z.git\n"
    lines = said["git remote -v"].splitlines()
    assert "one\thttps://***@example.com/x.git (fetch)" in lines
    assert "one\thttps://***@example.com/push.git (push)" in lines


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


def with_submodule(tmp_path: Path, *, name: str = "deep") -> tuple[Path, Path]:
    """A repository with a changed submodule that names programs, and the file that these would make."""
    inner, folder, canary = repository(tmp_path / "inner"), repository(tmp_path / "ws"), tmp_path / "canary"
    git(folder, "submodule", "--quiet", "add", "--name", name, str(inner), "deep")
    git(folder, "config", "--file", ".gitmodules", f"submodule.{name}.ignore", "none")
    git(folder, "add", ".gitmodules")
    git(folder, "commit", "--quiet", "-m", "second")
    git(folder, "config", "--remove-section", f"submodule.{name}")
    git(folder, "config", "diff.submodule", "diff")
    git(folder, "config", "status.submoduleSummary", "true")
    poison(folder / ".git" / "modules" / name / "config", canary)
    (folder / "deep" / "a.txt").write_text("three\n")
    return folder, canary


@pytest.mark.parametrize(
    "name", ["deep", "a.b", "UPPER.ignore", "with blank", 'quo"te', "a=b", "#x;y", "é\t\\"]
)
async def test_a_submodule_of_any_name_is_left_alone(tmp_path: Path, name: str) -> None:
    folder, canary = with_submodule(tmp_path, name=name)
    await read_all(folder, tmp_path, INTO_SUBMODULES)
    (folder / ".gitmodules").unlink()
    await read_all(folder, tmp_path, INTO_SUBMODULES)
    git(folder, "rm", "--quiet", "--cached", ".gitmodules")
    await read_all(folder, tmp_path, INTO_SUBMODULES)
    assert not canary.exists()
    plainly(folder, "status")
    assert canary.exists()


async def test_a_submodule_of_a_submodule_is_left_alone(tmp_path: Path) -> None:
    folder, canary = with_submodule(tmp_path)
    inner = repository(tmp_path / "innermost")
    git(folder / "deep", "-c", "core.fsmonitor=", "submodule", "--quiet", "add", str(inner), "deeper")
    canary.unlink(missing_ok=True)
    poison(folder / ".git" / "modules" / "deep" / "modules" / "deeper" / "config", canary)
    (folder / "deep" / "deeper" / "a.txt").write_text("four\n")
    for place in (folder, folder / "deep", folder / "deep" / "deeper"):
        await read_all(place, tmp_path)
    assert not canary.exists()
    plainly(folder, "status")
    assert canary.exists()


def broken_modules(folder: Path) -> None:
    """Commit a `.gitmodules` that breaks off, and remove the file: git reads its beginning and goes on."""
    with (folder / ".gitmodules").open("a") as file:
        file.write("[garbage")
    git(folder, "add", "-f", ".gitmodules")
    git(folder, "commit", "--quiet", "-m", "broken")
    (folder / ".gitmodules").unlink()


@pytest.mark.parametrize("text", ["git log -p", "git diff", "git diff HEAD", "git status", "git show"])
async def test_git_is_refused_where_the_names_of_submodules_break_off(tmp_path: Path, text: str) -> None:
    folder, canary = with_submodule(tmp_path)
    broken_modules(folder)
    canary.unlink(missing_ok=True)
    async with CommandRunner(tmp_path / "state") as commands:
        with pytest.raises(ToolError, match="gitmodules is broken"):
            await commands.run(Command(text, folder, seconds=30, reads_only=True))
    assert not canary.exists()
    plainly(folder, "diff")
    assert canary.exists()


def test_names_that_git_does_not_read_may_be_broken_and_are_taken_as_far_as_they_go(tmp_path: Path) -> None:
    folder, _ = with_submodule(tmp_path)
    whole = (folder / ".gitmodules").read_text()
    broken_modules(folder)
    (folder / ".gitmodules").write_text(whole.replace("deep", "renamed"))
    settings = neutral_settings(folder, EnvironmentFilter().read_only(os.environ, tmp_path))
    assert settings == {"submodule.deep.ignore": "all", "submodule.renamed.ignore": "all"}


async def test_a_conflict_in_the_names_of_submodules_can_be_looked_at(tmp_path: Path) -> None:
    folder, canary = with_submodule(tmp_path)
    names = folder / ".gitmodules"
    whole = names.read_text()
    git(folder, "stash", "--quiet")
    for branch, url in (("one", "1"), ("two", "2")):
        git(folder, "checkout", "--quiet", "-b", branch, "main")
        names.write_text(whole.replace("url = ", f"url = {url}"))
        git(folder, "commit", "--quiet", "-m", branch, ".gitmodules")
    plainly(folder, "-c", "user.name=n", "-c", "user.email=n@example.org", "merge", "one")
    assert "<<<<<<<" in names.read_text()
    canary.unlink(missing_ok=True)
    async with CommandRunner(tmp_path / "state") as commands:
        ended = await commands.run(Command("git status --short", folder, seconds=30, reads_only=True))
        await read_all(folder, tmp_path)
    assert ("UU .gitmodules" in ended.output.text(), canary.exists()) == (True, False)


@pytest.mark.parametrize("where", ["config", "included", "config.worktree"])
def test_git_is_refused_where_its_configuration_breaks_off(tmp_path: Path, where: str) -> None:
    folder = repository(tmp_path / "ws")
    git(folder, "config", "extensions.worktreeConfig", "true")
    git(folder, "config", "include.path", "included")
    with (folder / ".git" / where).open("a") as file:
        file.write('[filter "x"]\nclean = evil\n[garbage')
    with pytest.raises(ToolError, match="cannot be read as a whole"):
        neutral_settings(folder, EnvironmentFilter().read_only(os.environ, tmp_path))


@pytest.mark.parametrize(("names", "length"), [(3_000, 10), (1, 200_000)])
async def test_git_is_refused_where_more_is_named_than_an_environment_holds(
    tmp_path: Path, names: int, length: int
) -> None:
    folder = repository(tmp_path / "ws")
    with (folder / ".git" / "config").open("a") as file:
        for number in range(names):
            file.write(f'[filter "{str(number).zfill(length)}"]\nclean = evil\n')
    async with CommandRunner(tmp_path / "state") as commands:
        with pytest.raises(ToolError, match="too many programs"):
            await commands.run(Command("git status", folder, seconds=30, reads_only=True))


def test_a_git_that_does_not_obey_is_refused(tmp_path: Path) -> None:
    folder = repository(tmp_path / "ws")
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec {shutil.which("git")} "$@"\n')
    old.chmod(0o755)
    environ = {**os.environ, "PATH": f"{old.parent}{os.pathsep}{os.environ['PATH']}"}
    with pytest.raises(ToolError, match=r"older than 2\.31"):
        neutral_settings(folder, EnvironmentFilter().read_only(environ, tmp_path))


async def test_git_behind_a_link_is_neutral_too(tmp_path: Path) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    (folder / "below").mkdir()
    poison(folder / ".git" / "config", canary)
    (tmp_path / "link").symlink_to(folder / "below")
    (folder / "below" / "a.txt").write_text("x\n")
    await read_all(tmp_path / "link", tmp_path)
    assert not canary.exists()


@pytest.mark.parametrize("key", ["diff.external", "diff.Evil.One.command", "diff.Evil.One.textconv"])
async def test_the_plain_difference_is_shown_where_a_repository_names_a_program_for_it(
    tmp_path: Path, key: str
) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    git(folder, "config", key, f"touch {canary};")
    (folder / "new.txt").write_text("brand new\n")
    (folder / "odd \"'$(touch pwned) name.txt").write_text("odd\n")
    (folder / "bytes.txt").write_bytes(b"a\0b\n")
    git(folder, "-c", f"{key}=", "add", "--intent-to-add", ".")
    async with CommandRunner(tmp_path / "state") as commands:
        ended = await commands.run(Command("git diff", folder, seconds=30, reads_only=True))
    shown = ended.output.text()
    assert (ended.exit_code, canary.exists(), (folder / "pwned").exists()) == (0, False, False)
    lines = [line for line in shown.splitlines() if line[:1] in "-+"]
    assert {"-one", "+two", "+brand new", "+odd", "--- a/a.txt", "+++ b/a.txt"} <= set(lines)
    assert "\0" not in shown


def sign(folder: Path) -> None:
    """Let the last commit be one with something that looks like a signature."""
    head = subprocess.run(["git", "cat-file", "commit", "HEAD"], cwd=folder, capture_output=True, check=True)
    lines, _, message = head.stdout.partition(b"\n\n")
    signature = b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n"
    written = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=folder,
        input=lines + signature + message,
        capture_output=True,
        check=True,
    )
    git(folder, "update-ref", "HEAD", written.stdout.decode().strip())


async def test_a_signature_is_not_looked_at(tmp_path: Path, home: Path) -> None:
    folder = repository(tmp_path / "ws")
    fake, canary = tmp_path / "bin" / "gpg", tmp_path / "canary"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {canary}\n")
    fake.chmod(0o755)
    sign(folder)
    git(folder, "config", "format.pretty", "%G? %H")
    git(folder, "config", "pretty.mine", "%GS %H")
    environ = {**os.environ, "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}
    async with CommandRunner(tmp_path / "state") as commands:
        for text in ("git log", "git log --pretty=mine", "git show", "git log --format=%G?"):
            await commands.run(Command(text, folder, seconds=30, reads_only=True, environ=environ))
    assert (canary.exists(), (home / ".gnupg").exists()) == (False, False)
    plainly(folder, "-c", f"gpg.program={fake}", "log")
    assert canary.exists()


async def test_nothing_is_written_into_the_repository(tmp_path: Path) -> None:
    folder = repository(tmp_path / "ws")
    git(folder, "config", "user.name", "n")
    git(folder, "config", "user.email", "n@example.org")
    git(folder, "config", "diff.Evil.One.textconv", "cat")
    git(folder, "config", "diff.Evil.One.cachetextconv", "true")
    git(folder, "config", "log.diffMerges", "remerge")
    before = {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")}
    await read_all(folder, tmp_path)
    after = {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")}
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert changed <= {".git", "index"}  # `git describe --dirty` notes there that a file was looked at
    plainly(folder, "diff")
    assert (folder / ".git" / "refs" / "notes").exists()


async def test_drivers_without_a_name_are_taken_away_too(tmp_path: Path) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    (folder / ".gitattributes").write_text("*.txt diff= filter= merge=\n")
    with (folder / ".git" / "config").open("a") as file:
        file.write(f'[filter ""]\nclean = touch {canary}; cat\n[diff ""]\ncommand = touch {canary}\n')
        file.write(f'textconv = touch {canary}\n[merge ""]\ndriver = touch {canary}\n')
    await read_all(folder, tmp_path)
    assert not canary.exists()
    plainly(folder, "diff")
    assert canary.exists()


async def test_what_an_included_file_names_is_not_started(tmp_path: Path) -> None:
    folder, canary = repository(tmp_path / "ws"), tmp_path / "canary"
    poison(folder / ".git" / "more", canary)
    git(folder, "config", "include.path", "more")
    await read_all(folder, tmp_path)
    assert not canary.exists()


async def test_a_harmless_repository_is_read_as_ever(tmp_path: Path) -> None:
    folder = repository(tmp_path / "ws")
    async with CommandRunner(tmp_path / "state") as commands:
        ended = await commands.run(Command("git diff --stat", folder, seconds=30, reads_only=True))
    assert (ended.exit_code, "a.txt | 2 +-" in ended.output.text()) == (0, True)


def test_the_settings_are_those_of_the_repository_and_not_the_persons(tmp_path: Path, home: Path) -> None:
    folder = repository(tmp_path / "ws")
    environ = EnvironmentFilter().read_only(os.environ, tmp_path)
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
    with pytest.raises(ToolError, match="takes too long"):
        neutral_settings(folder, EnvironmentFilter().read_only(os.environ, tmp_path))


@pytest.mark.parametrize("text", ["git status", 'g"i"t log', "g\\it diff", "$'\\x67it' log", "ls; git show"])
def test_git_is_suspected_however_it_is_spelled(text: str) -> None:
    assert may_run_git(text)


def test_other_commands_pay_nothing() -> None:
    assert not may_run_git("ls -la && cat README.md")
