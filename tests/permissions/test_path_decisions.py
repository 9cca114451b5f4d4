from pathlib import Path
from typing import Any

import pytest

from gencode.core.rules import Action, Decision, Mode, Policy, Remedy, parse_rule, written_in
from gencode.core.spec import Workspace
from gencode.permissions.agent_folders import USER_PLACES
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide
from gencode.permissions.paths import Resolved, decide_path, is_inside, resolve, resolve_glob


@pytest.fixture
def where(tmp_path: Path) -> Workspace:
    for each in ("ws/src", "ws/sub", "home", "outside/deep"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "ws/src/a.py").write_text("a")
    return Workspace(tmp_path / "ws", tmp_path / "ws", tmp_path / "home")


def policy(*rules: str, mode: Mode = Mode.DEFAULT) -> Policy:
    """Rules as words: `allow Read(x)`."""
    parsed = (text.partition(" ") for text in rules)
    return Policy(
        mode, tuple(parse_rule(rule, Action(action), written_in("a test")) for action, _, rule in parsed)
    )


def act(tool: str, path: str, where: Workspace, under: Policy | None = None) -> Action:
    return decide_path(tool, resolve(path, where), under or policy(), where).action


def ask_all(tool: str, given: dict[str, Any], where: Workspace, under: Policy | None = None) -> Action:
    return decide(
        CallFacts(tool=tool, input=given, effect="read", workspace=where), [under or policy()]
    ).action


def test_a_decision_tells_everything(where: Workspace) -> None:
    under = policy("deny Read(src/**)")
    assert decide_path("Read", resolve("src/a.py", where), under, where) == Decision(
        Action.DENY,
        "Read of 'src/a.py': the rule deny Read(src/**) from a test matches.",
        "deny Read(src/**) from a test",
        "session",
        Remedy.REMOVE_RULE,
        removes="deny Read(src/**)",
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "the path is empty"),
        ("x" * 4_097, "the path has more than 4,096 characters"),
        ("a\tb", "the path has the deceptive character U+0009"),
        ("a\nb", "the path has the deceptive character U+000A"),
        ("file:///etc/passwd", "it is a URL and not a path"),
        ("~bob/x", "it is in another user's home directory"),
        ("a\ud800", "no file can have such a name"),
    ],
)
def test_a_path_that_no_tool_may_take_is_refused(path: str, why: str, where: Workspace) -> None:
    assert resolve(path, where) == Resolved(path, refusal=why)


def test_names_that_are_not_utf8_are_resolved(where: Workspace) -> None:
    (where.root / "b\udcff.txt").write_text("x")
    assert act("Read", "b\udcff.txt", where) == "allow"


def test_no_other_expansion_is_done(where: Workspace) -> None:
    names = ("$HOME/x", "%2e%2e/x", "..\\x", "a~/x")
    assert [resolve(name, where).real for name in names] == [f"{where.root}/{name}" for name in names]


def test_relative_paths_start_at_the_current_folder(where: Workspace) -> None:
    inner = Workspace(where.root, where.root / "sub", where.home)
    assert resolve("../src/a.py", inner) == Resolved(
        "../src/a.py", f"{where.root}/src/a.py", f"{where.root}/src/a.py", hard_links=1
    )


def test_a_missing_tail_is_kept(where: Workspace) -> None:
    (where.root / "o").symlink_to("../outside")
    outside = str(where.root.parent / "outside/new/file")
    assert resolve("o/new/file", where) == Resolved("o/new/file", f"{where.root}/o/new/file", outside)


def test_dots_behind_a_link_are_judged_in_both_readings(where: Workspace) -> None:
    (where.root / "o").symlink_to("../outside/deep")
    (where.root / "b.txt").write_text("inside")
    found = resolve("o/../b.txt", where)
    assert found.twin is not None
    assert (found.real, found.twin.real) == (str(where.root.parent / "outside/b.txt"), f"{where.root}/b.txt")
    assert act("Read", "o/../b.txt", where) == "ask"
    assert act("Read", "o/../b.txt", where, policy("deny Read(b.txt)")) == "deny"


def test_a_long_chain_of_links_is_a_circle(where: Workspace) -> None:
    (where.root / "l0").write_text("x")
    for number in range(1, 45):
        (where.root / f"l{number}").symlink_to(f"l{number - 1}")
    assert (act("Read", "l40", where), act("Read", "l44", where)) == ("allow", "deny")


def test_a_workspace_reached_through_a_link_is_the_workspace(where: Workspace, tmp_path: Path) -> None:
    (tmp_path / "door").symlink_to("ws")
    linked = Workspace(tmp_path / "door", tmp_path / "door", where.home)
    rules = policy("deny Read(src/**)")
    assert act("Read", "src/a.py", linked) == "allow"
    assert act("Read", f"{where.root}/src/a.py", linked) == "allow"
    assert act("Read", "src/a.py", linked, rules) == "deny"
    assert act("Read", f"{where.root}/src/a.py", linked, rules) == "deny"


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("path", [".git/config", "a/.GEN/x", "git~1/x", "/etc/hosts", "/usr/x", "/BIN/x"])
def test_no_rule_and_no_mode_lets_settings_or_the_system_be_written(
    path: str, mode: Mode, where: Workspace
) -> None:
    under = policy("allow Write", f"allow Write({path})", mode=mode)
    assert {act(tool, path, where, under) for tool in ("Write", "Edit", "delete_file", "move_file")} == {
        "deny"
    }


def test_kernel_files_are_denied_to_every_tool(where: Workspace) -> None:
    under = policy("allow *", mode=Mode.DONT_ASK)
    for path in ("/dev/null", "/proc/self/environ", "/sys", "/dev/../proc"):
        assert {act(tool, path, where, under) for tool in ("Read", "LS", "Glob", "Grep", "Write")} == {"deny"}


def test_rules_of_read_count_for_grep_but_not_the_other_way(where: Workspace) -> None:
    assert act("Grep", "src", where, policy("deny Read(src)")) == "deny"
    assert act("Read", "src", where, policy("deny Grep(src)")) == "allow"
    assert act("LS", "src", where, policy("deny Read(src)")) == "allow"


def test_rules_of_write_and_edit_count_for_both(where: Workspace) -> None:
    assert act("Write", "src/n", where, policy("allow Edit(src/**)")) == "allow"
    assert act("Edit", "src/n", where, policy("deny Write(src/**)", mode=Mode.ACCEPT_EDITS)) == "deny"


def test_the_more_specific_rule_does_not_win(where: Workspace) -> None:
    assert act("Read", "src/a.py", where, policy("deny Read(src/**)", "allow Read(src/a.py)")) == "deny"
    assert act("Read", "src/a.py", where, policy("ask Read", "allow Read(src/a.py)")) == "ask"


def test_an_ask_rule_stands_in_dont_ask_and_guards_do_not(where: Workspace) -> None:
    assert act("Read", "src/a.py", where, policy("ask Read(*.py)", mode=Mode.DONT_ASK)) == "ask"
    assert act("Read", ".env", where, policy(mode=Mode.DONT_ASK)) == "allow"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [("Read", "ask"), ("Grep", "ask"), ("Write", "ask"), ("LS", "allow"), ("Glob", "allow")],
)
def test_a_secret_is_asked_where_its_contents_matter(tool: str, expected: str, where: Workspace) -> None:
    assert act(tool, ".env", where, policy(mode=Mode.ACCEPT_EDITS)) == expected


def test_only_a_rule_without_wildcards_lifts_a_guard(where: Workspace) -> None:
    for rule, expected in (
        ("Read", "ask"),
        ("Read(.e?v)", "ask"),
        ("Read(.env*)", "ask"),
        ("Read(.env)", "allow"),
    ):
        assert act("Read", ".env", where, policy(f"allow {rule}")) == expected


def test_a_secret_behind_an_innocent_link_is_asked(where: Workspace) -> None:
    (where.root / ".env").write_text("KEY=1")
    (where.root / "readme").symlink_to(".env")
    assert act("Read", "readme", where) == "ask"
    assert act("Read", "readme", where, policy("allow Read(readme)")) == "ask"


def test_protected_files_are_asked_when_written_and_read_freely(where: Workspace) -> None:
    under = policy("allow Write", mode=Mode.ACCEPT_EDITS)
    assert (act("Write", ".vscode/x", where, under), act("Read", ".vscode/x", where)) == ("ask", "allow")


def test_an_allow_rule_for_a_link_does_not_allow_what_it_leads_to(where: Workspace) -> None:
    (where.root / "b").symlink_to("../outside/b")
    assert act("Read", "b", where, policy("allow Read(./src/../b)")) == "ask"
    assert act("Read", "b", where, policy("allow Read(../outside/b)")) == "allow"


@pytest.mark.parametrize("tool", ["Read", "Grep", "LS", "Glob", "Write", "Edit"])
@pytest.mark.parametrize("path", ["/srv/x", ".env", "src/deep/new.py", "src/a.py", "new.py", ".idea/x"])
def test_what_a_decision_says_would_lift_it_lifts_it(tool: str, path: str, where: Workspace) -> None:
    before = decide_path(tool, resolve(path, where), policy(), where)
    if before.action == "ask":
        (rule,) = before.offers
        assert act(tool, path, where, policy(f"allow {rule.spelled}")) == "allow"
    else:
        assert (before.remedy, before.offers) == (Remedy.OFFERS, ())


@pytest.mark.parametrize(
    ("pattern", "folder", "real"),
    [
        ("**/*.py", None, ""),
        ("src/*.py", None, "/src"),
        ("*.py", "src", "/src"),
        ("deep/x*/y", "src", "/src/deep"),
        ("src/a.py", None, "/src/a.py"),
        ("~*/x", None, ""),
        ("src/{a,b}.py", None, "/src"),
    ],
)
def test_glob_is_judged_by_what_stands_before_its_wildcards(
    pattern: str, folder: str | None, real: str, where: Workspace
) -> None:
    assert resolve_glob(pattern, folder, where).real == f"{where.root}{real}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"pattern": "*"}, "allow"),
        ({"pattern": "/*"}, "ask"),
        ({"pattern": "~/*"}, "ask"),
        ({"pattern": "~/*", "path": "src"}, "ask"),
        ({"pattern": "*", "path": "~"}, "ask"),
        ({"pattern": "../*", "path": "src"}, "allow"),
        ({"pattern": "../../*", "path": "src"}, "ask"),
        ({"pattern": "*/../../outside/*"}, "deny"),
        ({"pattern": "{a,..}/x"}, "deny"),
        ({"pattern": "{a,/etc}/x"}, "deny"),
        ({"pattern": ""}, "deny"),
        ({"pattern": "*", "path": ""}, "deny"),
        ({"pattern": 3}, "deny"),
        ({}, "deny"),
    ],
)
def test_glob_calls_are_decided_by_their_base(given: dict[str, Any], expected: str, where: Workspace) -> None:
    assert ask_all("Glob", given, where) == expected


def test_reading_tools_start_here_when_no_path_is_given(where: Workspace) -> None:
    found = {tool: ask_all(tool, {"pattern": "x"}, where) for tool in ("LS", "Grep", "Read", "get_file_info")}
    assert found == {"LS": "allow", "Grep": "allow", "Read": "deny", "get_file_info": "deny"}


def test_every_path_of_a_call_counts(where: Workspace) -> None:
    assert ask_all("Read", {"file_path": "src/a.py", "path": "/etc/hosts"}, where) == "ask"
    assert ask_all("Read", {"file_path": ["src/a.py"]}, where) == "deny"


def test_a_neighbour_with_the_same_beginning_is_outside() -> None:
    assert [is_inside(path, "/ws") for path in ("/ws", "/ws/a", "/ws-old", "/w")] == [
        True,
        True,
        False,
        False,
    ]
    assert is_inside("/anything", "/")


@pytest.mark.parametrize("place", USER_PLACES)
@pytest.mark.parametrize("mode", [Mode.ACCEPT_EDITS, Mode.DONT_ASK, Mode.DEFAULT])
def test_nothing_writes_where_agents_and_skills_of_the_user_are_read(
    tmp_path: Path, place: str, mode: Mode
) -> None:
    at_home = Workspace(tmp_path, tmp_path, tmp_path)
    under = policy("allow Write(**)", mode=mode)
    for path in (place, f"{place}/x.md", f"{tmp_path}/{place}/deep/x.md", f"~/{place.upper()}/x.md"):
        assert act("Write", path, at_home, under) is Action.DENY
        assert act("move_file", path, at_home, under) is Action.DENY
    assert act("move_file", place.split("/")[0], at_home, under) is Action.DENY
    assert act("Read", f"{place}/x.md", at_home, under) is Action.ALLOW


def test_nothing_writes_where_a_link_of_the_user_leads_to_their_agents(tmp_path: Path) -> None:
    (tmp_path / "dotfiles/claude").mkdir(parents=True)
    (tmp_path / "home/.claude").mkdir(parents=True)
    (tmp_path / "home/.claude/agents").symlink_to(tmp_path / "dotfiles/claude")
    where = Workspace(tmp_path / "dotfiles", tmp_path / "dotfiles", tmp_path / "home")
    under = policy(mode=Mode.ACCEPT_EDITS)
    assert act("Write", "claude/x.md", where, under) is Action.DENY
    assert act("Write", "vim/x.md", where, under) is Action.ALLOW


def test_nothing_writes_into_our_own_folder_wherever_it_is(
    where: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_HOME", str(where.root / "mine"))
    under = policy(mode=Mode.DONT_ASK)
    for path in ("mine", "mine/settings.toml", "mine/agents/x.md", "MINE/trust.toml"):
        assert act("Write", path, where, under) is Action.DENY
    assert act("Write", "mine/worktrees/repo/a.py", where, under) is Action.ALLOW


OTHERS = (
    *(".claude/settings.json", ".codex/config.toml", ".cursor/mcp.json", ".agents/agents/x.md"),
    *(".gemini/settings.json", ".qwen/settings.json", ".opencode/opencode.json", ".githooks/pre-commit"),
    *("x.git/hooks/update", ".github/workflows/ci.yml", ".devcontainer/devcontainer.json", ".gitattributes"),
    *("sub/.pre-commit-config.yaml", ".yarnrc.yml", ".cargo/config.toml", ".exrc", ".dir-locals.el"),
    *(".gdbinit", ".bash_aliases", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".config/fish/config.fish"),
    *(".config/git/config", ".config/autostart/x.desktop", ".config/systemd/user/x.service"),
)


@pytest.mark.parametrize("path", OTHERS)
def test_what_other_programs_start_by_themselves_is_asked(where: Workspace, path: str) -> None:
    under = policy("allow Write(**)", mode=Mode.ACCEPT_EDITS)
    assert act("Write", path, where, under) is Action.ASK
    assert act("Write", path, where, policy(mode=Mode.DONT_ASK)) is Action.ALLOW
    assert act("Read", path, where, under) is Action.ALLOW
    command = {"command": f"cp x {path}"}
    assert ask_all("Bash", command, where, policy("allow Bash(cp:*)")) is Action.ASK


@pytest.mark.parametrize(
    "path",
    [
        *(".github/CODEOWNERS", ".cargo/registry/x", ".config/nvim/init.lua", "hooks/update", "git/hooks/x"),
        *("claude/settings.json", ".claude/worktrees/fix/src/a.py"),
    ],
)
def test_what_only_looks_like_it_is_not(where: Workspace, path: str) -> None:
    assert act("Write", path, where, policy(mode=Mode.ACCEPT_EDITS)) is Action.ALLOW
