"""The reasons for the decision about a command: what was found in it, and the sentences for people."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from gencode.core.rules import Action, Decision, Mode, Policy, Remedy, Rule, needs_removal
from gencode.core.structs import replace
from gencode.permissions.bash.command_units import Unit
from gencode.permissions.bash.compiled_rules import BashRules
from gencode.permissions.bash.forms import allowing
from gencode.permissions.bash.rule_automaton import Automaton
from gencode.permissions.paths import described, shown

Cause = Literal[
    "rule",
    "path",
    "possible",
    "possible path",
    "opaque",
    "plan",
    "guard",
    "plan guard",
    "uncovered",
    "dontAsk",
    "read-only",
    "plain shell",
]

_MOST_OFFERS = 8
_LONGEST_PATTERN = 80
_LONGEST_SHOWN = 80
_MOST_NAMED = 3
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:=@%+,^-]+")


class PartFinding(NamedTuple):
    """What is decided about one part, and why; shown only if it decides about the whole command."""

    action: Action
    cause: Cause
    unit: Unit
    rule: Rule | None = None
    detail: str = ""


def told(findings: Sequence[PartFinding], policy: Policy) -> Decision:
    """The decision of the first of several findings that need approval, or of one that denies."""
    first = findings[0]
    why = f"Bash: {_part(first.unit)}: {_reason(first)}."
    if len(findings) > 1:
        why += f" Also needs approval: {_also(findings[1:])}."
    rule = described(first.rule) if first.rule else ""
    offers = _offers(findings)
    decided = Decision(first.action, why, rule, policy.owner)
    return _without_offers(decided, findings) if offers is None else replace(decided, offers=tuple(offers))


def told_allowed(findings: Sequence[PartFinding], policy: Policy) -> Decision:
    """The decision when nothing needs approval and nothing is denied."""
    chosen = next((finding for finding in findings if finding.rule), findings[0])
    why = f"Bash: {_part(chosen.unit)}: {_reason(chosen)}."
    if len(findings) > 1:
        why += f" {_more(len(findings) - 1)} allowed too."
    return Decision(Action.ALLOW, why, described(chosen.rule) if chosen.rule else "", policy.owner)


def told_unparsable(problem: str, policy: Policy, rules: BashRules) -> Decision:
    """The decision for a command that cannot be read: never allow."""
    limits = (rule for rule, _ in rules.limits if rule.action is Action.DENY)
    if denied := rules.deny or next(limits, None):
        why = f"Bash: the rule {described(denied)} matches."
        return needs_removal(Decision(Action.DENY, why, described(denied), policy.owner), denied)
    why = f"Bash: the command cannot be read: {problem}."
    if policy.mode is Mode.PLAN:
        return Decision(Action.DENY, why, "", policy.owner, Remedy.OTHER_MODE)
    return Decision(Action.ASK, why, "", policy.owner, Remedy.REWRITE)


def _part(unit: Unit) -> str:
    return shown(unit.part.source, _LONGEST_SHOWN)


def _also(findings: Sequence[PartFinding]) -> str:
    named = [_part(finding.unit) for finding in findings[:_MOST_NAMED]]
    rest = len(findings) - len(named)
    return ", ".join([*named, f"and {rest:,} more"] if rest else named)


def _more(count: int) -> str:
    return "One more part is" if count == 1 else f"{count:,} more parts are"


def _reason(finding: PartFinding) -> str:
    rule = described(finding.rule) if finding.rule else ""
    match finding.cause:
        case "rule":
            return f"the rule {rule} matches"
        case "path":
            return f"the rule {rule} matches {shown(finding.detail, _LONGEST_SHOWN)}"
        case "possible":
            return f"the rule {rule} might match: one of its words is only known when it runs"
        case "possible path":
            return f"the rule {rule} might match: {finding.detail}"
        case "opaque":
            return f"the rule {rule} might match, and what it runs cannot be known: {finding.detail}"
        case "plan":
            return f"only reading is allowed in this mode, and {finding.unit.more_than_read}"
        case "guard" | "plan guard":
            return finding.detail
        case "dontAsk":
            return "the mode dontAsk allows what no rule forbids"
        case "read-only":
            return "it only reads"
        case "plain shell":
            return "its script is checked instead"
        case "uncovered":
            return _uncovered(finding.unit)


def _uncovered(unit: Unit) -> str:
    if unit.opaque:
        return f"what it runs cannot be known: {unit.opaque}"
    if unit.part.kind == "write":
        return "it writes a file, and only a rule for all commands allows that"
    return f"{unit.more_than_read}, and no rule allows it"


def _without_offers(decided: Decision, findings: Sequence[PartFinding]) -> Decision:
    """The same with what would turn it into allow where no allow rule does."""
    for finding in findings:
        if finding.rule:
            return needs_removal(decided, finding.rule)
        if finding.cause == "plan":
            return replace(decided, remedy=Remedy.OTHER_MODE)
        if finding.cause == "plan guard":
            return replace(decided, remedy=Remedy.NOTHING_IN_PLAN)
    return replace(decided, remedy=Remedy.NO_RULE_FOR_WORDS)


def _offers(findings: Sequence[PartFinding]) -> Iterable[Rule] | None:
    """The allow rules that together lift all findings; None where there are none.

    None is offered in vain, and none that allows more than this command.
    """
    if any(finding.rule or finding.cause in ("plan", "plan guard") for finding in findings):
        return None
    offers: dict[Rule, None] = {}
    for finding in findings:
        guarded = finding.cause == "guard"
        rule = _past_guard(finding.unit) if guarded else exact_rule(finding.unit)
        if rule is None:
            return None
        offers[rule] = None
    return offers if len(offers) <= _MOST_OFFERS else None


def _past_guard(unit: Unit) -> Rule | None:
    """The exact rule that lifts a guard, where it allows the part as well."""
    if unit.exact is None or not _writable(unit.exact):
        return None
    rule = _allowing(" ".join(unit.exact))
    return rule if not unit.more_than_read or unit.plain_shell or _covers(rule, unit) else None


def exact_rule(unit: Unit) -> Rule | None:
    """The rule that allows a part and nothing else; None where its words cannot be written in one."""
    for form in unit.forms:
        words = form.track.values[form.track.starts[0] :]
        known = [word for word in words if word is not None]
        pattern = " ".join(known)
        if len(known) < len(words) or not _writable(known) or len(pattern) > _LONGEST_PATTERN:
            continue
        rule = _allowing(pattern)
        if _covers(rule, unit):
            return rule
    return None


def _writable(words: Sequence[str]) -> bool:
    return all(_PLAIN_WORD.fullmatch(word) for word in words)


def _covers(rule: Rule, unit: Unit) -> bool:
    return allowing(Automaton([rule], through=False), unit.forms) is not None


def _allowing(pattern: str) -> Rule:
    return Rule("Bash", pattern, Action.ALLOW)
