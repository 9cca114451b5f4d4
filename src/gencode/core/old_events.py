"""Reads stored events, also those of version 0.1, as the facts of today; stored events never change."""

from gencode.core.events import DurableFact, decode_fact


def stored_fact(body: bytes | str) -> DurableFact:
    """Read a stored fact in today's terms; CorruptFact says what is wrong with one that cannot be read."""
    return translated(decode_fact(body))


def translated(fact: DurableFact) -> DurableFact:
    """A fact that 0.1 may have written in today's terms; one that was written today stays as it is."""
    match fact:
        case _:
            return fact
