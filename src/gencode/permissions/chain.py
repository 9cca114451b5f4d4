"""The chain of policies over one agent, evaluated when it is used.

A chain is a root, which a person may change while agents run, and one link for every agent from there down to
the caller. Nothing is copied when an agent is sent: a switch of the root's mode reaches everything below at
once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from msgspec import Struct

from gencode.core.rules import Action, Mode, Policy, Rule, child_policy, merge
from gencode.core.structs import replace
from gencode.permissions.decision import granted

_WIDTHS = (Mode.PLAN, Mode.UNATTENDED, Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.DONT_ASK)
_WIDTH = {mode: width for width, mode in enumerate(_WIDTHS)}
_LIFTABLE = (Mode.DEFAULT, Mode.ACCEPT_EDITS)


class Root:
    """The policy of a session, held in one place so that all its subagents see a change at once."""

    __slots__ = ("policy",)

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def switch(self, mode: Mode) -> None:
        """Go on in another mode, with the same rules."""
        self.policy = replace(self.policy, mode=mode)


class ChainLink(Struct, frozen=True, gc=False):
    """What one agent adds to a chain: the mode of its file (None: its parent's), its rules, its grant."""

    owner: str
    mode: Mode | None = None
    rules: tuple[Rule, ...] = ()
    grant: Mode | None = None


class Chain(Sequence[Policy]):
    """The policies that decide about the calls of one agent now, the root's first, its own last."""

    __slots__ = ("_bare", "_counted", "_links", "_mode", "_root", "_seen")

    def __init__(self, root: Root, links: tuple[ChainLink, ...] = ()) -> None:
        self._root = root
        self._links = links
        self._seen: Policy | None = None
        self._bare: tuple[Policy, ...] = ()
        self._counted: tuple[Policy, ...] = ()
        self._mode = Mode.PLAN

    @overload
    def __getitem__(self, at: int) -> Policy: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Policy]: ...
    def __getitem__(self, at: int | slice) -> Policy | Sequence[Policy]:
        return self.now[at]

    def __len__(self) -> int:
        return len(self._links) + 1

    def __iter__(self) -> Iterator[Policy]:
        return iter(self.now)

    @property
    def now(self) -> tuple[Policy, ...]:
        """The policies in force at this moment, with every grant."""
        if self._seen is not self._root.policy:
            self._look()
        return self._counted

    @property
    def bare(self) -> tuple[Policy, ...]:
        """The policies as they are written, without grants."""
        if self._seen is not self._root.policy:
            self._look()
        return self._bare

    @property
    def mode(self) -> Mode:
        """The narrowest mode of the chain: what the agent can rely on."""
        if self._seen is not self._root.policy:
            self._look()
        return self._mode

    def below(self, link: ChainLink) -> "Chain":
        """The chain over an agent that is started from here."""
        return Chain(self._root, (*self._links, link))

    def grant_for(self, mode: Mode | None) -> Mode | None:
        """The mode that only a person can give an agent of this mode when it is started from here.

        None if its mode is no wider than its parent's, or if no grant could widen the parent's.
        """
        return grant_for(self.now[-1], mode)

    def ceiling(self) -> Policy | None:
        """The narrowest policy above, if it keeps the agent from what its own mode would let it do."""
        *above, own = self.now
        lowest = min(above, key=lambda policy: _WIDTH[policy.mode], default=own)
        return lowest if _WIDTH[lowest.mode] < _WIDTH[own.mode] else None

    def _look(self) -> None:
        """Work the policies out again, because the root has changed since they were worked out."""
        root = self._root.policy
        bare = [root]
        for link in self._links:
            bare.append(child_policy(bare[-1], link.mode, link.rules, link.owner))
        self._bare = tuple(bare)
        self._counted = self._lifted(self._bare)
        self._mode = narrowest_mode(self._counted)
        self._seen = root

    def _lifted(self, bare: tuple[Policy, ...]) -> tuple[Policy, ...]:
        counted = bare
        for place, link in enumerate(self._links, start=1):
            if link.grant is not None:
                counted = (*granted(counted[: place + 1], link.grant), *counted[place + 1 :])
        pairs = zip(bare, counted, strict=True)
        return tuple(
            now if now.mode is policy.mode else replace(now, owner=f"{policy.owner} by grant")
            for policy, now in pairs
        )


def rebuilt(
    policies: Sequence[Policy], grant: Mode | None, root: Root | None = None, *, follows: bool = False
) -> Chain:
    """The chain over a task from its journal: the policies as they were written, and its grant.

    Another `root` takes the place of the stored one; `follows` says that the agent's file has no mode, so
    that it then takes the mode of whoever is above it, as it did before.
    """
    links = [ChainLink(policy.owner, policy.mode, policy.rules) for policy in policies[1:]]
    if links:
        own = replace(links[-1], grant=grant)
        if root is not None and follows and own.mode is policies[-2].mode:
            own = replace(own, mode=None)
        links[-1] = own
    return Chain(root or Root(policies[0]), tuple(links))


def narrowed(stored: Policy, today: Policy) -> Policy:
    """A policy as it was written, together with the ask and deny rules of another one."""
    strict = (rule for rule in today.rules if rule.action is not Action.ALLOW)
    return replace(stored, rules=merge(stored.rules, strict))


def narrower(first: Mode, second: Mode) -> Mode:
    """The mode that lets an agent do less."""
    return min(first, second, key=_WIDTH.__getitem__)


def narrowest_mode(policies: Iterable[Policy]) -> Mode:
    """The narrowest mode of these policies."""
    return min((policy.mode for policy in policies), key=_WIDTH.__getitem__)


def grant_for(sender: Policy, mode: Mode | None) -> Mode | None:
    """The mode of an agent, if it is wider than its parent's and a person could grant it."""
    if mode is None or sender.mode not in _LIFTABLE:
        return None
    return mode if _WIDTH[mode] > _WIDTH[sender.mode] else None
