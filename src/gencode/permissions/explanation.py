"""Explains a decision: what each policy of the chain says, and what would allow the call."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from gencode.core.rules import Action, Decision, Mode, Policy
from gencode.permissions.calls import FETCH_TOOLS, CallFacts
from gencode.permissions.decision import decide, decide_each
from gencode.permissions.urls import UrlRefused, judge_url

ADDRESSES_LATER = "The addresses behind the name are checked when it connects, and again for every redirect."


class PolicyStep(Struct, frozen=True):
    """What one policy says on its own."""

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
        PolicyStep(policy.owner, policy.mode, each.action, each.why, each.rule, each.lifts)
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
        lifts=decided.lifts,
        chain=tuple(steps),
        notes=tuple(notes),
    )


def _later(call: CallFacts) -> tuple[str, ...]:
    """What can only be known when a URL is fetched."""
    url = call.input.get("url")
    if call.tool not in FETCH_TOOLS or not isinstance(url, str):
        return ()
    try:
        return () if judge_url(url).address else (ADDRESSES_LATER,)
    except UrlRefused:
        return ()
