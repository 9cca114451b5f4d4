"""Hooks as people write them: Claude Code's shape is understood, everything else is a finding."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.hook_settings import MOST_HOOKS, Hook, HookSettings, parse_hooks


def one(matcher: Any = "Bash", **more: Any) -> HookSettings:
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": "guard", **more}]}
    return parse_hooks({"PreToolUse": [group]}, of_agent=True)


def test_the_four_moments_are_read_from_an_agents_file():
    raw = {
        "SubagentStart": [{"hooks": [{"type": "command", "command": "begin"}]}],
        "PreToolUse": [
            {"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "a", "timeout": 5}]}
        ],
        "PostToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "b"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "c"}]}],
    }
    assert parse_hooks(raw, of_agent=True) == HookSettings(
        (
            Hook("start", "begin"),
            Hook("before", "a", ("bash", "edit"), 5.0),
            Hook("after", "b"),
            Hook("stop", "c"),
        )
    )


def test_hooks_of_the_settings_know_whose_they_are():
    events = ("SessionStart", "SubagentStart", "Stop", "SubagentStop", "PreToolUse")
    raw = {event: {"hooks": [{"command": event}]} for event in events}
    found = {hook.command: hook.seats for hook in parse_hooks(raw, of_agent=False).hooks}
    assert found == {
        **{"SessionStart": "main", "SubagentStart": "sent", "Stop": "main", "SubagentStop": "sent"},
        "PreToolUse": "",
    }


@pytest.mark.parametrize("event", ["pre_tool_use", "pretooluse", "PRE-TOOL-USE"])
def test_events_may_be_spelled_otherwise(event: str):
    raw = {event: [{"matcher": "", "hooks": [{"type": "command", "command": "a"}]}]}
    assert parse_hooks(raw, of_agent=True) == HookSettings((Hook("before", "a"),))


@pytest.mark.parametrize(
    ("matcher", "fits", "not_fits"),
    [
        ("Bash", ["Bash", "bash"], ["BashX", "Edit"]),
        ("Edit|Write", ["Edit", "Write"], ["Bash"]),
        ("^(Edit|Write)$", ["Edit", "Write"], ["Bash"]),
        ("mcp__github__.*", ["mcp__github__push"], ["mcp__gitlab__push"]),
        ("mcp__*", ["mcp__github__push"], ["Bash"]),
        ("*", ["Anything"], []),
        ("", ["Anything"], []),
        (None, ["Anything"], []),
    ],
)
def test_a_matcher_names_tools(matcher: Any, fits: list[str], not_fits: list[str]):
    ((hook,), findings) = (one(matcher).hooks, one(matcher).findings)
    assert findings == ()
    assert [name for name in [*fits, *not_fits] if hook.meant_for([name])] == fits


@pytest.mark.parametrize("matcher", ["(a+)+$", "Bash(git *)", ["Bash"], "[A-Z]+", "*" * 20, "x" * 600])
def test_a_matcher_that_is_not_understood_fits_every_tool(matcher: Any):
    found = one(matcher)
    assert [hook.fits for hook in found.hooks] == [()]
    assert len(found.findings) == 1
    assert "so its hooks are run for every tool" in found.findings[0]


@pytest.mark.parametrize(
    ("timeout", "seconds", "finding"),
    [
        (None, 10.0, None),
        (3, 3.0, None),
        ("2.5", 2.5, None),
        (5000, 60.0, "the timeout of a hook of PreToolUse is limited to 60 seconds"),
        (0, 10.0, "the timeout of a hook of PreToolUse is no number of seconds above 0; it is 10"),
        ("nan", 10.0, "the timeout of a hook of PreToolUse is no number of seconds above 0; it is 10"),
        (True, 10.0, "the timeout of a hook of PreToolUse is no number of seconds above 0; it is 10"),
        ([1], 10.0, "the timeout of a hook of PreToolUse is no number of seconds above 0; it is 10"),
    ],
)
def test_a_timeout_is_bounded(timeout: Any, seconds: float, finding: str | None):
    found = one(timeout=timeout)
    assert [hook.seconds for hook in found.hooks] == [seconds]
    assert found.findings == ((finding,) if finding else ())


@pytest.mark.parametrize(
    ("raw", "finding"),
    [
        (
            {"pre": "echo start"},
            "the hook 'pre' has no effect: there is no such event; use one of PreToolUse",
        ),
        ({"UserPromptSubmit": []}, "the hook 'UserPromptSubmit' has no effect: it is not run here"),
        ({"PreToolUse": "echo"}, "a hook of PreToolUse has no effect: write it as a list"),
        ({"Stop": [{"matcher": "x"}]}, "a hook of Stop has no effect: it names no commands under `hooks`"),
        ({"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}, "only those with a command are run"),
        ({"Stop": [{"hooks": [{"command": " "}]}]}, "only those with a command are run"),
        ({"Stop": [{"hooks": [{"command": "a" * 9000}]}]}, "its command is too long"),
        ("echo", "hooks must name events such as PreToolUse"),
        (["echo"], "hooks must name events such as PreToolUse"),
    ],
)
def test_what_will_not_run_is_a_finding(raw: Any, finding: str):
    found = parse_hooks(raw, of_agent=True)
    assert [hook for hook in found.hooks if not hook.broken] == []
    assert [finding in each for each in found.findings] == [True]


def test_the_same_hook_twice_is_one_and_too_many_are_cut():
    twice = [{"command": "a"}, {"command": "a"}]
    assert len(parse_hooks({"Stop": {"hooks": twice}}, of_agent=True).hooks) == 1
    many = [{"command": str(number)} for number in range(MOST_HOOKS + 1)]
    found = parse_hooks({"Stop": {"hooks": many}}, of_agent=True)
    assert (len(found.hooks), found.findings) == (
        MOST_HOOKS,
        (f"a hook of Stop has no effect: there are more than {MOST_HOOKS}",),
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["PreToolUse", "Stop", "matcher", "hooks", "type", "command", "timeout", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES, st.text(max_size=30))
def test_whatever_stands_there_every_hook_is_bounded(raw: Any, name: str):
    for hook in parse_hooks(raw, of_agent=True).hooks:
        assert 0 < hook.seconds <= 60
        assert hook.command.strip()
        assert hook.meant_for([name]) in (True, False)
