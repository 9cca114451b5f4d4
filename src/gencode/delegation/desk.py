"""The launcher as one seat sees it: work asked for here hangs below that seat."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gencode.core.errors import ToolError, UserMistake
from gencode.core.ids import clean_id
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.spec import TaskRequest
from gencode.delegation.inbox import Results
from gencode.delegation.origin import Origin
from gencode.delegation.seating import MAX_DEPTH
from gencode.delegation.supervisor import Job

if TYPE_CHECKING:
    from gencode.delegation.launcher import Launcher


class Desk:
    """Sends agents on behalf of one agent, looks after them and stops them."""

    def __init__(self, launcher: "Launcher", origin: Origin, inbox: Results) -> None:
        self._launcher = launcher
        self._origin = origin
        self._inbox = inbox

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run an agent to its end and give its outcome; one in the background as it is at its start."""
        if self._origin.depth >= MAX_DEPTH:
            raise ToolError(
                "An agent that was sent cannot send agents itself; do the work here or report back."
            )
        job = await (self._resumed(request) if request.resume else self._sent(request, call))
        if request.background:
            self._inbox.expect(job)
            return outcome_of(job.record.task)
        try:
            return await self._launcher.outcome(job)
        except asyncio.CancelledError:  # the sender was stopped or ran out of time, and its agent ends first
            await job.halt("the agent that sent it was stopped")
            raise

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        return await self._launcher.look(_id(task), seconds)

    async def stop(self, task: str) -> tuple[Outcome, bool]:
        """Stop a task in the background; its outcome, and whether it was still running."""
        return await self._launcher.stop(_id(task), f"the agent {self._origin.lineage[-1]} stopped it")

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be sent."""
        return [(spec.name, spec.description) for spec in self._launcher.spawnable()]

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._launcher.result_cap(agent)

    async def _sent(self, request: TaskRequest, call: ToolCall) -> Job:
        return await self._launcher.launch(request, self._origin, call)

    async def _resumed(self, request: TaskRequest) -> Job:
        task = await self._launcher.known(_id(request.resume))
        if task.parent != self._origin.task:
            raise UserMistake(f"Task {task.id} was sent by somebody else; only its sender can go on with it.")
        place = self._launcher.place_of(task, self._origin, request.model, background=request.background)
        return await self._launcher.resume(task, request, place)


def _id(text: str) -> str:
    """A whole id, however it was written; UserMistake for what is none."""
    found = clean_id(text)
    if found is None:
        raise UserMistake(f"{text[:40]!r} is not a task id; it is 8 hex digits, as Task gave it.")
    return found
