"""What an enclosure is made of, before anybody builds it."""

import socket
from pathlib import Path

import pytest

from gencode.sandbox.guarded_paths import guarded_names
from gencode.sandbox.profile import Access, SandboxProfile, layers, workspace_profile


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("work", "temp", "home/.gen"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def plan_of(base: Path, *, network: bool = False, **environ: str) -> SandboxProfile:
    return workspace_profile(
        base / "work", base / "temp", base / "home" / ".gen", network=network, environ=environ
    )


def places(plan: SandboxProfile, base: Path) -> list[tuple[str, Access]]:
    """The layers below a folder."""
    return [
        (str(place.relative_to(base)), access) for place, access in layers(plan) if place.is_relative_to(base)
    ]


def test_a_bare_workspace_is_writable_and_the_per_user_folder_hidden(base: Path) -> None:
    assert places(plan_of(base), base) == [
        ("work", Access.WRITE),
        ("temp", Access.WRITE),
        ("home/.gen", Access.HIDE),
    ]


def test_what_is_guarded_is_a_place_of_its_own_and_so_are_the_folders_above_it(base: Path) -> None:
    (base / "work/.git/hooks").mkdir(parents=True)
    (base / "work/.gen").mkdir()
    assert places(plan_of(base), base / "work") == [
        (".", Access.WRITE),
        (".git", Access.WRITE),
        (".gen", Access.READ),
        (".git/hooks", Access.READ),
    ]


def test_an_inner_place_wins_over_an_outer_one(base: Path) -> None:
    """A temporary folder in the per-user folder can be written, though the per-user folder is hidden."""
    (base / "home/.gen/tmp").mkdir()
    plan = workspace_profile(base / "work", base / "home/.gen/tmp", base / "home/.gen", environ={})
    assert places(plan, base) == [
        ("work", Access.WRITE),
        ("home/.gen", Access.HIDE),
        ("home/.gen/tmp", Access.WRITE),
    ]


def test_a_worktree_in_the_per_user_folder_is_writable_and_what_is_beside_it_only_read(base: Path) -> None:
    home = base / "own"
    for name in ("worktrees/a/one/.git/hooks", "worktrees/.mirrors", "state"):
        (home / name).mkdir(parents=True)
    (home / "worktrees/a/one/.git/config").touch()
    plan = workspace_profile(home / "worktrees/a/one", base / "temp", home, environ={})
    assert places(plan, home) == [
        (".", Access.HIDE),
        ("worktrees", Access.READ),
        ("worktrees/a/one", Access.WRITE),
        ("worktrees/a/one/.git", Access.WRITE),
        ("worktrees/a/one/.git/hooks", Access.READ),
        ("worktrees/a/one/.git/config", Access.READ),
    ]
    for other in ("worktrees", "state", "."):
        assert workspace_profile(home / other, base / "temp", home, environ={}).writable == ()


def test_a_per_user_folder_in_the_workspace_is_hidden_too(base: Path) -> None:
    plan = workspace_profile(base / "home", base / "temp", base / "home/.gen", environ={})
    assert places(plan, base) == [
        ("home", Access.WRITE),
        ("temp", Access.WRITE),
        ("home/.gen", Access.HIDE),
    ]
    assert plan.watched() == tuple(
        base / "home" / ".git" / name
        for name in (
            *("hooks", "config", "config.worktree", "commondir", "modules"),
            "rebase-merge/git-rebase-todo",
        )
    )


@pytest.mark.parametrize("folder", ["home/.gen", "home/.gen/agents", "work/.git", "work/.GEN"])
def test_a_workspace_that_is_part_of_settings_is_not_writable(base: Path, folder: str) -> None:
    (base / folder).mkdir(parents=True, exist_ok=True)
    plan = workspace_profile(base / folder, base / "temp", base / "home/.gen", environ={})
    assert plan.writable == ()


def test_links_are_resolved(base: Path) -> None:
    (base / "way").symlink_to("work")
    (base / "work" / "own").mkdir()
    (base / "work" / ".gen").symlink_to("own")
    plan = workspace_profile(base / "way", base / "temp", base / "home/.gen", environ={})
    assert places(plan, base / "work") == [(".", Access.WRITE), ("own", Access.READ)]


def test_a_linked_worktree_has_its_link_guarded_and_the_shared_folder(base: Path) -> None:
    linked = base / "main/.git/worktrees/work"
    linked.mkdir(parents=True)
    (linked / "commondir").write_text("../..\n")
    (base / "work/.git").write_text(f"gitdir: {linked}\n")
    names = ("hooks", "config", "config.worktree", "commondir")
    assert guarded_names(base / "work") == [
        base / "work/.gen",
        base / "work/.git",
        *(linked / name for name in names),
        *(base / "main/.git" / name for name in names),
        base / "main/.git/modules",
        linked / "gitdir",
    ]
    assert places(plan_of(base), base / "work") == [(".", Access.WRITE), (".git", Access.READ)]


def test_submodules_are_guarded(base: Path) -> None:
    for name in ("", "modules/one", "modules/two/deep", "modules/one/modules/inner"):
        (base / "work/.git" / name).mkdir(parents=True, exist_ok=True)
        (base / "work/.git" / name / "HEAD").write_text("ref: refs/heads/main\n")
        (base / "work/.git" / name / "config").write_text("")
    read = [place for place, access in places(plan_of(base), base / "work/.git") if access is Access.READ]
    assert sorted(read) == [
        "config",
        "modules",
        "modules/one/config",
        "modules/one/modules",
        "modules/one/modules/inner/config",
        "modules/two",
        "modules/two/deep/config",
    ]


@pytest.mark.parametrize("text", ["", "gitdir: \0", "gitdir: ../../../../..", "\xff" * 9000])
def test_a_file_of_git_that_says_nonsense_does_no_harm(base: Path, text: str) -> None:
    (base / "work/.git").write_text(text)
    assert places(plan_of(base), base / "work") == [(".", Access.WRITE), (".git", Access.READ)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TMUX", "{path},12,0"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path={path},guid=1"),
        ("DOCKER_HOST", "unix://{path}"),
        ("VSCODE_IPC_HOOK_CLI", "{path}"),
        ("SSH_AUTH_SOCK", "{path}"),
    ],
)
def test_a_socket_that_the_environment_names_is_hidden(
    base: Path, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(base)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        environ = {name: value.format(path=base / "socket")}
        plan = workspace_profile(base / "work", base / "temp", base / "home/.gen", environ=environ)
        assert (base / "socket", Access.HIDE) in layers(plan)


def test_with_the_network_the_keys_of_ssh_can_be_used(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        plan = plan_of(base, network=True, SSH_AUTH_SOCK=str(base / "socket"))
        assert (base / "socket", Access.READ) in layers(plan)


@pytest.mark.parametrize(
    "value", ["", "relative", "tcp://127.0.0.1:2375", "/no/such/socket", "unix:abstract=/x"]
)
def test_other_values_name_no_socket(base: Path, value: str) -> None:
    assert plan_of(base, DOCKER_HOST=value) == plan_of(base)


def test_agents_of_the_user_in_a_workspace_are_only_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder of agents is missing, its product's folder is closed: it could be made there."""
    work = base / "work"
    monkeypatch.setenv("HOME", str(work))
    (work / ".claude/agents").mkdir(parents=True)
    (work / ".codex").mkdir()
    (work / "dotfiles").mkdir()
    (work / ".qwen").mkdir()
    (work / ".qwen/agents").symlink_to(work / "dotfiles")
    assert sorted(places(plan_of(base), work)) == [
        (".", Access.WRITE),
        (".claude", Access.READ),
        (".claude/agents", Access.READ),
        (".codex", Access.READ),
        (".qwen", Access.READ),
        ("dotfiles", Access.READ),
    ]


def test_a_workspace_among_the_agents_of_the_user_is_not_writable(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(base / "home"))
    (base / "home/.claude").mkdir(parents=True)
    (base / "home/.claude/agents").symlink_to(base / "work")
    assert plan_of(base).writable == ()
