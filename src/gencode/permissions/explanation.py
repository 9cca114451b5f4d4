"""Explains a decision: what each policy of the chain says, and what would allow the call."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from gencode.core.rules import Action, Decision, Mode, Policy, Remedy
from gencode.permissions.calls import FETCH_TOOLS, CallFacts
from gencode.permissions.decision import decide, decide_each
from gencode.permissions.urls import UrlRefused, judge_url

ADDRESSES_LATER = "The addresses behind the name are checked when it connects, and again for every redirect."

_NO_RULE_FOR_PATH = "no rule allows this, because none can name this path exactly"


class PolicyStep(Struct, frozen=True):
    """The decision of one policy on its own."""

    policy: str
    mode: Mode
    decision: Action
    why: str
    rule: str = ""
    lifts: str = ""


class Explanation(Struct, frozen=True):
    """One call, what is decided about it, and how every policy of the chain would have decided alone."""

    tool: str
    input: dict[str, Any]
    background: bool
    decision: Action
    why: str
    rule: str
    policy: str
    lifts: str
    chain: tuple[PolicyStep, ...] = ()
    notes: tuple[str, ...] = ()


def explain(call: CallFacts, chain: Sequence[Policy], notes: Sequence[str] = ()) -> Explanation:
    """Decide about a call and keep how it came about."""
    steps = [
        PolicyStep(policy.owner, policy.mode, each.action, each.why, each.rule, lifting(each))
        for policy, each in zip(chain, decide_each(call, chain), strict=True)
    ]
    return told(call, decide(call, chain), steps, (*notes, *_later(call)))


def told(
    call: CallFacts, decided: Decision, steps: Sequence[PolicyStep] = (), notes: Sequence[str] = ()
) -> Explanation:
    """A decision in the shape of an explanation."""
    return Explanation(
        tool=call.tool,
        input=call.input,
        background=call.background,
        decision=decided.action,
        why=decided.why,
        rule=decided.rule,
        policy=decided.policy,
        lifts=lifting(decided),
        chain=tuple(steps),
        notes=tuple(notes),
    )


def lifting(decision: Decision) -> str:
    """What would let a call through, for a person; empty where nothing is needed."""
    flags = " ".join(f'--allow "{rule.spelled}"' for rule in decision.offers)
    match decision.remedy:
        case Remedy.OFFERS:
            return f"{flags}, without the wider mode" if decision.grants else flags
        case Remedy.OFFERS_OR_ACCEPT_EDITS:
            return f"--permission-mode acceptEdits, or {flags}"
        case Remedy.NOTHING:
            return "nothing allows this"
        case Remedy.NOTHING_IN_PLAN:
            return "nothing allows this in plan mode"
        case Remedy.NO_RULE_FOR_PATH:
            return _NO_RULE_FOR_PATH
        case Remedy.NO_RULE_FOR_PATH_BUT_ACCEPT_EDITS:
            return f"--permission-mode acceptEdits, or {_NO_RULE_FOR_PATH}"
        case Remedy.NO_RULE_FOR_WORDS:
            return "no rule names exactly these words; approve it when you are asked"
        case Remedy.REMOVE_RULE:
            return f"only removing the rule allows this: {decision.removes}"
        case Remedy.OTHER_MODE:
            return "another permission mode than plan"
        case Remedy.REWRITE:
            return "write the command in another way"
        case Remedy.NAME_TOOL:
            return "an agent file that names SendMessage in its tools"
        case Remedy.OTHER_AGENT:
            return "an agent whose tools include it"
        case Remedy.SERVER:
            return "its server"
        case Remedy.APPROVAL:
            return "a person's yes"


def _later(call: CallFacts) -> tuple[str, ...]:
    """What can only be known when a URL is fetched."""
    url = call.input.get("url")
    if call.tool not in FETCH_TOOLS or not isinstance(url, str):
        return ()
    try:
        return () if judge_url(url).address else (ADDRESSES_LATER,)
    except UrlRefused:
        return ()
