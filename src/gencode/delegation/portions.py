"""How a budget is divided between processes (delegation): what is left, what others have, what one gets."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from gencode.delegation.slices import Abroad
from gencode.runtime.ports import Lease
from gencode.runtime.purse import COSTS_OF_A_CALL, Purse

Borrow = Callable[[str], AbstractAsyncContextManager[Lease]]
"""The lease of a task at rest, for a moment."""
Needs = Mapping[str, int]
"""What a call may cost, of each kind."""
SHARE = 8
"""A part is this share of what is left, an eighth: whoever has spent it gets another."""
CALLS = 2
"""So many calls fit into a part at least, where twice as many are left."""


def share_of(room: int, needed: int) -> int:
    """How much of what is left is one part: so little that there are many, and half at most."""
    return min(room // 2, max(room // SHARE, CALLS * needed))


def bounds(purse: Purse) -> list[tuple[str, int]]:
    """What of it is bounded, and how much."""
    return [(kind, each.limit) for kind, each in purse.accounts.items() if each.limit is not None]


def unspent(purse: Purse) -> dict[str, int]:
    """All that is neither spent nor set aside for agents here."""
    own = {kind: account.kept - account.elsewhere for kind, account in purse.accounts.items()}
    return {kind: max(0, limit - own[kind]) for kind, limit in bounds(purse)}


def kept_elsewhere(purse: Purse, abroad: Abroad) -> dict[str, int]:
    """What others may spend of it, so far as it is there."""
    left = unspent(purse)
    known = {kind: abroad.kept.get(kind, 0) for kind in left}
    return {kind: left[kind] if (amount := known[kind]) is None else min(left[kind], amount) for kind in left}


def room_of(purse: Purse, abroad: Abroad) -> dict[str, int]:
    """What can be had of it here."""
    left, kept = unspent(purse), kept_elsewhere(purse, abroad)
    return {kind: left[kind] - kept[kind] for kind in left}


def needed_for(purse: Purse, abroad: Abroad, needs: Needs) -> dict[str, int]:
    """What one call may cost: no less than calls did cost, which the purse remembers.

    Agents are only got by who sends some.
    """
    for kind in COSTS_OF_A_CALL:
        # Where a price says that calls are free and they are not, only what whole tasks cost is sure.
        seen = abroad.most if needs.get(kind) == 0 else abroad.dearest
        account = purse.accounts[kind]
        account.dearest = max(account.dearest, seen.get(kind, 0))
    calls = {kind: max(1, needs.get(kind, 0), purse.accounts[kind].dearest) for kind in COSTS_OF_A_CALL}
    return {**calls, "spawns": needs.get("spawns", 0)}


def rest_of(purse: Purse, abroad: Abroad, needed: Needs, born: int = 0) -> dict[str, int]:
    """What is not got of each kind: what others have, and what is left but for a part that a call fits into.

    All of it is got where it is less than two calls, or somebody at work here may spend it anyway. Those who
    are `born` with it are agents themselves, of which it is no part.
    """
    left, room = unspent(purse), room_of(purse, abroad)
    room = {kind: amount - born if kind == "spawns" else amount for kind, amount in room.items()}
    got = {kind: max(0, left[kind] - purse.accounts[kind].elsewhere) for kind in room}
    for kind, amount in room.items():
        if not abroad.alone or amount < 2 * needed[kind]:
            got[kind] = amount
        elif needed[kind]:
            got[kind] = max(got[kind], share_of(amount, needed[kind]))
    return {kind: left[kind] - min(got[kind], room[kind]) for kind in room}


def last_elsewhere(purse: Purse, abroad: Abroad) -> bool:
    """Whether somebody else may exceed the budget by a call: who has the last part, or all that is left."""
    return abroad.last or any(abroad.kept.get(kind, 0) is None for kind, _ in bounds(purse))


def has_to_fit(purse: Purse, abroad: Abroad, needed: Needs) -> bool:
    """Whether calls have to fit here: one fits into what is left, or somebody else may exceed it."""
    room = room_of(purse, abroad)
    fits = all(room[kind] >= needed[kind] for kind in COSTS_OF_A_CALL if kind in room)
    return fits or last_elsewhere(purse, abroad)


def is_enough(purse: Purse, abroad: Abroad, needed: Needs, kind: str) -> bool:
    """Whether anything can be had of a kind, and a call fits into it where it has to."""
    room = room_of(purse, abroad).get(kind)
    if room is None or room < 1:
        return room is None
    return kind == "spawns" or room >= needed[kind] or not last_elsewhere(purse, abroad)
