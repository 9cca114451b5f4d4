"""The one inequality: one call over at most, whatever is set aside or lowered, and never nobody proceeds."""

import os
import random

import pytest
from msgspec.structs import replace

from gencode.budgets.ledger import Account, Granted, Hold, Shortage, Wait, decide, plus, with_hold

ROUNDS = int(os.environ.get("GEN_EXAMPLES", "60"))
DEAREST = 30
PATHS = {
    **{f"t{n}": (f"t{n}", "top") for n in range(2)},
    **{f"c{n}": (f"c{n}", "c", "top") for n in range(3)},
    **{f"d{n}": (f"d{n}", "d", "top") for n in range(2)},
    **{f"e{n}": (f"e{n}", "e", "d", "top") for n in range(2)},
}
"""Calls are made by these tasks; the accounts are `top`, `c` and `d` below it, and `e` below `d`."""


class Tree:
    """Four accounts, and the calls that are in flight in them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.accounts = {
            "top": Account("top", (), limits={"tokens": self.random.randint(50, 400)}),
            "c": self.child("c", ("top",)),
            "d": self.child("d", ("top",)),
            "e": self.child("e", ("d", "top")),
        }
        self.flights: dict[str, tuple[int, int]] = {}
        self.allowed = {name: each.limits["tokens"] for name, each in self.accounts.items()}
        self.before = dict.fromkeys(self.accounts, frozenset[str]())
        self.dearest = dict.fromkeys(self.accounts, 0)

    def child(self, name: str, path: tuple[str, ...]) -> Account:
        limit = self.random.randint(10, 200)
        return Account(name, path, limits={"tokens": limit}, open=self.random.random() < 0.8)

    def ask(self, task: str) -> None:
        need = self.random.randint(1, DEAREST)
        verdict = decide(self.accounts, Hold(task, PATHS[task], {"tokens": need}))
        match verdict:
            case Granted(alone=alone):
                cost = self.random.randint(1, need * (3 if alone else 1))
                self.flights[task] = (need, cost)
                self.change(task, need, 1)
            case Wait(account):
                assert self.accounts[account].calls > 0
            case Shortage(account):
                self.check_short(PATHS[task], self.accounts[account])

    def check_short(self, path: tuple[str, ...], account: Account) -> None:
        limit, spent = account.limits["tokens"], account.spent.get("tokens", 0)
        assert account.calls == 0
        if spent < limit:
            below = [self.accounts[each] for each in path if each in self.accounts]
            own = [each for each in below[: below.index(account)] if each.open]
            assert not own or own[-1].unspent("tokens") == 0
            others = [each for each in self.accounts.values() if each.open and account.id in each.path]
            assert any(each.unspent("tokens") for each in others)

    def land(self, task: str) -> None:
        need, cost = self.flights.pop(task)
        self.change(task, need, -1)
        for name in PATHS[task][1:]:
            each = self.accounts[name]
            self.accounts[name] = replace(each, spent=plus(each.spent, {"tokens": cost}))
            if task in self.before[name]:
                self.allowed[name] += cost
            else:
                self.dearest[name] = max(self.dearest[name], cost)
            self.before[name] -= {task}
            assert self.accounts[name].spent["tokens"] <= self.allowed[name] + self.dearest[name]

    def change(self, task: str, need: int, calls: int) -> None:
        for name in PATHS[task][1:]:
            self.accounts[name] = with_hold(self.accounts[name], {"tokens": need}, calls)

    def limit(self) -> None:
        name = self.random.choice([*self.accounts, "top", "top"])
        spent = self.accounts[name].spent.get("tokens", 0)
        limit = max(1, spent + self.random.randint(-10, 60 if name == "top" else 150))
        self.accounts[name] = replace(self.accounts[name], limits={"tokens": limit})
        self.allowed[name] = max(limit, spent)
        self.before[name] = frozenset(task for task in self.flights if name in PATHS[task])

    def toggle(self) -> None:
        name = self.random.choice(["c", "d", "e"])
        self.accounts[name] = replace(self.accounts[name], open=not self.accounts[name].open)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_no_limit_is_exceeded_by_more_than_one_call_and_nobody_is_refused_what_is_left(seed: int) -> None:
    tree = Tree(seed)
    for _ in range(400):
        idle = [task for task in PATHS if task not in tree.flights]
        chance = tree.random.random()
        if chance < 0.03:
            tree.limit()
        elif chance < 0.04:
            tree.toggle()
        elif idle and (chance < 0.65 or not tree.flights):
            tree.ask(tree.random.choice(idle))
        else:
            tree.land(tree.random.choice([*tree.flights]))
