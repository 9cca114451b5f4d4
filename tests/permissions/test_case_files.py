"""Case files of any quality: good lines are judged, broken ones told, and nothing outside is touched."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from gencode.core.errors import UserMistake
from gencode.core.rules import Action
from gencode.permissions.case_folders import Item, scratch
from gencode.permissions.cases import LONGEST_LINE, CaseResult, judge_file

GOOD: dict[str, Any] = {"id": "g", "tool": "Read", "mode": "default", "rules": [], "path": "src/x"}
INSIDE = "Read of 'src/x': reading inside the workspace is allowed."


def judged(*lines: Any) -> list[CaseResult]:
    spelled = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return list(judge_file(BytesIO(b"\n".join(spelled))))


def test_a_broken_line_does_not_keep_the_others_from_being_judged() -> None:
    first, broken, last = judged(GOOD, b'{"id": "b", ', {**GOOD, "expect": "deny"})
    assert first == CaseResult(1, "g", Action.ALLOW, INSIDE)
    assert (broken.line, broken.decision, broken.met) == (2, None, False)
    assert broken.mistake.startswith("It is not JSON: ")
    assert last == CaseResult(3, "g", Action.ALLOW, INSIDE, Action.DENY)
    assert (first.met, last.met) == (True, False)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ([], "not a JSON object"),
        ({"id": "x"}, "neither a command nor a path nor a url"),
        ({**GOOD, "mode": "bold"}, "Invalid enum value 'bold'"),
        ({**GOOD, "rules": [{"tool": "Read", "pattern": "*", "action": "maybe"}]}, "Invalid enum value"),
        ({**GOOD, "tool": "Bash"}, "'Bash' is no tool of path cases"),
        ({**GOOD, "setup": [{"t": "door", "p": "ws/x"}]}, "Invalid enum value 'door'"),
        ({"id": "x", "command": "ls"}, "missing required field `mode`"),
        ({"id": "x", "url": 7}, "Expected `str`"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'"' + b"x" * LONGEST_LINE + b'"', "longer than 4,000,000 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_case_is_told_with_the_reason(line: Any, says: str) -> None:
    broken, good = judged(line, GOOD)
    assert says in broken.mistake
    assert (good.line, good.decision) == (2, Action.ALLOW)


def test_blank_lines_and_a_byte_order_mark_are_no_mistakes() -> None:
    found = judged(b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), b"  ", b"", GOOD)
    assert [(each.line, each.decision) for each in found] == [(1, Action.ALLOW), (4, Action.ALLOW)]


def test_parents_background_and_grants_count() -> None:
    def under(mode: str, **more: Any) -> dict[str, Any]:
        above: dict[str, Any] = {"mode": mode, "rules": [], "parent": {"mode": "default", "rules": []}}
        return {**GOOD, "tool": "Write", "mode": "acceptEdits", "parent": above, **more}

    found = judged(
        under("default"),
        under("default", background=True),
        under("acceptEdits", grant="acceptEdits"),
        under("plan", grant="acceptEdits"),
    )
    assert [each.decision for each in found] == [Action.ASK, Action.DENY, Action.ALLOW, Action.DENY]


def test_the_root_is_a_real_folder_and_stands_in_rules_links_and_paths() -> None:
    case = {
        **GOOD,
        "setup": [{"t": "file", "p": "outside/x"}, {"t": "link", "p": "ws/door", "to": "{ROOT}/outside"}],
        "path": "{ROOT}/ws/door/x",
        "rules": [{"tool": "Read", "pattern": "{ROOT}/outside/*", "action": "allow"}],
    }
    (found,) = judged(case)
    assert (found.decision, "{ROOT}/outside" in found.why) == (Action.ALLOW, True)


def test_nothing_of_one_case_is_left_for_the_next() -> None:
    link = {**GOOD, "setup": [{"t": "link", "p": "ws/src/x", "to": "/outside/of/all"}]}
    found = judged(link, GOOD, link, {**GOOD, "setup": [{"t": "file", "p": "ws/src/x"}]})
    assert [each.decision for each in found] == [Action.ASK, Action.ALLOW, Action.ASK, Action.ALLOW]


@pytest.mark.parametrize(
    "setup",
    [
        [Item("file", "../x")],
        [Item("file", "/x")],
        [Item("dir", "ws/..")],
        [Item("file", "")],
        [Item("link", "ws/out", to=".."), Item("link", "ws/far", to="out/../.."), Item("file", "ws/far/x")],
        [Item("link", "ws/out", to="/nowhere/at/all"), Item("file", "ws/out/x")],
        [Item("hard", "ws/x", to="../x")],
        [Item("link", "ws/x", to="/nowhere/x"), Item("file", "ws/x", "text")],
        [Item("file", "ws/nul\0byte")],
    ],
    ids=repr,
)
def test_nothing_is_made_outside_of_the_root(setup: list[Item]) -> None:
    with scratch() as place:
        before = sorted(place.root.parent.rglob("*"))
        with pytest.raises(UserMistake), place.built(setup):
            pass
        assert sorted(place.root.parent.rglob("*")) == before
        assert not Path("/nowhere").exists()


def test_everything_is_gone_afterwards() -> None:
    setup = [
        Item("sock", "ws/deep/er/s"),
        Item("fifo", "ws/f"),
        Item("hard", "home/h", to="ws/f"),
        Item("dir", "ws/src"),
        Item("file", "ws/twice", "a"),
        Item("file", "ws/twice", "b"),
        Item("link", "ws/deep/to", to="../../outside"),
        Item("file", "ws/deep/to/there"),
    ]
    with scratch() as place:
        root = place.root
        before = sorted(root.rglob("*"))
        with place.built(setup):
            there = [(root / item.p).exists() for item in setup]
            assert (root / "outside/there").is_file() and (root / "ws/twice").read_text() == "b"
        assert (sorted(root.rglob("*")), place.root) == (before, root)
    assert (there, root.parent.exists()) == ([True] * len(setup), False)


def test_what_cannot_be_taken_away_costs_a_new_root_and_nothing_else() -> None:
    with scratch() as place:
        root = place.root
        with place.built([Item("dir", "ws/kept")]):
            (root / "ws/kept/surprise").write_text("")
        assert (place.root != root, root.exists(), (place.root / "ws/src").is_dir()) == (True, False, True)


def test_a_redirect_is_judged_with_the_names_of_the_case() -> None:
    dns = {"a.example.net": ["1.1.1.1"]}
    fine = {"id": "u", "url": "http://a.example.net/", "dns": dns, "connect_ip": "1.1.1.1"}
    found = judged(
        fine,
        {**fine, "redirects": ["http://b.example.net/"]},
        {**fine, "connect_ip": "1.1.1.2", "expect": "allow"},
    )
    assert [(each.decision, each.met) for each in found] == [
        (Action.ALLOW, True),
        (Action.DENY, True),
        (Action.DENY, False),
    ]
