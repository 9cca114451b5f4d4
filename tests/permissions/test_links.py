"""A deny or ask rule counts for where its name leads, an allow rule only for what it says."""

import os
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.place import FolderCopy
from gencode.core.rules import Action, Decision, Mode, Policy, Remedy, parse_rule, written_in
from gencode.core.spec import Workspace
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide
from gencode.permissions.links import as_links_lead, follow
from gencode.permissions.paths import places_of


class Yard:
    """A workspace with secrets, reached by many names: `way` leads to it, and more is linked in it."""

    def __init__(self, base: Path) -> None:
        self.base = Path(os.path.realpath(base))
        for name in ("ws/secret", "ws/src", "home", "else/where"):
            (self.base / name).mkdir(parents=True)
        for name in ("ws/secret/key.txt", "ws/src/a.py", "else/where/key.txt", "home/notes"):
            (self.base / name).write_text("x")
        links = {
            "way": "ws",
            "ways": "way/secret",
            "ws/out": f"{self.base}/else",
            "home/repo": "../ws",
            "ws/key": "secret/key.txt",
            "ws/a*b": "secret",
        }
        for name, target in links.items():
            (self.base / name).symlink_to(target)
        self.where = Workspace(self.base / "ws", self.base / "ws", self.base / "home")

    def policy(self, *rules: str) -> Policy:
        """Rules as words, `{B}` for the folder of all this: `deny Read({B}/way/secret/**)`."""
        parsed = (text.replace("{B}", str(self.base)).partition(" ") for text in rules)
        return Policy(
            Mode.DEFAULT,
            tuple(parse_rule(rule, Action(act), written_in("a test")) for act, _, rule in parsed),
        )

    def decided(self, call: str, *rules: str, where: Workspace | None = None) -> Decision:
        """What the rules say about a command (`$ cat x`) or about reading a file."""
        text = call.replace("{B}", str(self.base))
        command = text.removeprefix("$ ")
        tool, arguments = ("Read", {"file_path": text}) if command == text else ("Bash", {"command": command})
        facts = CallFacts(tool=tool, input=arguments, effect="read", workspace=where or self.where)
        return decide(facts, [self.policy(*rules)])


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


SPELLINGS = ["secret/key.txt", "{B}/ws/secret/key.txt", "{B}/way/secret/key.txt", "~/repo/secret/key.txt"]


@pytest.mark.parametrize(
    "pattern",
    [
        "{B}/way/secret/**",
        "{B}/ways/**",
        "{B}/way/secret/key.txt",
        "{B}/way/SECRET/*.txt",
        "{B}/way/sec*/**",
        "{B}/way/secret/",
        "{B}/else/../way/secret/**",
        "~/repo/secret/**",
        "./../way/secret/**",
    ],
)
def test_a_rule_whose_name_leads_through_a_link_holds_for_the_file_itself(yard: Yard, pattern: str) -> None:
    found = {
        (action, call): yard.decided(call, f"{action} Read({pattern})").action
        for action in ("deny", "ask")
        for call in (
            "secret/key.txt",
            "{B}/ws/secret/key.txt",
            "$ cat secret/key.txt",
            "$ cat {B}/ws/secret/key.txt",
        )
    }
    assert found == {key: Action(key[0]) for key in found}
    assert yard.decided("src/a.py", f"deny Read({pattern})").action is Action.ALLOW
    assert yard.decided("$ cat src/a.py", f"deny Read({pattern})").action is Action.ALLOW


@pytest.mark.parametrize("call", [*SPELLINGS, *(f"$ cat {each}" for each in SPELLINGS[:3])])
def test_the_name_that_a_rule_was_written_with_counts_as_before(yard: Yard, call: str) -> None:
    assert yard.decided(call, "deny Read({B}/way/secret/**)").action is Action.DENY


def test_a_workspace_that_was_entered_through_a_link_is_protected_by_each_of_its_names(yard: Yard) -> None:
    way = yard.base / "way"
    entered = Workspace(way, way, yard.base / "home")
    found = {
        yard.decided(call, f"deny Read({folder}/secret/**)", where=entered).action
        for folder in ("{B}/way", "{B}/ws", "~/repo", "./")
        for call in (*SPELLINGS[:3], *(f"$ cat {each}" for each in SPELLINGS[:3]))
    }
    assert found == {Action.DENY}


def test_a_link_in_the_workspace_protects_what_it_leads_to(yard: Yard) -> None:
    calls = ("../else/where/key.txt", "$ cat ../else/where/key.txt", "$ cat {B}/else/where/key.txt")
    assert {yard.decided(call, "deny Read(out/where/**)").action for call in calls} == {Action.DENY}


def test_a_rule_for_a_link_itself_holds_for_its_file(yard: Yard) -> None:
    assert {
        yard.decided(call, "deny Read({B}/ws/key)").action
        for call in ("key", "secret/key.txt", "$ cat key", "$ cat secret/key.txt")
    } == {Action.DENY}


def test_an_allow_rule_is_led_nowhere(yard: Yard) -> None:
    assert yard.decided("{B}/else/where/key.txt", "allow Read({B}/ws/out/**)").action is Action.ASK
    assert yard.decided("../else/where/key.txt", "allow Read(out/where/*)").action is Action.ASK


def test_rules_that_were_sent_to_another_machine_hold_there_for_where_they_led(yard: Yard) -> None:
    sent = as_links_lead(yard.policy("deny Read({B}/way/secret/**)"), places_of(yard.where))
    copy = yard.base / "copy"
    (yard.base / "way").unlink()
    (yard.base / "ws").rename(copy)
    there = Workspace(copy, copy, yard.base / "home", FolderCopy(str(copy), str(yard.base / "ws")))
    calls = [("Read", {"file_path": "secret/key.txt"}), ("Bash", {"command": "cat secret/key.txt"})]
    facts = [CallFacts(tool=tool, input=given, effect="read", workspace=there) for tool, given in calls]
    assert [decide(each, [sent]).action for each in facts] == [Action.DENY, Action.DENY]


def test_a_link_counts_as_it_is_now(yard: Yard) -> None:
    rule, link = "deny Read({B}/way/**)", yard.base / "way"
    calls = ("src/a.py", "$ cat src/a.py", "{B}/else/where/key.txt", "$ cat {B}/else/where/key.txt")

    def denied() -> list[bool]:
        return [yard.decided(call, rule).action is Action.DENY for call in calls]

    assert denied() == [True, True, False, False]
    link.unlink()
    assert denied() == [False] * 4
    link.symlink_to("else")
    assert denied() == [False, False, True, True]


def test_the_decision_names_the_rule_and_where_it_leads(yard: Yard) -> None:
    base = yard.base
    rule = f"deny Read({base}/ws/secret/**) from a test ({base}/way/secret/** leads there)"
    assert yard.decided("secret/key.txt", "deny Read({B}/way/secret/**)") == Decision(
        Action.DENY,
        f"Read of 'secret/key.txt': the rule {rule} matches.",
        rule,
        "session",
        Remedy.REMOVE_RULE,
        removes=f"deny Read({base}/ws/secret/**)",
    )


def test_links_that_never_end_and_names_that_are_not_there_add_nothing(yard: Yard) -> None:
    (yard.base / "round").symlink_to("round")
    policy = yard.policy(
        "deny Read({B}/round/x)", "deny Read({B}/nothing/**)", "deny Read(*.pem)", "deny Bash({B}/way/x)"
    )
    assert as_links_lead(policy, places_of(yard.where)) is policy


def test_a_place_whose_name_looks_like_a_pattern_is_protected_and_nothing_beside_it(yard: Yard) -> None:
    odd = yard.base / "else" / "a*b"
    odd.mkdir()
    (yard.base / "else" / "axxb").mkdir()
    (yard.base / "odd").symlink_to(odd)
    rules = ("deny Read({B}/odd/**)", "allow Read({B}/else/**)")
    found = [yard.decided(f"{{B}}/else/{name}/f", *rules).action for name in ("a*b", "axxb")]
    assert found == [Action.DENY, Action.ALLOW]


def test_a_link_to_the_root_denies_the_root_and_not_what_is_in_it(yard: Yard) -> None:
    (yard.base / "top").symlink_to("/")
    led = as_links_lead(yard.policy("deny Read({B}/top)"), places_of(yard.where))
    assert [rule.pattern for rule in led.rules] == [f"{yard.base}/top", "/."]
    assert yard.decided("src/a.py", "deny Read({B}/top)").action is Action.ALLOW


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return Yard(tmp_path_factory.mktemp("still"))


STEPS = [
    "way",
    "ways",
    "ws",
    "out",
    "else",
    "where",
    "secret",
    "home",
    "repo",
    "src",
    "key",
    "key.txt",
    "a.py",
    "..",
]
NAMES = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5).map("/".join)
NUMBERS = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def same(still: Yard) -> list[list[str]]:
    """Names of up to three steps, in groups: those of a group lead to the same place, which is there."""
    groups: dict[str | None, list[str]] = {}
    for count in (1, 2, 3):
        for steps in product(STEPS, repeat=count):
            text = f"{still.base}/{'/'.join(steps)}"
            groups.setdefault(follow(text), []).append(text)
    return [names for place, names in groups.items() if place and Path(place).exists() and len(names) > 1]


@given(NUMBERS, NUMBERS, NUMBERS)
def test_two_names_of_one_place_are_denied_alike(
    still: Yard, same: list[list[str]], group: int, one: int, other: int
) -> None:
    names = same[group % len(same)]
    rule, name = f"deny Read({names[one % len(names)]})", names[other % len(names)]
    assert still.decided(name, rule).action is Action.DENY
    assert still.decided(f"$ cat {os.path.realpath(name)}", rule).action is Action.DENY


PATTERNS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["{B}/", "~/", "./", ""]),
    NAMES,
    st.sampled_from(["", "/", "/**", "/*", "*"]),
)


@given(st.lists(st.tuples(st.sampled_from(list(Action)), PATTERNS), max_size=4, unique=True))
def test_links_only_add_rules_that_ask_or_refuse(still: Yard, drawn: list[tuple[Action, str]]) -> None:
    policy = still.policy(*(f"{action} Read({pattern})" for action, pattern in drawn))
    led = as_links_lead(policy, places_of(still.where))
    before = len(policy.rules)
    assert (led.mode, led.rules[:before]) == (policy.mode, policy.rules)
    assert Action.ALLOW not in {rule.action for rule in led.rules[before:]}
