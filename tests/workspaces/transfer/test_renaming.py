"""Names in the folder of a sender mean files of the copy, and nothing outside of it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.messages import ToolCall
from gencode.core.place import CopiedFolder, FolderCopy
from gencode.core.rules import Action, Mode, Policy, Rule, parse_rule, written_in
from gencode.core.spec import Workspace
from gencode.permissions.bash.decision import decide_command, read_command
from gencode.permissions.paths import decide_path, is_inside, places_of, resolve
from gencode.permissions.patterns import Places, path_pattern
from gencode.workspaces.transfer.path_translation import path_in_copy, translated_call

COPIED = FolderCopy("/own/copies/1", "/home/me/repo", "/home/me", ("/own/copies/1", "/own"))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("/home/me/repo", "/own/copies/1"),
        ("/home/me/repo/a/b", "/own/copies/1/a/b"),
        ("//home/me//repo/./a", "/own/copies/1/a"),
        ("/home/me/repo/x/../a", "/own/copies/1/a"),
        ("/home/me/other/../repo/a", "/own/copies/1/a"),
        ("~/repo/a", "/own/copies/1/a"),
        ("/home/me/repo/../a", "/home/me/repo/../a"),
        ("/home/me/repository", "/home/me/repository"),
        ("/home/me/Repo/a", "/home/me/Repo/a"),
        ("~/a", "~/a"),
        ("~me/repo/a", "~me/repo/a"),
        ("a", "a"),
        ("", ""),
        ("/own/copies/1/a", "/own/copies/1/a"),
    ],
)
def test_a_name_below_the_folder_is_one_in_the_copy_and_no_other_is(text: str, means: str) -> None:
    assert path_in_copy(text, COPIED) == means


def test_what_a_worker_has_below_the_folder_of_a_sender_is_left_alone() -> None:
    at_home = FolderCopy("/home/me/.gen/c", "/home/me", "/home/me", ("/home/me/.gen/c", "/home/me/.gen"))
    names = ["/home/me/.gen/outputs/1", "/home/me/.gen/c/a", "/home/me/a"]
    assert [path_in_copy(name, at_home) for name in names] == [*names[:2], "/home/me/.gen/c/a"]


@pytest.mark.parametrize(
    ("tool", "fields", "renames"),
    [
        ("Read", ("file_path",), {"file_path"}),
        ("Grep", ("path", "pattern", "glob"), {"path"}),
        ("Glob", ("path", "pattern"), {"path", "pattern"}),
        ("Write", ("file_path", "content"), {"file_path"}),
        ("Edit", ("file_path", "old_string"), {"file_path"}),
        ("move_file", ("source", "destination"), {"source", "destination"}),
        ("Bash", ("command", "path"), set[str]()),
        ("mcp__files__read", ("path",), set[str]()),
    ],
)
def test_only_the_paths_of_tools_for_files_are_renamed(
    tool: str, fields: tuple[str, ...], renames: set[str]
) -> None:
    call = ToolCall("1", tool, dict.fromkeys(fields, "/home/me/repo/a"))
    means = {field: "/own/copies/1/a" if field in renames else "/home/me/repo/a" for field in fields}
    assert translated_call(call, tool, COPIED) == ToolCall("1", tool, means)


def test_a_program_on_the_machine_gets_the_names_of_the_copy_wherever_a_text_is_such_a_name() -> None:
    given = {
        "path": "/home/me/repo/a",
        "paths": ["/home/me/repo/a", "/home/me/repo/x/../b/", "/home/me/repo/../a", "/home/me/other"],
        "edits": [{"/home/me/repo/a": "/home/me/repo"}],
        "text": "/home/me/repo/a\nis a file",
        "home": "~/repo/a",
        "said": "see /home/me/repo/a",
        "count": 3,
    }
    means = {
        **given,
        "path": "/own/copies/1/a",
        "paths": ["/own/copies/1/a", "/own/copies/1/b", "/home/me/repo/../a", "/home/me/other"],
        "edits": [{"/home/me/repo/a": "/own/copies/1"}],
    }
    call = ToolCall("1", "mcp__files__read", given)
    assert translated_call(call, call.name, COPIED, local=True) == ToolCall("1", call.name, means)
    assert translated_call(call, call.name, COPIED) is call


def test_a_pattern_that_climbs_is_left_to_the_decision() -> None:
    call = ToolCall("1", "Glob", {"pattern": "/home/me/repo/*/../a"})
    assert translated_call(call, "Glob", COPIED) is call


@given(st.lists(st.sampled_from(["home", "me", "repo", "..", ".", "", "a", "~"]), max_size=9).map("/".join))
def test_a_renamed_path_stays_in_the_copy_and_means_the_same_file_of_it(text: str) -> None:
    means = path_in_copy(text, COPIED)
    if means != text:
        there = os.path.normpath(text.replace("~", "/home/me", 1) if text.startswith("~") else text)
        assert is_inside(means, COPIED.top) and ".." not in means.split("/")
        assert os.path.relpath(means, COPIED.top) == os.path.relpath(there.lstrip("/"), "home/me/repo")
        assert path_in_copy(means, COPIED) == means


def judged(path: str, copy: Path, *rules: Rule, mode: Mode = Mode.DONT_ASK) -> Action:
    """What comes of writing a file that is named in the folder of the sender."""
    copied = FolderCopy(str(copy), "/home/me/repo", "/home/me", (str(copy),))
    workspace = Workspace(copy, copy, copy.parent / "home", copied)
    policy = Policy(mode, rules, "the sender")
    return decide_path("Write", resolve(path_in_copy(path, copied), workspace), policy, workspace).action


@pytest.mark.parametrize(
    "pattern",
    [
        "/home/me/repo/secret/**",
        "/home/*/repo/secret/x",
        "/HOME/me/repo/Secret/**",
        "/home/me/**",
        "/**/secret/*",
        "~/repo/secret/",
        "secret/**",
    ],
)
def test_what_the_sender_denies_in_its_folder_is_denied_in_the_copy(tmp_path: Path, pattern: str) -> None:
    copy = tmp_path / "copy"
    (copy / "secret").mkdir(parents=True)
    (copy / "link").symlink_to("secret")
    deny = parse_rule(f"Write({pattern})", Action.DENY, written_in("a test"))
    ways = [
        "/home/me/repo/secret/x",
        "/home/me/repo/link/x",
        "secret/x",
        "~/repo/./secret/x",
        f"{copy}/secret/x",
    ]
    assert [judged(way, copy, deny) for way in ways] == [Action.DENY] * len(ways)


@pytest.mark.parametrize("earlier", [(), (CopiedFolder("/home/me/repo", "/home/me"),)])
@pytest.mark.parametrize(
    "pattern",
    ["/home/me/repo/secret/**", "/HOME/me/repo/Secret/**", "/home/me/**", "~/repo/secret/", "secret/**"],
)
def test_what_is_denied_is_denied_to_commands_by_whatever_name(
    pattern: str, earlier: tuple[CopiedFolder, ...]
) -> None:
    """Also where the folder that was sent was a copy in its turn, and the rule is from its first owner."""
    of, home = ("/own/copies/0", "/root") if earlier else ("/home/me/repo", "/home/me")
    copied = FolderCopy("/own/copies/1", of, home, (), earlier)
    workspace = Workspace(Path("/own/copies/1"), Path("/own/copies/1"), Path("/root"), copied)
    deny = Policy(
        Mode.DONT_ASK, (parse_rule(f"Read({pattern})", Action.DENY, written_in("a test")),), "the sender"
    )
    commands = {
        "cat secret/x": Action.DENY,
        "cat /own/copies/1/secret/x": Action.DENY,
        f"cat {of}/secret/x": Action.DENY,
        "cat /home/me/repo/secret/x": Action.DENY,
        "cat /home/me/repo/a/../secret//x": Action.DENY,
        "cat --file=/home/me/repo/secret/x": Action.DENY,
        "sh -c 'cat /home/me/repo/secret/x'": Action.DENY,
        "cat /home/you/repo/other/x": Action.ALLOW,
        "cat /own/copies/12/secret/x": Action.ALLOW,
    }
    places = places_of(workspace)
    found = {text: decide_command(read_command(text, places), deny).action for text in commands}
    assert found == commands


@pytest.mark.parametrize("text", ["/home/me/repo/a", "~/repo/a", "/own/copies/0/a"])
def test_every_name_that_a_folder_had_on_its_way_means_the_copy(text: str) -> None:
    copied = FolderCopy(
        "/own/copies/1", "/own/copies/0", "/root", (), (CopiedFolder("/home/me/repo", "/home/me"),)
    )
    assert path_in_copy(text, copied) == "/own/copies/1/a"


def test_what_the_sender_allows_in_its_folder_is_allowed_in_the_copy_and_links_lead_no_further(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "copy"
    (copy / "src").mkdir(parents=True)
    (copy / "src" / "out").symlink_to(tmp_path)
    allow = parse_rule("Write(/home/me/repo/src/**)", Action.ALLOW, written_in("a test"))
    ways = ["src/a", "a", "src/out/a", "src/../../a"]
    found = [judged(f"/home/me/repo/{way}", copy, allow, mode=Mode.DEFAULT) for way in ways]
    assert found == [Action.ALLOW, Action.ASK, Action.ASK, Action.ASK]


def test_a_rule_about_another_folder_says_nothing_of_the_copy() -> None:
    places = Places("/own/1/sub", "/own/1/sub", "/w", "/w", "/own/1", (("/home/me/repo", "/home/me"),))
    paths = ["/own/1/sub/a", "/own/1", "/own/12/sub/a", "/home/me/repo/sub/a", "/own"]
    named = {
        pattern: [path for path in paths if path_pattern(pattern, places, True).matches(path)]
        for pattern in ("/home/me/repo/sub/a", "/home/me/repo", "/home/me", "~/repo/**", "/home/me/repo2/**")
    }
    assert named == {
        "/home/me/repo/sub/a": ["/own/1/sub/a", "/home/me/repo/sub/a"],
        "/home/me/repo": ["/own/1"],
        "/home/me": [],
        "~/repo/**": ["/own/1/sub/a"],
        "/home/me/repo2/**": [],
    }
