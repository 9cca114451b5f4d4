"""A journal of facts."""

from gencode.core.events import (
    AnyFact,
    Event,
)


def at(seq: int) -> str:
    return f"2026-11-15T02:32:00.{seq:06}Z"


def journal(*facts: AnyFact) -> list[Event]:
    return [Event("9f3a1c2e", seq, at(seq), fact) for seq, fact in enumerate(facts, start=1)]
