"""What a folder brings is read once and without following anything, and trusted for exactly what it holds."""

import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import UserMistake
from gencode.permissions.project_files import (
    MOST_BYTES,
    MOST_FILES,
    ProjectFiles,
    project_settings,
    read_project,
)
from gencode.permissions.trust import FolderTrust, TrustChange, revoke, standing, trust, trusted_folders

WATCHED = (
    ".agents/agents/a.md",
    ".agents/skills/s/SKILL.md",
    ".claude/agents/deep/b.md",
    ".claude/skills/s/run.sh",
    ".codex/agents/f.toml",
    ".codex/agents/notes.md",
    ".gen/agents/c.md",
    ".gen/hooks.toml",
    ".gen/hooks/start.sh",
    ".gen/mcp.json",
    ".gen/settings.toml",
    ".gen/skills/s/SKILL.md",
    ".github/agents/g.agent.md",
    ".kiro/agents/deep/h.json",
    ".mcp.json",
    "data/subagents/d/SUBAGENT.md",
    "subagents/e/SUBAGENT.md",
)
USED = (
    *(".agents/agents/a.md", ".agents/skills/s/SKILL.md", ".claude/agents/deep/b.md", ".codex/agents/f.toml"),
    *(".gen/agents/c.md", ".gen/settings.toml", ".gen/skills/s/SKILL.md", ".github/agents/g.agent.md"),
    *(".gen/mcp.json", ".mcp.json"),
    *(".kiro/agents/deep/h.json", "data/subagents/d/SUBAGENT.md", "subagents/e/SUBAGENT.md"),
)
NOT_WATCHED = (
    ".env",
    ".gen/notes.md",
    ".github/workflows/ci.yml",
    "README.md",
    "agents/x.md",
    "subagents/SUBAGENT.md",
    "subagents/e/more.md",
    "src/.gen/settings.toml",
)


def write(folder: Path, path: str, text: str = "text") -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "users"


def test_exactly_what_could_run_redirect_or_widen_is_looked_at(folder: Path, users: Path) -> None:
    for path in (*WATCHED, *NOT_WATCHED):
        write(folder, path, path)
    found = read_project(folder, users)
    assert found.files == {path: digest(path) for path in WATCHED}
    assert found.texts == {path: path.encode() for path in USED}
    assert found.problems == ()


@pytest.mark.parametrize("path", ["", "nowhere", "file"])
def test_a_folder_without_any_of_it_brings_nothing(folder: Path, users: Path, path: str) -> None:
    write(folder, "file")
    assert read_project(folder / path, users) == ProjectFiles()
    assert standing(folder / path, users) == FolderTrust(folder / path, "nothing")


def test_the_users_own_folder_is_not_the_projects_also_by_way_of_a_link(folder: Path) -> None:
    write(folder, ".gen/settings.toml")
    write(folder, ".mcp.json")
    assert list(read_project(folder, folder / ".gen").files) == [".mcp.json"]
    (folder / ".gen").rename(folder / "moved")
    (folder / ".gen").symlink_to("moved")
    assert read_project(folder, folder / "moved").problems == ()
    assert read_project(folder, folder / "elsewhere").problems != ()


@pytest.mark.parametrize("path", [path for path in WATCHED if not path.startswith(("data", "subagents"))])
def test_a_link_among_them_is_never_followed_and_speaks_against_the_folder(
    folder: Path, users: Path, path: str, tmp_path: Path
) -> None:
    write(tmp_path, "outside", "deny = []")
    write(folder, ".mcp.json")
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).unlink(missing_ok=True)
    (folder / path).symlink_to(tmp_path / "outside")
    found = read_project(folder, users)
    assert path not in found.files
    assert len(found.problems) == 1 and "a link" in found.problems[0]
    with pytest.raises(UserMistake, match="cannot be trusted: .*a link"):
        trust(standing(folder, users), users)


def test_a_folder_that_is_a_link_is_not_entered(folder: Path, users: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/agents/x.md")
    write(tmp_path, "outside/subagents/x/SUBAGENT.md")
    for name in (".gen", ".claude", "data"):
        (folder / name).symlink_to(tmp_path / "outside")
    found = read_project(folder, users)
    assert found.files == {}
    assert [problem.partition(":")[0] for problem in found.problems] == [
        *(".gen/settings.toml", ".gen/agents", ".claude/agents", ".gen", "data/subagents")
    ]


def test_a_link_that_leads_past_them_is_nothing_to_speak_of(
    folder: Path, users: Path, tmp_path: Path
) -> None:
    (tmp_path / "measurements").mkdir()
    (folder / "data").symlink_to(tmp_path / "measurements")
    assert read_project(folder, users) == ProjectFiles()


def test_pipes_speak_against_it_and_hold_nobody_up(folder: Path, users: Path) -> None:
    (folder / ".gen" / "agents").mkdir(parents=True)
    os.mkfifo(folder / ".gen" / "settings.toml")
    os.mkfifo(folder / ".gen" / "agents" / "pipe.md")
    (folder / ".gen" / "mcp.json").mkdir()
    os.mkfifo(folder / ".gen" / "hooks")
    found = read_project(folder, users)
    assert [problem.partition(":")[0] for problem in found.problems] == [
        *(".gen/settings.toml", ".gen/agents/pipe.md", ".gen/hooks")
    ]
    with pytest.raises(UserMistake, match="a pipe, a socket or a device, not a file"):
        project_settings(folder)


def test_a_folder_of_too_many_files_is_not_read_to_the_end(folder: Path, users: Path) -> None:
    for number in range(MOST_FILES + 1):
        write(folder, f".gen/agents/{number}.md", "")
    found = read_project(folder, users)
    assert (found.files, found.problems) == ({}, (".gen/agents: it holds more than 1,000 files",))


def test_too_many_files_in_all_speak_against_it(folder: Path, users: Path) -> None:
    for number in range(MOST_FILES // 2 + 1):
        write(folder, f".gen/agents/{number}.md", "")
        write(folder, f".claude/agents/{number}.md", "")
    assert read_project(folder, users).problems == ("there are more than 1,000 files to be trusted",)


def test_too_many_bytes_speak_against_it_and_are_not_kept(folder: Path, users: Path) -> None:
    write(folder, ".gen/agents/big.md", "")
    os.truncate(folder / ".gen/agents/big.md", 20 * MOST_BYTES)
    found = read_project(folder, users)
    problem = "there are more than 33,554,432 bytes in what is to be trusted"
    assert (found.texts, found.problems) == ({}, (problem,))


def test_folders_without_end_speak_against_it(folder: Path, users: Path) -> None:
    write(folder, f".gen/skills/{'/'.join('a' * 20)}/x")
    (problem,) = read_project(folder, users).problems
    assert problem.endswith("there are more than 12 nested folders")


def test_a_name_that_is_not_unicode_speaks_against_it(folder: Path, users: Path) -> None:
    (folder / ".gen" / "agents").mkdir(parents=True)
    name = os.fsencode(folder / ".gen" / "agents") + b"/\xff.md"
    Path(os.fsdecode(name)).write_text("x")
    assert [problem.rpartition(": ")[2] for problem in read_project(folder, users).problems] == [
        "its name is not UTF-8"
    ]


def test_a_folder_is_trusted_for_what_it_holds_and_any_change_ends_that(folder: Path, users: Path) -> None:
    write(folder, ".gen/settings.toml", "one")
    write(folder, ".gen/agents/a.md", "two")
    before = standing(folder, users)
    assert (before.state, before.changes) == ("untrusted", ())
    trust(before, users)
    assert standing(folder, users) == FolderTrust(folder, "trusted", before.brought)
    write(folder, "README.md", "not looked at")
    assert standing(folder, users).trusted
    write(folder, ".gen/settings.toml", "another")
    write(folder, ".claude/agents/new.md")
    (folder / ".gen/agents/a.md").unlink()
    after = standing(folder, users)
    assert (after.state, after.changes) == (
        "changed",
        (
            TrustChange("new", ".claude/agents/new.md"),
            TrustChange("gone", ".gen/agents/a.md"),
            TrustChange("changed", ".gen/settings.toml"),
        ),
    )
    trust(after, users)
    assert standing(folder, users).trusted


def test_a_new_agent_file_waits_alone_and_is_not_among_what_is_trusted(folder: Path, users: Path) -> None:
    write(folder, ".gen/settings.toml", "one")
    trust(standing(folder, users), users)
    write(folder, "subagents/poet/SUBAGENT.md", "two")
    now = standing(folder, users)
    assert (now.state, now.trusted, now.changes) == (
        "added",
        True,
        (TrustChange("new", "subagents/poet/SUBAGENT.md"),),
    )
    assert (list(now.brought.files), list(now.added.files)) == (
        [".gen/settings.toml"],
        ["subagents/poet/SUBAGENT.md"],
    )
    trust(now, users)
    assert (standing(folder, users).state, standing(folder, users).brought) == ("trusted", now.whole.brought)


@pytest.mark.parametrize(
    "also",
    [".mcp.json", ".gen/skills/a/SKILL.md", ".codex/agents/a.toml", ".kimi/agents/a.yaml", "opencode.json"],
)
def test_a_new_file_that_others_may_use_ends_the_trust(folder: Path, users: Path, also: str) -> None:
    write(folder, ".gen/settings.toml", "one")
    trust(standing(folder, users), users)
    write(folder, ".gen/agents/poet.md")
    write(folder, also)
    assert (standing(folder, users).state, standing(folder, users).trusted) == ("changed", False)


def test_what_was_looked_at_is_trusted_and_not_what_is_there_by_then(folder: Path, users: Path) -> None:
    write(folder, ".mcp.json", "harmless")
    shown = standing(folder, users)
    write(folder, ".mcp.json", "evil")
    trust(shown, users)
    assert standing(folder, users).changes == (TrustChange("changed", ".mcp.json"),)


def test_trust_is_for_one_folder_however_it_is_reached_and_no_other(
    folder: Path, users: Path, tmp_path: Path
) -> None:
    write(folder, ".mcp.json")
    write(folder, "below/.mcp.json")
    write(tmp_path, ".mcp.json")
    trust(standing(folder, users), users)
    (tmp_path / "link").symlink_to(folder)
    found = [standing(each, users).state for each in (folder, tmp_path / "link", folder / "below", tmp_path)]
    assert found == ["trusted", "trusted", "untrusted", "untrusted"]


def test_trust_can_be_taken_back(folder: Path, users: Path) -> None:
    write(folder, ".mcp.json")
    assert revoke(folder, users) is False
    trust(standing(folder, users), users)
    assert (revoke(folder, users), revoke(folder, users)) == (True, False)
    assert standing(folder, users).state == "untrusted"


def test_the_file_is_for_its_owner_only_and_nothing_else_is_left(folder: Path, users: Path) -> None:
    write(folder, ".mcp.json")
    trust(standing(folder, users), users)
    assert {path.name: path.stat().st_mode & 0o777 for path in users.iterdir()} == {
        "trust.toml": 0o600,
        "trust.toml.lock": 0o600,
    }


def test_many_who_trust_at_once_lose_nothing(tmp_path: Path, users: Path) -> None:
    folders = [tmp_path / f"p{number}" for number in range(12)]
    for each in folders:
        write(each, ".mcp.json")
    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(trust, standing(each, users), users) for each in folders]
    assert [each.result() for each in done] == [None] * len(folders)
    assert {Path(name) for name in trusted_folders(users)} == set(folders)


@pytest.mark.parametrize("text", ["folders = 3", "[", "x = 1", "a = " + "[" * 100_000, "\udcff"])
def test_a_file_that_is_not_ours_is_never_taken_for_trust(folder: Path, users: Path, text: str) -> None:
    write(folder, ".mcp.json")
    users.mkdir()
    (users / "trust.toml").write_bytes(os.fsencode(text))
    with pytest.raises(UserMistake, match="trust.toml is not valid"):
        standing(folder, users)


def test_where_nothing_can_be_written_it_is_a_sentence(folder: Path, users: Path) -> None:
    write(folder, ".mcp.json")
    users.write_text("a file where a folder should be")
    with pytest.raises(UserMistake, match=r"trust\.toml cannot be written: "):
        trust(standing(folder, users), users)


NAMES = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="/\0"), min_size=1, max_size=12
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


@given(st.dictionaries(NAMES, st.binary(max_size=50), min_size=1, max_size=5))
def test_whatever_files_are_called_and_hold_trust_is_kept_and_read_back(files: dict[str, bytes]) -> None:
    with TemporaryDirectory() as name:
        folder, users = Path(name, "pro\x7fject\n"), Path(name, "users")
        (folder / ".claude" / "skills").mkdir(parents=True)
        for each, content in files.items():
            (folder / ".claude" / "skills" / each).write_bytes(content)
        seen = standing(folder, users)
        trust(seen, users)
        assert standing(folder, users) == FolderTrust(folder, "trusted", seen.brought)
        first = next(iter(seen.brought.files))
        (folder / first).write_bytes((folder / first).read_bytes() + b"!")
        assert standing(folder, users).changes == (TrustChange("changed", first),)
