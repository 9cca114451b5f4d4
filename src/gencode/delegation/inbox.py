"""What comes back to an agent: the results of its background tasks, each exactly once.

Nothing is queued anywhere: a result waits for its sender as long as its task has ended and the sender's own
journal does not say that it was handed over. The message that hands it over says so in the same fact, so
that a crash at any moment leaves it either waiting or delivered, never both and never neither.
"""

import asyncio
from collections.abc import Callable, Sequence

from gencode.core.messages import UserMessage
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.task import Task
from gencode.delegation.supervisor import Job
from gencode.runtime.recorder import Recorder
from gencode.runtime.toolbox import clip

MOST_TOGETHER = 24_000
"""So many characters of results come in one message; each gets its share, the rest is paged."""
LEAST_EACH = 500


class Results:
    """The background tasks of one agent. `earlier` are its children from before this run."""

    def __init__(self, record: Recorder, cap: Callable[[str], int], earlier: Sequence[Task] = ()) -> None:
        self._record = record
        self._cap = cap
        self._jobs: dict[str, Job] = {}
        self._earlier = {task.id: task for task in earlier if task.background and task.status.ended}

    @property
    def expecting(self) -> bool:
        """Whether anything is out, or has come and was not taken."""
        done = self._record.task.delivered
        return any(task not in done for task in (*self._jobs, *self._earlier))

    def expect(self, job: Job) -> None:
        """A task went to the background; its result will come here."""
        self._earlier.pop(job.id, None)
        self._jobs[job.id] = job

    async def take(self) -> UserMessage | None:
        """Everything that has come since, as one message; it counts as taken once it is in the journal."""
        come = [outcome_of(task) for task in self._come()]
        if not come:
            return None
        share = max(MOST_TOGETHER // len(come), LEAST_EACH)
        texts = [announced(outcome, min(self._cap(outcome.agent), share)) for outcome in come]
        return UserMessage(
            "\n\n".join(texts), sender="system", delivers=tuple(outcome.agent_id for outcome in come)
        )

    async def more(self) -> bool:
        """Wait until there is something to take; False when nothing is out any more."""
        while not self._come():
            done = self._record.task.delivered
            out = [job.work for task, job in self._jobs.items() if task not in done and job.work is not None]
            if not out:
                return False
            await asyncio.wait(out, return_when=asyncio.FIRST_COMPLETED)
            if not self._come() and all(work.done() for work in out):
                return False  # they could not even be written down
        return True

    def _come(self) -> list[Task]:
        done = self._record.task.delivered
        ended = [job.record.task for job in self._jobs.values() if job.over]
        return [task for task in (*self._earlier.values(), *ended) if task.id not in done]


def announced(outcome: Outcome, cap: int) -> str:
    """One result as its sender reads it."""
    title = f" ({outcome.description})" if outcome.description else ""
    why = f": {outcome.error.rstrip('.')}" if outcome.error else ""
    head = (
        f"[The background task {outcome.agent_id} of {outcome.agent}{title} ended as {outcome.status}{why}]"
    )
    text = outcome.result.strip()
    if len(text) > cap:
        text = f'{clip(text, cap)}\n[all of it: TaskOutput(task_id="{outcome.agent_id}")]'
    return f"{head}\n{text}" if text else head
