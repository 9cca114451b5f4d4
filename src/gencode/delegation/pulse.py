"""Signs of life: a task that is silent for too long is noted as stalled, then its time is up."""

from collections.abc import Mapping

from msgspec import Struct

from gencode.core.events import QueueMoved, TaskStalled
from gencode.core.reasons import Cause, EndReason
from gencode.delegation.live import Job, Live
from gencode.runtime.slots import Slots


class Liveness(Struct, frozen=True):
    """How long a task may be silent before it counts as stalled, and before its time is up."""

    stalled: float = 120.0
    over: float = 600.0


class Pulse:
    """Feels the pulse of jobs. Who waits for an agent, an answer or its turn is not silent."""

    def __init__(self, slots: Slots, liveness: Liveness) -> None:
        self._slots = slots
        self._liveness = liveness
        self._places: dict[str, int] = {}
        self.seconds = min(1.0, liveness.stalled / 4)

    async def feel(self, job: Job) -> None:
        """Note how a job is; one that is silent for too long is overdue."""
        silent = job.record.silent
        if silent >= self._liveness.over and not job.overdue:
            why = f"it gave no sign of life for {silent:.0f} s; silence_seconds allows no more"
            job.overdue = Cause(EndReason.SILENT, why)
        elif silent >= self._liveness.stalled and not job.task.stalled and not job.task.status.ended:
            heard = job.record.heard
            await job.record.commit(TaskStalled(round(silent, 1)))
            job.record.heard = heard  # that it was noted is no sign of life

    def tell_places(self, jobs: Mapping[str, Live]) -> None:
        """Let the places in the queue be heard that have changed."""
        waiting = [task for task in self._slots.waiting() if task in jobs and jobs[task].queued]
        places = {task: place for place, task in enumerate(waiting, start=1)}
        for task, place in places.items():
            if place != self._places.get(task):
                jobs[task].tell(QueueMoved(place))
        self._places = places
