"""Bash patterns against the words of one command."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.rules import Action, Rule, written_in
from gencode.permissions.bash.rule_automaton import Automaton, BashPattern, Track, bash_pattern, only_stars
from tests.permissions.bash.judged import actions, all_are, judge

NOWHERE = 1 << 30

VOCABULARY = ["git", "push", "x", "main", "testing"]
PATTERN_WORDS = st.sampled_from([*VOCABULARY, "*", "te*", "*n*", "*"])
PATTERNS = st.tuples(
    st.lists(PATTERN_WORDS, min_size=1, max_size=4).map(" ".join), st.sampled_from(["", ":*", " *"])
).map("".join)
WORDS = st.lists(st.sampled_from([*VOCABULARY, None]), min_size=1, max_size=6)


def matches(pattern: str, words: Sequence[str | None], *, possible: bool = False) -> bool:
    automaton = Automaton([Rule("Bash", pattern, Action.DENY)], through=False)
    return automaton.matches(Track(tuple(words), (0,), NOWHERE), possible=possible) != 0


def agrees(pattern: Sequence[str], words: Sequence[str | None], *, possible: bool) -> bool:
    """The meaning of a pattern, slow and by the letter; `...` is any number of words."""
    if possible and words and words[0] is None:
        return agrees(pattern, words[1:], possible=True) or (
            bool(pattern) and agrees(pattern[1:], words, possible=True)
        )
    if not pattern or not words:
        return not words and all(word == "..." for word in pattern)
    if pattern[0] == "...":
        here = agrees(pattern[1:], words, possible=possible)
        return here or agrees(pattern, words[1:], possible=possible)
    return fits(pattern[0], words[0]) and agrees(pattern[1:], words[1:], possible=possible)


def fits(pattern: str, word: str | None) -> bool:
    if pattern == "*":
        return True
    expression = ".*".join(re.escape(piece) for piece in pattern.split("*"))
    return word is not None and re.fullmatch(expression, word, re.DOTALL) is not None


def spelled_out(pattern: str) -> list[str]:
    """A lone star as one word and any number of words, an open tail as any number of words."""
    read = bash_pattern(pattern)
    words = [each for word in read.words for each in (["*", "..."] if word == "*" else [word])]
    return [*words, *(["..."] if read.open_tail else [])]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("git status", BashPattern(("git", "status"), False, 2)),
        ("git status:*", BashPattern(("git", "status"), True, 2)),
        ("git status *", BashPattern(("git", "status"), True, 2)),
        ("git * main", BashPattern(("git", "*", "main"), False, 1)),
        ("git *:*", BashPattern(("git", "*"), True, 1)),
        ("deno task fmt*", BashPattern(("deno", "task", "fmt*"), False, 2)),
        ("npm run test:*", BashPattern(("npm", "run", "test"), True, 3)),
    ],
)
def test_a_pattern_is_taken_apart(text: str, pattern: BashPattern) -> None:
    assert bash_pattern(text) == pattern


def test_a_pattern_without_a_star_is_exact() -> None:
    exact = [text for text in ("make", "make x", "make:*", "make *", "m*", "* x") if bash_pattern(text).exact]
    assert exact == ["make", "make x"]


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("git status", ["git status", "'git' \"status\""], ["git status -s", "git", '"git status"']),
        ("ls:*", ["ls", "ls -l", "ls $x *"], ["lsof", "/bin/ls x"]),
        ("rake * --dry", ["rake a --dry", "rake a b --dry"], ["rake --dry", "rake a --dry b"]),
        ("deno fmt*", ["deno fmt", "deno fmt:check"], ["deno xfmt", "deno fmt x"]),
        ("x --out=*", ["x --out=", "x --out=a/b"], ["x --out", "x a --out=b"]),
        ("a*b*c", ["abc", "aXbYc"], ["ab", "acb"]),
        ("tool *", ["tool", "tool x"], ["tools"]),
        ("TOOL:*", ["TOOL x"], ["tool x"]),
    ],
)
def test_an_allow_rule_covers_what_its_pattern_says(pattern: str, fits: list[str], fails: list[str]) -> None:
    found = {command: judge(command, f"allow Bash({pattern})").rule for command in fits}
    assert found == dict.fromkeys(fits, f"allow Bash({pattern})")
    assert all(judge(command, f"allow Bash({pattern})").rule == "" for command in fails)


def test_the_fixed_words_of_a_pattern_never_cover_an_unknown_word() -> None:
    commands = ["make $x", "make te$x", 'make "$x"', "make *.c", "make {a,b}", "make $(date)"]
    assert actions(commands, "allow Bash(make te*)", "allow Bash(make *.c)") == all_are("ask", commands)
    assert actions(commands, "allow Bash(make:*)") == all_are("allow", commands)


def test_a_lone_star_covers_an_unknown_word() -> None:
    assert judge("make $x all", "allow Bash(make * all)").action == "allow"


@pytest.mark.parametrize("command", ["make $x", "make $x y", "make *", "make {clean,$y}"])
def test_a_rule_that_could_match_for_some_value_is_asked(command: str) -> None:
    decision = judge(command, "allow Bash", "deny Bash(make clean:*)")
    assert (decision.action, decision.rule) == ("ask", "deny Bash(make clean:*)")


@pytest.mark.parametrize(
    "command", ["make all $x", "make -C $x clean", "gmake $x", "echo $x", "make 'clean x' $x"]
)
def test_a_rule_that_cannot_match_for_any_value_is_not(command: str) -> None:
    assert judge(command, "allow Bash", "deny Bash(make clean:*)").action == "allow"


def test_an_unknown_word_may_stand_for_no_word_at_all() -> None:
    assert judge("git $x push", "allow Bash", "deny Bash(git push:*)").action == "ask"
    assert judge("make $x", "allow Bash", "deny Bash(make)").action == "ask"


@pytest.mark.parametrize("command", ["$x", "eval y", "x=(1)", "echo ${x:-y}", "f() { :; }", "cat a | sh"])
def test_any_narrower_rule_might_match_what_nobody_knows(command: str) -> None:
    assert judge(command, "allow Bash", "deny Bash(make clean)").action == "ask"
    assert judge(command, "allow Bash", "ask Bash(make clean)", mode="dontAsk").action == "ask"
    assert judge(command, "allow Bash").action == "allow"


@pytest.mark.parametrize("pattern", ["*", "", ":*", "*:*", "**", "* *"])
def test_a_strict_rule_of_nothing_but_stars_speaks_of_everything(pattern: str) -> None:
    assert only_stars(pattern)
    for command in ("ls", "> x", "x=1", "$x", 'echo "open', "for i in a; do :; done"):
        assert judge(command, f"deny Bash({pattern})").action == "deny"


def test_a_blanket_allow_rule_covers_every_kind_of_part() -> None:
    commands = ["make", "> x", "X=1", "$x", "eval y", "for i in {1..3}; do :; done", "f() { :; }"]
    assert actions(commands, "allow Bash") == all_are("allow", commands)
    assert actions(commands, "allow bash:*") == all_are("allow", commands)
    assert actions(commands, "allow *") == all_are("allow", commands)


def test_tools_are_known_by_any_spelling_of_their_name() -> None:
    found = [judge("make", f"deny {tool}(make)").action for tool in ("bash", "BASH", "Bash", "*")]
    assert found == ["deny"] * 4


@given(PATTERNS, WORDS, st.booleans())
def test_the_automaton_agrees_with_the_letter_of_the_specification(
    pattern: str, words: list[str | None], possible: bool
) -> None:
    expected = agrees(spelled_out(pattern), words, possible=possible)
    assert matches(pattern, words, possible=possible) == expected


@given(st.lists(PATTERNS, min_size=1, max_size=5), WORDS, st.booleans())
def test_rules_compiled_together_match_as_each_alone(
    patterns: list[str], words: list[str | None], possible: bool
) -> None:
    rules = [Rule("Bash", pattern, Action.DENY, written_in(str(at))) for at, pattern in enumerate(patterns)]
    automaton = Automaton(rules, through=False)
    ends = automaton.matches(Track(tuple(words), (0,), NOWHERE), possible=possible)
    together = [rule.origin for end, (rule, _) in automaton.ends_of.items() if ends & end]
    alone = [rule.origin for rule in rules if matches(rule.pattern, words, possible=possible)]
    assert together == alone


@given(PATTERNS, WORDS, st.booleans())
def test_reading_from_everywhere_finds_what_some_suffix_matches(
    pattern: str, words: list[str | None], possible: bool
) -> None:
    automaton = Automaton([Rule("Bash", pattern, Action.DENY)], through=False)
    found = automaton.matches(Track(tuple(words), (), 0), possible=possible) != 0
    assert found == any(matches(pattern, words[at:], possible=possible) for at in range(len(words)))


@given(PATTERNS, WORDS)
def test_what_matches_for_certain_is_also_possible(pattern: str, words: list[str | None]) -> None:
    assert not matches(pattern, words) or matches(pattern, words, possible=True)
