"""What must hold for every command and every list of rules."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.permissions.bash.command_units import split_units
from gencode.permissions.decision import decide
from gencode.permissions.explanation import lifting
from tests.permissions.bash.judged import STRICTNESS, call, policy

COMMANDS = st.sampled_from(
    [
        *(
            "ls",
            "ls -l src",
            "cat x",
            "git status",
            "git push",
            "git -C x push origin",
            "rm x",
            "rm -rf $x",
            "make",
        ),
        *(
            "make $x",
            "make clean",
            "echo hi > out",
            "cat .env",
            "cp x .git/config",
            "x=1",
            "PATH=y",
            "FOO=1 make",
        ),
        *("sudo rm x", "timeout 5 make", "xargs rm", "sh -c 'make clean'", "bash -lc ls", "eval make", "$x"),
        *(
            "find . -exec rm {} +",
            "find . -name a",
            "cat private/x",
            "cat *",
            "cd src",
            "echo $(make)",
            "echo {a,b}",
        ),
        *(
            "[ -f x ]",
            "read y",
            "env",
            "export A=1",
            "curl x",
            "echo ${x:-y}",
            "docker run x rm y",
            "trap ls EXIT",
        ),
    ]
)
NAMES = st.sampled_from(["make", "rm", "git", "cat", "/bin/rm", "a b", "sh", "ls"])
ARGUMENTS = st.sampled_from(["push", "-f", "x", "clean", "a b", "private/x", ".env", "-C", "*", "rm"])
SIMPLE = st.tuples(NAMES, st.lists(ARGUMENTS, max_size=3)).map(lambda both: [both[0], *both[1]])
PATTERNS = st.sampled_from(
    [
        *(
            "*",
            "rm:*",
            "rm x",
            "make:*",
            "make clean",
            "make * x",
            "git push:*",
            "git:*",
            "cat *",
            "sudo rm:*",
        ),
        *("sh:*", "find:*", "m*", "* x", "timeout:*", "echo:*", "cat .env", "FOO=1:*", "xargs rm:*", "$x"),
    ]
)
PATHS = st.sampled_from(["private/**", "*.txt", ".env", "*", "src/*", "/etc/**"])
RULES = st.one_of(
    st.builds(Rule, st.sampled_from(["Bash", "bash", "*"]), PATTERNS, st.sampled_from(list(Action))),
    st.builds(Rule, st.sampled_from(["Read", "Write", "Edit"]), PATHS, st.sampled_from(list(Action))),
)
POLICIES = st.builds(Policy, st.sampled_from(list(Mode)), st.lists(RULES, max_size=5).map(tuple))

COMPOSITIONS = [
    *(
        "{a}; {b}",
        "{a} && {b}",
        "{a} || {b}",
        "{a} | {b}",
        "{a} |& {b}",
        "{a} & {b}",
        "{a}\n{b}",
        "( {a}; {b} )",
    ),
    *("{{ {a}; {b}; }}", "if {a}; then {b}; fi", "while {a}; do {b}; done", "for i in 1; do {a}; {b}; done"),
    *('echo $({a}) "$({b})"', "x=$({a}; {b})", "cat <({a}) <({b})", "cat <<E\n$({a})$({b})\nE", "! {a}; {b}"),
    *("case x in y) {a};; *) {b};; esac", "{a}; f() {{ {b}; }}", "until {a}; do {b}; done", "time {a}; {b}"),
    *("echo ${{x:-$({a})}}; {b}", "coproc {{ {a}; {b}; }}", "[[ -n $({a}) ]] && {b}"),
]
TRANSPARENT = [
    *("timeout 5", "timeout -k 1 9", "nice", "nice -n 5", "nice -3", "nohup", "stdbuf -oL", "command", "env"),
    *("env LANG=C", "time -p", "/usr/bin/nice", "xargs -n 1"),
]
DISPATCHING = [
    *(
        "sudo",
        "sudo -u root",
        "exec",
        "setsid",
        "env -i",
        "env FOO=1",
        "command -p",
        "busybox",
        "docker exec c",
    ),
    *("strace -f", "ssh host", "flock f", "chroot /x", "taskset 1", "./timeout 5"),
]


def strictness(command: str, policy: Policy) -> int:
    return STRICTNESS[decide(call(command), [policy]).action]


def readable(command: str) -> bool:
    return not split_units(command).unparsable


@given(COMMANDS, COMMANDS, st.sampled_from(COMPOSITIONS), POLICIES)
def test_a_composition_is_never_laxer_than_its_parts(a: str, b: str, form: str, rules: Policy) -> None:
    whole = form.format(a=a, b=b)
    parts = max(strictness(a, rules), strictness(b, rules))
    # What cannot be read is asked even where a rule would deny a part of it; bash does not run it either.
    assert strictness(whole, rules) >= (parts if readable(whole) else min(parts, 1))


@given(COMMANDS, POLICIES, RULES.filter(lambda each: each.action is not Action.ALLOW))
def test_one_more_deny_or_ask_rule_never_makes_anything_laxer(
    command: str, rules: Policy, rule: Rule
) -> None:
    more = Policy(rules.mode, (*rules.rules, rule))
    assert strictness(command, more) >= strictness(command, rules)


@given(COMMANDS, POLICIES, RULES.filter(lambda each: each.action is Action.ALLOW))
def test_an_allow_rule_never_makes_anything_stricter_nor_lifts_a_denial(
    command: str, rules: Policy, rule: Rule
) -> None:
    mode = Mode.DEFAULT if rules.mode is Mode.UNATTENDED else rules.mode
    before = strictness(command, Policy(mode, rules.rules))
    after = strictness(command, Policy(mode, (*rules.rules, rule)))
    assert after <= before
    assert (after == 2) is (before == 2)


@given(SIMPLE, st.lists(st.sampled_from(["", "'", '"', "\\", "$'"]), min_size=4, max_size=4), POLICIES)
def test_quoting_and_spacing_change_nothing(words: list[str], marks: list[str], rules: Policy) -> None:
    typed = [quoted(word, mark) for word, mark in zip(words, marks, strict=False)]
    assert strictness("  ".join(typed) + " ", rules) == strictness(shlex.join(words), rules)


def quoted(word: str, mark: str) -> str:
    match mark:
        case "'" | '"' if "'" not in word:
            return f"{mark}{word[:1]}{mark}{mark}{word[1:]}{mark}"
        case "\\":
            return "".join(f"\\{letter}" for letter in word)
        case "$'":
            return "$'" + "".join(f"\\x{ord(letter):02x}" for letter in word) + "'"
        case _:
            return shlex.quote(word)


@given(
    SIMPLE,
    st.lists(st.sampled_from([*TRANSPARENT, *DISPATCHING]), min_size=1, max_size=3),
    st.lists(RULES, max_size=4),
)
def test_wrapping_never_makes_a_denied_command_allowed(
    words: list[str], wrappers: list[str], rules: list[Rule]
) -> None:
    command, strict = shlex.join(words), Policy(Mode.DEFAULT, tuple(rules))
    if strictness(command, strict) == 2:
        # Behind xargs an exact rule is only a possible match.
        least = 1 if "xargs -n 1" in wrappers else 2
        assert strictness(" ".join([*wrappers, command]), strict) >= least
        assert strictness(" ".join(["FOO=1 LANG=C", *wrappers, command]), strict) >= least


@given(SIMPLE, st.lists(st.sampled_from(DISPATCHING), min_size=1, max_size=2), st.lists(RULES, max_size=4))
def test_dispatching_never_makes_an_asked_command_allowed(
    words: list[str], wrappers: list[str], rules: list[Rule]
) -> None:
    command = shlex.join(words)
    # A rule for all commands, or for the dispatcher with its command, says so itself.
    narrow = [rule for rule in rules if not (rule.action is Action.ALLOW and rule.pattern[0] in "*s")]
    given_rules = Policy(Mode.DEFAULT, tuple(narrow))
    if strictness(command, given_rules) > 0:
        assert strictness(" ".join([*wrappers, command]), given_rules) > 0


@given(COMMANDS, COMMANDS, st.sampled_from(COMPOSITIONS), st.lists(RULES, max_size=5))
def test_plan_mode_allows_nothing_that_does_more_than_read(
    a: str, b: str, form: str, rules: list[Rule]
) -> None:
    command = form.format(a=a, b=b)
    if decide(call(command), [Policy(Mode.PLAN, tuple(rules))]).action is Action.ALLOW:
        assert [unit.more_than_read for unit in split_units(command).units if unit.more_than_read] == []


@given(COMMANDS, POLICIES)
def test_nobody_is_asked_when_nobody_attends(command: str, rules: Policy) -> None:
    unattended = Policy(Mode.UNATTENDED, rules.rules)
    assert decide(call(command), [rules, unattended]).action is not Action.ASK
    assert strictness(command, unattended) >= strictness(command, Policy(Mode.DEFAULT, rules.rules))


@given(COMMANDS, POLICIES)
def test_no_mode_is_laxer_than_dont_ask_and_none_but_unattended_stricter_than_plan(
    command: str, rules: Policy
) -> None:
    by_mode = {mode: strictness(command, Policy(mode, rules.rules)) for mode in Mode}
    assert by_mode[Mode.DEFAULT] == by_mode[Mode.ACCEPT_EDITS] >= by_mode[Mode.DONT_ASK]
    assert by_mode[Mode.PLAN] >= by_mode[Mode.DONT_ASK]


@given(st.text("lsrm '\"$(){}[]|&;<>\\\n`=*?!~#-/.xX10", max_size=40), POLICIES)
def test_any_text_gets_a_decision_that_is_explained(text: str, rules: Policy) -> None:
    decision = decide(call(text), [rules])
    assert decision.why.endswith(".")
    assert bool(lifting(decision)) is (decision.action is not Action.ALLOW)


def test_the_same_policy_again_in_a_chain_changes_nothing() -> None:
    rules = policy("allow Bash")
    assert decide(call("make; ls"), [rules, rules, rules]) == decide(call("make; ls"), [rules])
