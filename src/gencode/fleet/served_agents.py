"""Which agents one worker of a fleet takes tasks of (engines rack).

Those that were named, or else its own and every other one that is waited for: an agent that only a project
defines comes along with the folder, so a worker knows whether it has it when it has looked.
"""

import time
from collections.abc import Callable, Iterable

FORGET_SECONDS = 60.0
"""After that an agent that was not there is looked for again: somebody may have written its file."""

Waiting = tuple[str, str]
"""A task that nobody is at, and its agent."""


class Repertoire:
    """The agents that are served here, in small letters. Where some were `named` it never changes."""

    def __init__(self, named: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lacking: dict[str, tuple[str, float]] = {}
        self.own = frozenset(name.casefold() for name in named)
        """Those of this machine, whatever folder a task is about."""
        self.named = bool(self.own)
        self._served = {*self.own}

    def names(self) -> list[str]:
        """The agents whose tasks are taken."""
        return sorted(self._served)

    def learn(self, own: Iterable[str], waiting: Iterable[Waiting]) -> None:
        """Know the agents of this machine, and what is waited for."""
        if not self.named:
            self.own = frozenset(name.casefold() for name in own)
            self._served = {*self.own} | self._wanted(waiting)

    def lacks(self, task: str, agent: str) -> None:
        """Note that the agent of a task is not here."""
        self._lacking[task] = (agent.casefold(), self._clock() + FORGET_SECONDS)

    def admits(self, agent: str) -> bool:
        """Whether a task of this agent, whose folder is here, may be taken; from then on it is served."""
        if not self.named:
            self._served.add(agent.casefold())
        return agent.casefold() in self._served

    def meet(self, waiting: Iterable[Waiting]) -> set[str]:
        """Serve those too that are waited for, unless they were found not to be here; which ones are new."""
        if self.named:
            return set()
        new = self._wanted(waiting) - self._served
        self._served |= new
        return new

    def review(self, waiting: Iterable[Waiting]) -> set[str]:
        """Leave those to others that were found not to be here, but for the tasks that wait; who they are."""
        if self.named:
            return set()
        wanted = self._wanted(waiting)
        lacking = {name for name, _ in self._lacking.values()} & self._served
        gone = lacking - wanted - self.own
        self._served -= gone
        return gone

    def _wanted(self, waiting: Iterable[Waiting]) -> set[str]:
        now = self._clock()
        self._lacking = {task: each for task, each in self._lacking.items() if each[1] > now}
        return {agent.casefold() for task, agent in waiting if task not in self._lacking}
