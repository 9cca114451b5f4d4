"""What an enclosed command can do with files: real commands behind every wall of this machine."""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from gencode.sandbox.guarded_paths import guarded_state, touched_paths
from gencode.sandbox.profile import SandboxProfile
from tests.sandbox.conftest import built, wall_named
from tests.sandbox.yard import BASH, Ended, Yard

WRITERS = {
    "bash": "echo new > {path}",
    "nested bash": "bash -c 'bash -c \"echo new > {path}\"'",
    "python": 'python3 -c \'open("{path}", "w").write("new")\'',
    "a child in a session of its own": "setsid --wait bash -c 'echo new > {path}'",
    "a background child": "(echo new > {path}) & wait $!",
    "a copy": "cp src/a {path}",
    "a move": "echo new > moving; mv moving {path}",
}
PLACES = {
    "the home": "$HOME/new",
    "a temporary folder that is not its own": "../new",
    "a folder beside the workspace": "../outside/new",
    "a file outside": "../outside/old",
    "the root": "/gencode-new",
    "a link in the workspace": "link/new",
    "a linked file in the workspace": "linked",
}


def untouched(yard: Yard, text: str) -> Ended:
    """Run a command that must not change anything."""
    before = yard.everything()
    ended = yard.bash(text)
    assert yard.everything() == before
    return ended


def test_a_command_writes_in_the_workspace_and_in_its_temporary_folder(yard: Yard) -> None:
    ended = yard.bash(
        "echo one > a; mkdir -p b/c; mv a b/c; ln -s b d; echo two > $TMPDIR/e; rm -r src; cat b/c/a"
    )
    assert ended == Ended(0, "one\n", "")
    assert yard.everything() == {
        "home/.gen/gencode.db": "settled\n",
        "outside/old": "old\n",
        "temp/e": "two\n",
        "workspace/.gen/settings.toml": "settled\n",
        "workspace/.git/config": "settled\n",
        "workspace/b/c/a": "one\n",
        "workspace/d": "-> b",
    }


def test_a_command_reads_what_the_person_can(yard: Yard) -> None:
    assert yard.bash("cat ../outside/old .gen/settings.toml; test -r /etc/passwd") == Ended(
        0, "old\nsettled\n", ""
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_command_cannot_write_elsewhere(yard: Yard, place: str) -> None:
    (yard.workspace / "link").symlink_to(yard.outside)
    (yard.workspace / "linked").symlink_to(yard.outside / "old")
    assert untouched(yard, f"echo new > {PLACES[place]}").code != 0


@pytest.mark.parametrize("writer", WRITERS)
def test_nobody_the_command_starts_can_either(yard: Yard, writer: str) -> None:
    (yard.workspace / "src" / "a").write_text("new")
    path = yard.outside / "new"
    yard.bash(WRITERS[writer].format(path=path))
    assert not path.exists()
    yard.bash(WRITERS[writer].format(path=yard.workspace / "new"))
    assert (yard.workspace / "new").read_text().strip() == "new"


@pytest.mark.parametrize(
    "text", ["ln ../outside/old x", "mv ../outside/old x", "rm ../outside/old", "mv ../outside ../x"]
)
def test_nothing_outside_is_linked_moved_or_removed(yard: Yard, text: str) -> None:
    ended = yard.bash(text)
    old = yard.outside / "old"
    assert (ended.code != 0, old.read_text(), old.stat().st_nlink) == (True, "old\n", 1)


def test_a_command_uses_the_usual_devices(yard: Yard) -> None:
    ended = yard.bash("echo gone > /dev/null; echo out > /dev/stdout; head -c 2 /dev/zero | wc -c")
    assert ended == Ended(0, "out\n2\n", "")


def test_an_open_folder_is_no_way_out(yard: Yard) -> None:
    if yard.wall.name == "bubblewrap":
        pytest.skip("bubblewrap leaves open files alone; whoever starts it closes them")
    folder = os.open(yard.outside, os.O_RDONLY)
    try:
        ended = yard.bash(f"echo new > /proc/self/fd/{folder}/new", files=[folder])
    finally:
        os.close(folder)
    assert (ended.code != 0, sorted(yard.outside.iterdir())) == (True, [yard.outside / "old"])


@pytest.mark.parametrize(
    "text",
    [
        "echo new > .git/hooks/pre-commit",
        "echo new >> .git/config",
        "echo new > .git/c; mv -f .git/c .git/config; rm -f .git/c; false",
        "rm -rf .git/hooks",
        "mv .git .moved",
        "mv .git/hooks .git/moved",
        "echo new > .gen/settings.toml",
        "rm -rf .gen",
        "mv .gen .moved",
        "ln -sfn ../outside .gen/agents",
        "chmod 777 .git/hooks",
    ],
)
def test_what_other_programs_obey_cannot_be_changed(strong: Yard, text: str) -> None:
    plan = strong.plan()
    before = guarded_state(plan.watched())
    assert untouched(strong, text).code != 0
    assert touched_paths(before, guarded_state(plan.watched())) == []


def test_what_other_programs_obey_is_looked_at_afterwards(yard: Yard) -> None:
    """Landlock alone cannot keep it from being changed; nobody can where it does not exist yet."""
    (yard.workspace / ".git" / "config").unlink()
    plan = yard.plan()
    before = guarded_state(plan.watched())
    yard.bash("echo new > .git/config; echo '/evil' > .git/commondir")
    git = yard.workspace / ".git"
    assert touched_paths(before, guarded_state(plan.watched())) == [git / "commondir", git / "config"]


def test_the_rest_of_gits_folder_can_be_written(strong: Yard) -> None:
    assert (
        strong.bash("mkdir -p .git/objects/ab; echo x > .git/index.lock; mv .git/index.lock .git/index").code
        == 0
    )
    assert (strong.workspace / ".git" / "index").read_text() == "x\n"


@pytest.mark.needs("git")
def test_git_commits_and_its_settings_stay(strong: Yard) -> None:
    git = "git -c user.name=A -c user.email=a@example.org"
    shutil.rmtree(strong.workspace / ".git")
    subprocess.run(["git", "init", "-q", strong.workspace], check=True)
    before = (strong.workspace / ".git" / "config").read_text()
    ended = strong.bash(f"echo x > file; {git} add file; {git} commit -qm one; git log --format=%s")
    assert ended == Ended(0, "one\n", "")
    assert strong.bash("git config core.fsmonitor ./evil").code != 0
    assert (strong.workspace / ".git" / "config").read_text() == before


@pytest.mark.needs("git")
def test_a_new_repository_is_told(yard: Yard) -> None:
    shutil.rmtree(yard.workspace / ".git")
    plan = yard.plan()
    before = guarded_state(plan.watched())
    assert yard.bash("git init -q .").code == 0
    git = yard.workspace / ".git"
    assert touched_paths(before, guarded_state(plan.watched())) == [git / "config", git / "hooks"]


@pytest.mark.parametrize(
    "text",
    [
        "echo new > lib/inner/.git/hooks/post-checkout",
        "echo '[core] fsmonitor = ./evil' >> lib/inner/.git/config",
        "mv lib/inner/.git lib/inner/x",
        "mv lib gone",
    ],
)
def test_a_repository_inside_the_workspace_is_guarded_as_well(strong: Yard, text: str) -> None:
    inner = strong.workspace / "lib" / "inner"
    (inner / ".git" / "hooks").mkdir(parents=True)
    (inner / ".git" / "config").write_text("settled\n")
    plan = strong.plan()
    before = guarded_state(plan.watched())
    assert strong.bash(text).code != 0
    assert touched_paths(before, guarded_state(plan.watched())) == []
    assert strong.bash("echo x > lib/inner/.git/index; echo x > lib/inner/file").code == 0


@pytest.mark.needs("git")
def test_a_repository_that_a_command_made_is_its_own(strong: Yard) -> None:
    strong.plan()  # as it was before the first command
    made = "git init -q lib; cd lib; git config user.name me"
    assert (strong.bash(made).code, strong.bash("cd lib; git config user.name you").code) == (0, 0)
    assert strong.bash("rm -rf lib").code == 0


def test_what_no_wall_can_guard_is_told(yard: Yard) -> None:
    """A link can be replaced where it is, and git itself writes the list of a rebase."""
    (yard.workspace / ".git").rename(yard.base / "workspace" / "kept")
    (yard.workspace / ".git").symlink_to("kept")
    plan = yard.plan()
    before = guarded_state(plan.watched())
    todo = "rebase-merge/git-rebase-todo"
    yard.bash(f"mkdir -p .git/rebase-merge; echo exec ./evil > .git/{todo}")
    assert touched_paths(before, guarded_state(plan.watched())) == [yard.workspace / ".git" / todo]
    yard.bash("rm .git; mkdir .git")
    assert yard.workspace / ".git" in touched_paths(before, guarded_state(plan.watched()))


def test_hidden_places_cannot_be_read(strong: Yard) -> None:
    skills = strong.base / "home" / ".gen" / "skills"
    skills.mkdir()
    (skills / "a.md").write_text("A skill.\n")
    ended = strong.bash('ls -A "$HOME/.gen"; cat "$HOME/.gen/skills/a.md"; cat "$HOME/.gen/gencode.db"')
    assert (ended.code, ended.out) == (1, "skills\nA skill.\n")


def test_the_wall_cannot_be_taken_down(strong: Yard) -> None:
    outside = shlex.quote(str(strong.outside / "new"))
    deed = f"mount -o remount,rw,bind /; umount -l .git/config; echo new > {outside}; echo new >> .git/config"
    ended = untouched(strong, f"{deed}; unshare -Urm bash -c {shlex.quote(deed)}; unshare -m bash -c true")
    assert ended.code != 0


def test_programs_get_shared_memory_and_terminals_of_their_own(strong: Yard) -> None:
    text = "import multiprocessing, os, pty; multiprocessing.Lock(); os.write(pty.openpty()[0], b'x')"
    assert strong.bash(f"python3 -c {shlex.quote(text)}") == Ended(0, "", "")


OPENED = """
find /proc -type f -exec bash -c 'for file; do { :; } 3>>"$file" && echo "$file"; done' - {} + 2>/dev/null
"""
"""Opens all files of /proc for writing, one by one, says which could be opened, and writes nothing."""
NOBODY = 65534


def opened(said: str) -> tuple[list[str], set[str]]:
    """The files that could be opened and are of no process, and the processes of the others."""
    paths = [line.split("/") for line in said.splitlines()]
    return ["/".join(path) for path in paths if not path[2].isdecimal()], {
        path[2] for path in paths if path[2].isdecimal()
    }


@pytest.mark.skipif(not Path("/proc/sys").is_dir(), reason="there is no /proc")
@pytest.mark.parametrize("network", [False, True])
def test_of_proc_a_command_can_write_at_most_what_belongs_to_its_own_processes(
    yard: Yard, network: bool
) -> None:
    ended = yard.bash(f"{OPENED}\nls /proc", network=network)
    files, processes = opened("\n".join(line for line in ended.out.splitlines() if "/" in line))
    assert files == []
    if yard.wall.name.startswith("bubblewrap"):
        assert str(os.getpid()) not in ended.out.splitlines()  # those that it sees are all its own
    else:
        assert processes == set()


@pytest.mark.needs("bwrap")
@pytest.mark.needs("unshare")
def test_the_same_for_somebody_without_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("all the other tests already run without privileges")
    with tempfile.TemporaryDirectory() as name:
        yard = Yard.build(Path(name), wall_named("bubblewrap"))
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: NOBODY)
            argv = yard.argv(*BASH, f"id -u; unshare --user true || echo refused; {OPENED}")
        ended = subprocess.run(
            argv,
            cwd=yard.workspace,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    if "namespace" in ended.stderr:
        pytest.skip(ended.stderr)
    users, said = ended.stdout.split("\n", 2)[:2], ended.stdout.split("\n", 2)[2]
    files, processes = opened(said)
    assert (users, files, bool(processes)) == ([str(NOBODY), "refused"], [], True)


def test_the_kernel_is_not_the_commands_though_the_whole_machine_is_its_workspace(strong: Yard) -> None:
    plan = SandboxProfile((Path("/"),), strong.base / "temp")
    attempts = "for file in /proc/sys/kernel/core_pattern /sys/kernel/uevent_helper /sys/kernel/profiling; do"
    text = f'{attempts} {{ :; }} 3>>"$file" && echo "$file"; done; echo new > {strong.outside}/new'
    ended = subprocess.run(
        strong.wall.enclose([*BASH, text], plan), cwd="/", capture_output=True, text=True, check=False
    )
    assert (ended.stdout, (strong.outside / "new").read_text()) == ("", "new\n")


@pytest.mark.needs("bwrap")
def test_a_command_under_bubblewrap_has_a_name_of_the_machine_of_its_own(tmp_path: Path) -> None:
    own = built("bubblewrap", tmp_path).bash("readlink /proc/self/ns/uts").out.strip()
    assert own not in ("", str(Path("/proc/self/ns/uts").readlink()))
