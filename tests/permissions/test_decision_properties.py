"""What must hold for every call, every chain and every list of rules."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gencode.core.rules import Action, Mode, Policy, Rule, child_policy, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import Approval, CallFacts
from gencode.permissions.decision import decide
from gencode.permissions.explanation import lifting

WHERE = Workspace(Path("/ws"), Path("/ws"), Path("/home/me"))
STRICTNESS = {Action.ALLOW: 0, Action.ASK: 1, Action.DENY: 2}

PATHS = st.sampled_from(
    ["a.py", "src/a.py", "src/deep/b", ".env", ".git/x", "/srv/x", "~/x", "../y", "~bob/x", ""]
)
PATTERNS = st.sampled_from(
    [
        "*",
        "",
        "a.py",
        "A.PY",
        "*.py",
        "src/**",
        "**/b",
        "/srv/*",
        "~/x",
        ".env",
        "mine",
        "x.org",
        "domain:x.org",
    ]
)
TOOLS = [
    "Read",
    "LS",
    "Glob",
    "Grep",
    "Write",
    "Edit",
    "delete_file",
    "get_file_info",
    "Bash",
    "WebFetch",
    "Task",
    "http_post",
    "TodoWrite",
    "memory_write",
    "TaskStop",
    "mcp__a__b",
    "surprise",
    "count_lines",
]
RULES = st.builds(
    Rule, st.sampled_from([*TOOLS, "*", "read", "task"]), PATTERNS, st.sampled_from(list(Action))
)
POLICIES = st.builds(Policy, st.sampled_from(list(Mode)), st.lists(RULES, max_size=4).map(tuple))
POLICY_LISTS = st.lists(POLICIES, min_size=1, max_size=3)


ALREADY = [Approval("host", "x.org"), Approval("agent", "mine"), Approval("tool", "http_post")]


@st.composite
def calls(draw: st.DrawFn) -> CallFacts:
    tool, path = draw(st.sampled_from(TOOLS)), draw(PATHS)
    given: dict[str, Any] = {
        "file_path": path,
        "pattern": path or "*",
        "command": "ls",
        "url": "https://x.org/",
    }
    if tool == "delete_file":
        given = {"path": path}
    given["subagent_type"] = "mine"
    return CallFacts(
        tool=tool,
        input=given,
        effect=draw(st.sampled_from(["read", "write", "execute", "delegate"])),
        workspace=WHERE,
        source="plugin" if tool == "count_lines" else "builtin",
        background=draw(st.booleans()),
        answerable=draw(st.booleans()),
        named=frozenset({"memory_write"}) if draw(st.booleans()) else frozenset(),
        agent_kind=draw(st.sampled_from(["builtin-reader", "other"])),
        own=draw(st.booleans()),
        already=draw(st.sets(st.sampled_from(ALREADY))),
    )


def strictness(call: CallFacts, chain: list[Policy]) -> int:
    return STRICTNESS[decide(call, chain).action]


@given(calls(), st.lists(POLICIES, min_size=1, max_size=4))
def test_a_child_never_gets_more_than_any_ancestor_alone(call: CallFacts, chain: list[Policy]) -> None:
    if call.tool == "Task":
        # Below an unattended root nobody can be asked, and then the table lets spawning through.
        chain = [policy for policy in chain if policy.mode is not Mode.UNATTENDED] or [Policy()]
    decided = strictness(call, chain)
    assert all(decided >= strictness(call, [ancestor]) for ancestor in chain[:-1])


@given(calls(), POLICY_LISTS, st.sampled_from([None, *Mode]), st.lists(RULES, max_size=3))
def test_an_agent_file_cannot_lower_what_its_parent_gets(
    call: CallFacts, chain: list[Policy], mode: Mode | None, rules: list[Rule]
) -> None:
    child = child_policy(chain[-1], mode, rules, "child")
    assert strictness(call, [*chain, child]) >= strictness(call, chain)


@given(calls(), POLICY_LISTS, st.data())
def test_one_more_deny_or_ask_rule_never_makes_anything_laxer(
    call: CallFacts, chain: list[Policy], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(chain) - 1))
    rule = data.draw(RULES.filter(lambda each: each.action is not Action.ALLOW))
    stricter = [*chain]
    stricter[at] = Policy(chain[at].mode, (*chain[at].rules, rule))
    assert strictness(call, stricter) >= strictness(call, chain)


@given(calls(), POLICIES, st.randoms(use_true_random=False))
def test_the_order_of_rules_never_matters(call: CallFacts, policy: Policy, random: Any) -> None:
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    assert decide(call, [policy]).action == decide(call, [Policy(policy.mode, tuple(shuffled))]).action


@given(calls(), st.sampled_from(TOOLS), PATTERNS, st.sampled_from(list(Action)), st.sampled_from(list(Mode)))
def test_the_forms_of_a_rule_are_equal_in_meaning(
    call: CallFacts, tool: str, pattern: str, action: Action, mode: Mode
) -> None:
    forms = [f"{tool}({pattern})", f"{tool.lower()}:{pattern}", f" {tool.upper()}( {pattern} ) "]
    if pattern in ("", "*"):
        forms += [tool, f"{tool}()", f"{tool}:*"]
    found = {decide(call, [Policy(mode, (parse_rule(form, action),))]).action for form in forms}
    assert len(found) == 1


@given(calls(), POLICY_LISTS)
def test_a_decision_always_says_why_and_what_would_lift_it(call: CallFacts, chain: list[Policy]) -> None:
    decision = decide(call, chain)
    assert decision.why.endswith(".")
    assert bool(lifting(decision)) is (decision.action is not Action.ALLOW)
    assert decision.action is not Action.ASK or (call.answerable and not call.background)
