"""Approvals for more than one call: rules that a person granted to agents of a session.

A session is a conversation, or a task that was started by itself, with everything below it. Several may be
led in one process: an approval in one of them has no effect in another.
"""

from collections.abc import Callable, Set

from gencode.core.rules import Rule, merge
from gencode.permissions.calls import Approval


class SessionApprovals(set[Approval]):
    """The approvals of one session; those of the whole process are looked up above."""

    __slots__ = ("_above",)

    def __init__(self, above: Set[Approval]) -> None:
        super().__init__()
        self._above = above

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._above


class Grants:
    """The rules granted to one agent and its subagents; without `above`, to the whole process.

    `session`: a session begins here.
    """

    __slots__ = ("_above", "_below", "_heard", "_own", "_session")

    def __init__(self, above: "Grants | None" = None, *, session: bool = False) -> None:
        self._above = above
        self._session = session
        self._own: tuple[Rule, ...] = ()
        self._below: tuple[Rule, ...] = ()
        self._heard: dict[object, Callable[[], None]] = {}

    def listen(self, who: object, heard: Callable[[], None] | None) -> None:
        """Call a listener whenever a rule is granted in this process; None removes it."""
        if heard is None:
            self._top()._heard.pop(who, None)
        else:
            self._top()._heard[who] = heard

    def add(self, rule: Rule, reach: str) -> None:
        """Grant a rule to this agent, its subtree or the session; for a single call do nothing."""
        match reach:
            case "agent":
                self._own = merge(self._own, (rule,))
            case "subtree":
                self._below = merge(self._below, (rule,))
            case "session" | "always":
                top = self._top() if reach == "always" else self._beginning()
                top._below = merge(top._below, (rule,))
            case _:
                return
        for heard in tuple(self._top()._heard.values()):
            heard()

    def rules(self) -> tuple[Rule, ...]:
        """Every rule that applies to this agent."""
        above = self._above.inherited() if self._above else ()
        return (*self._own, *self._below, *above)

    def inherited(self) -> tuple[Rule, ...]:
        """Every rule that applies to its subagents."""
        above = self._above.inherited() if self._above else ()
        return (*self._below, *above)

    def _beginning(self) -> "Grants":
        return self if self._session or self._above is None else self._above._beginning()

    def _top(self) -> "Grants":
        return self._above._top() if self._above else self
