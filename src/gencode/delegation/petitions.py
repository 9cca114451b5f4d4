"""Claims that are laid down for somebody at work elsewhere, until they are answered (delegation)."""

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from gencode.delegation.liveness import is_abandoned
from gencode.runtime.claims import Claim, Claims
from gencode.runtime.ports import Store

PATIENCE = 10.0
"""So many seconds somebody at work has to give a part of the budget it spends from."""
LOOK_SECONDS = 0.05
NO_ANSWER = (
    "The process that works at {task} has the budget, and did not answer within {seconds:.0f} s. Try again, "
    "or stop it: gen task stop {task}"
)


class Answer(Struct, frozen=True):
    """What was `given` with a claim; `late`: whoever was asked is at work and did not answer in time."""

    given: Mapping[str, int]
    late: bool = False


async def answer_to(store: Store, claims: Claims, claim: Claim) -> Answer:
    """Lay a claim down and wait for its answer, for as long as somebody is there who can give one."""
    number = await claims.put(claim)
    until, there = time.monotonic() + PATIENCE, True
    given: Mapping[str, int] = {}
    try:
        while (waits := await claims.waits(number)) and there and time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS)
            there = bool(await holder_of(store, claim.via))
    finally:
        given = await claims.drop(number)
    return Answer(given, late=waits and there and not given)


def no_answer(task: str) -> str:
    """That nobody answered who should have."""
    return NO_ANSWER.format(task=task, seconds=PATIENCE)


async def holder_of(store: Store, task: str) -> str:
    """The process that has the lease of a task and lives; empty: nobody."""
    held = (each.owner for each in await store.owned() if each.task == task and not is_abandoned(each))
    return next(held, "")
