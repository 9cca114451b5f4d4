"""The rules of one policy that apply to commands, compiled once."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gencode.core.rules import Action, Policy, Rule
from gencode.core.spec import same_name
from gencode.permissions.bash.rule_automaton import Automaton, bash_pattern, only_stars
from gencode.permissions.patterns import PathPattern, Places, RulePattern, rule_pattern

_READ = frozenset({"read", "readfile"})
_WRITE = frozenset({"write", "edit", "writefile", "editfile"})
"""Tools as `same_name` spells them, with the aliases they are known by."""

_MANY_STARS = 3
_BETWEEN_LETTERS = re.compile(r"[*?/]")


class PathRule(NamedTuple):
    """A deny or ask rule for paths. Every word it matches has `needle` in it, in small letters."""

    rule: Rule
    pattern: PathPattern | RulePattern
    needle: str


class BashRules(NamedTuple):
    """What a policy says about commands.

    `deny`, `ask` and `allow` are the blanket rules. `strict` holds the narrower deny and ask rules, `denying`
    the ends of those that deny; `narrower` is the strictest of them. `exact` are the words of allow rules
    that can lift a guard. `reads` are the path rules for what only reads, `writes` those for what is written,
    `changes` both; the denying ones come first. `limits` are rules for every command but some, each with
    those that it excepts.
    """

    deny: Rule | None
    ask: Rule | None
    allow: Rule | None
    strict: Automaton
    denying: int
    narrower: Rule | None
    allowing: Automaton
    exact: dict[tuple[str, ...], Rule]
    reads: tuple[PathRule, ...]
    writes: tuple[PathRule, ...]
    changes: tuple[PathRule, ...]
    limits: tuple[tuple[Rule, Automaton], ...]


@lru_cache(maxsize=256)
def bash_rules(policy: Policy, aliases: tuple[str, ...], places: Places) -> BashRules:
    """The rules of a policy that speak of Bash, or of paths that a command may name."""
    keys = {same_name(name) for name in ("Bash", *aliases)}
    blanket: dict[Action, Rule] = {}
    strict: list[Rule] = []
    allowing: list[Rule] = []
    limits: list[tuple[Rule, Automaton]] = []
    for rule in policy.rules:
        if not _speaks_of_bash(rule, keys):
            continue
        if rule.unless:
            limits.append((rule, Automaton(list(_excepted(rule)), through=False)))
        elif rule.blanket or (rule.action is not Action.ALLOW and only_stars(rule.pattern)):
            blanket.setdefault(rule.action, rule)
        else:
            (allowing if rule.action is Action.ALLOW else strict).append(rule)
    strict.sort(key=lambda rule: rule.action is not Action.DENY)
    automaton = Automaton(strict, through=True)
    return BashRules(
        deny=blanket.get(Action.DENY),
        ask=blanket.get(Action.ASK),
        allow=blanket.get(Action.ALLOW),
        strict=automaton,
        denying=sum(end for end, (rule, _) in automaton.ends_of.items() if rule.action is Action.DENY),
        narrower=strict[0] if strict else None,
        allowing=Automaton(allowing, through=False),
        exact={pattern.words: rule for rule in allowing if (pattern := bash_pattern(rule.pattern)).exact},
        reads=_path_rules(policy, _READ, places),
        writes=_path_rules(policy, _WRITE, places),
        changes=_path_rules(policy, _READ | _WRITE, places),
        limits=tuple(limits),
    )


def _excepted(rule: Rule) -> Iterator[Rule]:
    """What a rule excepts, as allow rules: they have to cover a command as those do."""
    return (Rule(rule.tool, pattern, Action.ALLOW, rule.origin) for pattern in rule.unless)


def _speaks_of_bash(rule: Rule, keys: set[str]) -> bool:
    return rule.names("Bash") or (rule.action is not Action.ALLOW and same_name(rule.tool) in keys)


def _path_rules(policy: Policy, tools: frozenset[str], places: Places) -> tuple[PathRule, ...]:
    found = [
        PathRule(rule, rule_pattern(rule.pattern, rule.unless, places, True), _needle(rule.pattern, places))
        for rule in policy.rules
        if rule.action is not Action.ALLOW and (rule.tool == "*" or same_name(rule.tool) in tools)
    ]
    return tuple(sorted(found, key=lambda each: each.rule.action is not Action.DENY))


def _needle(pattern: str, places: Places) -> str:
    """The longest stretch of letters that a word must have; most words fail that quickest of tests."""
    originals = (name for each in places.originals for name in each)
    around = "\n".join([*places[:4], places.copy, *originals]).lower()
    # A pattern with many glued stars is taken to match everything.
    if not pattern.isascii() or not around.isascii() or ".." in pattern or pattern.count("**") > _MANY_STARS:
        return ""
    stretches = [text for text in _BETWEEN_LETTERS.split(pattern) if text not in (".", "~")]
    needle = max(stretches, key=len, default="").lower()
    return "" if needle in around else needle
