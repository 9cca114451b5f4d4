"""The launcher as one seat sees it: work asked for here hangs below that seat."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gencode.core.errors import ToolError, UserMistake
from gencode.core.ids import clean_id
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.task import Task
from gencode.delegation.inbox import Results
from gencode.delegation.live import Live
from gencode.delegation.origin import Origin
from gencode.delegation.seating import MAX_DEPTH
from gencode.runtime.ports import Sent

if TYPE_CHECKING:
    from gencode.delegation.launcher import Launcher


class Desk:
    """Sends agents on behalf of one agent, looks after them and stops them."""

    def __init__(self, launcher: "Launcher", origin: Origin, inbox: Results) -> None:
        self._launcher = launcher
        self._origin = origin
        self._inbox = inbox
        self._children: dict[str, Live | Sent] = {}
        """What was sent in this run; of what has ended only how it did."""

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run an agent to its end and give its outcome; one in the background as it is at its start."""
        if self._origin.depth >= MAX_DEPTH:
            raise ToolError(
                "An agent that was sent cannot send agents itself; do the work here or report back."
            )
        job = await (self._resumed(request) if request.resume else self._sent(request, call))
        self._look_after(job)
        if request.background:
            self._inbox.expect(job)
            return self._launcher.told(job.task)
        try:
            if await job.in_foreground():
                return await self._launcher.outcome(job)
            job.stop.move(self._origin.session)
            self._inbox.expect(job)
            return self._launcher.told(job.task)
        except asyncio.CancelledError:  # the sender was stopped or ran out of time, and its agent ends first
            await job.halt("the agent that sent it was stopped")
            raise

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        return await self._launcher.look(_id(task), seconds)

    async def stop(self, task: str) -> tuple[Outcome, bool]:
        """Stop a task in the background; its outcome, and whether it was still running."""
        return await self._launcher.stop(_id(task), f"the agent {self._origin.lineage[-1]} stopped it")

    def sent(self) -> Sequence[Sent]:
        """The tasks that were sent in this run, in the order they were launched."""
        children = self._children.values()
        return [child if isinstance(child, Sent) else _as_sent(child.task) for child in children]

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be sent."""
        return [(spec.name, spec.description) for spec in self._launcher.spawnable()]

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._launcher.result_cap(agent)

    def _look_after(self, job: Live) -> None:
        def ended(_: object) -> None:
            if self._children.get(job.id) is job:
                self._children[job.id] = _as_sent(job.task)

        self._children[job.id] = job
        if job.work is not None:
            job.work.add_done_callback(ended)

    async def _sent(self, request: TaskRequest, call: ToolCall) -> Live:
        return await self._launcher.launch(request, self._origin, call)

    async def _resumed(self, request: TaskRequest) -> Live:
        if request.isolation:
            raise UserMistake(
                "An agent that goes on does so in the process of its sender; leave isolation out."
            )
        task = await self._launcher.known(_id(request.resume))
        if task.parent != self._origin.task:
            raise UserMistake(f"Task {task.id} was sent by somebody else; only its sender can go on with it.")
        if not self._launcher.same_agent(request.agent, task):  # the gate has judged the agent that was named
            raise UserMistake(f"Task {task.id} belongs to {task.agent}; name that as subagent_type.")
        place = self._launcher.place_of(task, self._origin, request.model, background=request.background)
        return await self._launcher.resume(task, request, place)


def _as_sent(task: Task) -> Sent:
    return Sent(task.id, task.agent, task.status, task.error, task.background)


def _id(text: str) -> str:
    """A whole id, however it was written; UserMistake for what is none."""
    found = clean_id(text)
    if found is None:
        raise UserMistake(f"{text[:40]!r} is not a task id; it is 8 hex digits, as Task gave it.")
    return found
