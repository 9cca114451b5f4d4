"""What a person said yes to for more than one call: rules that count for some agents of a session."""

from collections.abc import Callable

from gencode.core.rules import Rule, merge


class Given:
    """The rules given to one agent and to all below it; without `above` it is the whole session's."""

    __slots__ = ("_above", "_below", "_heard", "_own")

    def __init__(self, above: "Given | None" = None) -> None:
        self._above = above
        self._own: tuple[Rule, ...] = ()
        self._below: tuple[Rule, ...] = ()
        self._heard: dict[object, Callable[[], None]] = {}

    def listen(self, who: object, heard: Callable[[], None] | None) -> None:
        """Tell `who`, until it says None, whenever a rule is given to anybody in this session."""
        if heard is None:
            self._top()._heard.pop(who, None)
        else:
            self._top()._heard[who] = heard

    def add(self, rule: Rule, reach: str) -> None:
        """Let a rule count for this agent, its subtree or the session; for a single call it is nothing."""
        match reach:
            case "agent":
                self._own = merge(self._own, (rule,))
            case "subtree":
                self._below = merge(self._below, (rule,))
            case "session" | "always":
                self._top()._below = merge(self._top()._below, (rule,))
            case _:
                return
        for heard in tuple(self._top()._heard.values()):
            heard()

    def rules(self) -> tuple[Rule, ...]:
        """Every rule that counts for this agent."""
        above = self._above.inherited() if self._above else ()
        return (*self._own, *self._below, *above)

    def inherited(self) -> tuple[Rule, ...]:
        """Every rule that counts for those below."""
        above = self._above.inherited() if self._above else ()
        return (*self._below, *above)

    def _top(self) -> "Given":
        return self._above._top() if self._above else self
