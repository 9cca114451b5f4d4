"""What one worker of a fleet could not run, so that another one gets it soon (engines rack)."""

import time
from collections.abc import Callable, Iterable

from gencode.runtime.fleet import Stuck

FIRST_SECONDS = 0.5
"""After the first try; it is twice as long after each other one."""
LONGEST_SECONDS = 5.0
NEAR_SECONDS = 1.0
"""The longest where a try costs nothing, because only the folder itself was looked for."""
FORGET_SECONDS = 60.0
"""After that an agent that was not there is looked for again: somebody may have written its file."""
MOST_TRIED = 1_000


class Reluctance:
    """Remembers tasks that could not be run here, and the agents that were not there for them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tries: dict[str, int] = {}
        self._lacking: dict[str, tuple[str, float]] = {}

    def again(self, task: str, most: float = LONGEST_SECONDS) -> float:
        """In how many seconds a task may be tried again, by anybody."""
        tries = self._tries.pop(task, 0)
        self._tries[task] = tries + 1
        if len(self._tries) > MOST_TRIED:
            del self._tries[next(iter(self._tries))]
        return min(FIRST_SECONDS * 2 ** min(tries, 10), most)

    def lacks(self, task: str, agent: str) -> None:
        """Note that the agent of a task is not here."""
        self._lacking[task] = (agent.casefold(), self._clock() + FORGET_SECONDS)

    def served(self, agents: Iterable[str], waiting: Iterable[Stuck]) -> set[str]:
        """The agents to serve: these and those that are waited for, without those found not to be here."""
        now = self._clock()
        self._lacking = {task: each for task, each in self._lacking.items() if each[1] > now}
        lacking = {name for name, _ in self._lacking.values()}
        wanted = {each.agent.casefold() for each in waiting if each.task not in self._lacking}
        return ({*agents} - lacking) | wanted
