"""What one worker of a fleet could not run, so that another one gets it soon (engines rack)."""

FIRST_SECONDS = 0.5
"""After the first try; it is twice as long after each other one."""
LONGEST_SECONDS = 5.0
NEAR_SECONDS = 1.0
"""The longest where a try costs nothing, because only the folder itself was looked for."""
MOST_TRIED = 1_000


class Reluctance:
    """Remembers tasks that could not be run here."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}

    def again(self, task: str, most: float = LONGEST_SECONDS) -> float:
        """In how many seconds a task may be tried again, by anybody."""
        tries = self._tries.pop(task, 0)
        self._tries[task] = tries + 1
        if len(self._tries) > MOST_TRIED:
            del self._tries[next(iter(self._tries))]
        return min(FIRST_SECONDS * 2 ** min(tries, 10), most)
