"""Ledger accounts as database rows, and the accounts a task spends from; the same in every database."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from gencode.budgets.ledger import Account
from gencode.budgets.limits import COSTS_OF_A_CALL, UNITS, Amounts

KINDS: tuple[str, ...] = tuple(UNITS)
CALL: tuple[str, ...] = COSTS_OF_A_CALL


class SpendingPath(NamedTuple):
    """The accounts a task spends from: itself, its ancestors (nearest first), and perhaps a session.

    The budgets of those that are `unread` are in their journals, and perhaps not in the ledger.
    """

    tasks: tuple[str, ...]
    session: str = ""
    unread: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """All accounts in one path, as a lease has it."""
        return (*self.tasks, self.session) if self.session else self.tasks


def account_from(row: Sequence[Any]) -> Account:
    """The account in a row: id, path, agent, open, calls, 4 limits, 4 of spent, 3 of held, seconds."""
    return Account(
        row[0],
        tuple(row[1].split()),
        row[2],
        {kind: limit for kind, limit in zip(KINDS, row[5:9], strict=True) if limit is not None},
        dict(zip(KINDS, row[9:13], strict=True)),
        dict(zip(CALL, row[13:16], strict=True)),
        row[4],
        bool(row[3]),
        row[16],
    )


def values_of(account: Account) -> tuple[Any, ...]:
    """The row of an account, as `account_from` reads it."""
    return (
        account.id,
        " ".join(account.path),
        account.agent,
        account.open,
        account.calls,
        *(account.limits.get(kind) for kind in KINDS),
        *amounts(account.spent),
        *amounts(account.held, CALL),
        account.seconds,
    )


def amounts(found: Amounts, kinds: Sequence[str] = KINDS) -> tuple[int, ...]:
    """The amount of each kind, in the order of the columns."""
    return tuple(found.get(kind, 0) for kind in kinds)


def need_of(row: Sequence[int]) -> dict[str, int]:
    """The amounts of a hold, from its row."""
    return dict(zip(CALL, row, strict=True))
