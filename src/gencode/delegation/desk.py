"""The launcher as one seat sees it: work asked for here hangs below that seat."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gencode.core.errors import StoreAway, ToolError, UserMistake
from gencode.core.ids import clean_id
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome
from gencode.core.quoting import disarmed, quoted
from gencode.core.reasons import PARENT_STOPPED, Cause, EndReason, stop_cause
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.delegation.deadline import ended_in_queue, report_by
from gencode.delegation.delivery import AgentInbox
from gencode.delegation.forms import formed
from gencode.delegation.live import Live
from gencode.delegation.origin import Origin
from gencode.delegation.reach import Rouse
from gencode.delegation.words import Kept
from gencode.runtime.asking import Hearing, Inquiry, Reply
from gencode.runtime.ports import Sent, Struck, Verb

if TYPE_CHECKING:
    from gencode.delegation.launcher import Launcher


class Desk:
    """Sends agents on behalf of one agent, looks after them, speaks to them and stops them."""

    _origin: Origin
    _inbox: AgentInbox

    def __init__(self, launcher: "Launcher") -> None:
        self._launcher = launcher
        self._children: dict[str, Live | Sent] = {}
        """What was sent in this run; of what has ended only how it did."""

    def sit(self, origin: Origin, inbox: AgentInbox) -> None:
        """Put the desk where its agent sits, beside what comes to it."""
        self._origin = origin
        self._inbox = inbox

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run an agent to its end and give its outcome; one in the background as it is at its start."""
        if not self._launcher.may_send(self._origin):
            raise ToolError(
                "An agent that was sent cannot send agents itself; do the work here or report back."
            )
        job = await (self._resumed(request) if request.resume else self._sent(request, call))
        self._look_after(job)
        if request.background or (job.task.background and not request.resume):
            self._inbox.expect(job)
            return self._launcher.told(job.task)
        try:
            with ended_in_queue(job, report_by(self._origin.task, self._launcher.live)):
                ended = await job.in_foreground()
            if ended:
                return await self._answered(job)
            job.stop.move(self._origin.session)
            self._inbox.expect(job)
            return self._launcher.told(job.task)
        except asyncio.CancelledError:  # the sender was stopped or ran out of time, and its agent ends first
            await job.halt(PARENT_STOPPED)
            self._inbox.cut_off(call, job)
            raise

    async def _answered(self, job: Live) -> Outcome:
        """The outcome of an agent that was waited for; as it was, where the database did not come back."""
        try:
            return await self._launcher.outcome(job)
        except StoreAway:
            if not job.elsewhere:
                raise
            return self._launcher.told(job.task)

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end.

        What it says meanwhile, a question say, ends the wait: it is heard before the next reply.
        """
        name = _id(task)
        if seconds > 0:
            ended = asyncio.ensure_future(self._launcher.look(name, seconds))
            speaks = asyncio.ensure_future(self._inbox.letter_from(name, 0))
            try:
                await asyncio.wait([ended, speaks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                speaks.cancel()
                await asyncio.gather(ended, speaks, return_exceptions=True)
        outcome = await self._launcher.look(name, 0.0)
        if outcome.status is Status.PENDING and (place := await self._launcher.reach.place(name)):
            outcome = replace(outcome, queue_position=place)
        return replace(outcome, background=True) if self._inbox.is_later(outcome.agent_id) else outcome

    async def strike(self, task: str, verb: Verb) -> Struck:
        """Cut or stop a task in the background, and the work it waits for."""
        agent = self._origin.lineage[-1]
        why = stop_cause(f"the agent {agent} stopped it")
        if verb == "interrupt":
            why = Cause(EndReason.INTERRUPTED, f"the agent {agent} interrupted it")
        return await self._struck(_id(task), verb, why)

    async def hits(self, task: str, verb: Verb) -> Sequence[Sent]:
        """What a verb would hit at this moment, the task itself first."""
        return [_as_sent(each) for each in await self._launcher.reach.hits(_id(task), verb)]

    async def _struck(self, task: str, verb: Verb, why: Cause) -> Struck:
        reach = self._launcher.reach
        hit = (await reach.strike(task, verb, why)).hit
        over = {task, *(each.id for each in hit)}
        left = [each for each in await reach.hits(task, "tree") if each.id not in over]
        outcome = await self._launcher.look(task, 0)
        return Struck(outcome, tuple(map(_as_sent, hit)), tuple(map(_as_sent, left)))

    async def author(self, path: str, sha256: str) -> str:
        """Which other agent brought a file of the workspace into this state, in any process."""
        return await self._launcher.watch.author(
            str(self._origin.workspace.cwd), path, sha256, self._origin.task
        )

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Say something to a task: a running one hears it before its next reply, a finished one is woken.

        Its outcome as it is then, and when it hears it. Nobody wakes who sent them.
        """
        found = await self._launcher.known(_id(task))
        name = self._origin.lineage[-1]
        # What its own parent says is an instruction to an agent; what anybody else says is quoted.
        said = message if found.parent == self._origin.task else quoted(disarmed(message))
        text = f"[{name} (task {self._origin.task}) says]\n{said}"
        now = await self._launcher.reach.send(found.id, text, self._origin.task or "")
        if not now.status.ended:
            return self._launcher.told(now), "soon"
        if not await self._launcher.unheard(found.id):
            return self._launcher.told(now), "heard"
        own = found.parent == self._origin.task
        rouse = self.rouse if own else await self._rouse_beside(now)
        if found.conversation or rouse is None:
            return self._launcher.told(now), "later"
        try:
            return self._launcher.told(await rouse(now)), "woken"
        except UserMistake as refused:
            await self._launcher.settled(found.id)  # somebody else may be waking it at this moment
            now = await self._launcher.watch.task(found.id)
            if now.status.ended and await self._launcher.unheard(found.id):
                if isinstance(refused, Kept):
                    raise
                raise Kept(f"{refused} The message is kept, and heard when the task goes on.") from None
            return self._launcher.told(now), "heard" if now.status.ended else "soon"

    async def rouse(self, found: Task) -> Task:
        """Let a task of this agent that has ended go on with what was said to it; its result comes here."""
        job = await self._resumed(TaskRequest(found.agent, "", background=True, resume=found.id))
        self._look_after(job)
        self._inbox.expect(job)
        return job.task

    async def _rouse_beside(self, found: Task) -> Rouse | None:
        """The same for a task beside this one, as if its sender had said it: that gets the result.

        None if it does not go on for this agent: it is none of its siblings, or was stopped, or its sender is
        at work in another process, which would neither wait for it nor stop it.
        """
        own = await self._launcher.known(self._origin.task or "")
        beside = found.parent is not None and found.parent == own.parent
        if not (beside and await self._launcher.reach.may_be_roused(found)):
            return None
        sender = self._launcher.local(found.parent or "")
        if sender is not None and not sender.over and isinstance(sender.seat.delegate, Desk):
            return sender.seat.delegate.rouse
        above = await self._launcher.watch.task(found.parent or "")
        return self._launcher.reach.rouse if above.status.ended else None

    async def inquire(self, inquiries: Sequence[Inquiry], call: ToolCall) -> Reply:
        """Ask whoever can answer; the agent above first, then a person, and in the end nobody."""
        return await self._launcher.inquirer.ask(self._origin, self._inbox, inquiries, call)

    async def own(self) -> Sequence[Outcome]:
        """The tasks that this agent has sent in all its runs, oldest first."""
        return await self._launcher.children(self._origin.task or "")

    async def replay(self, task: str) -> Outcome:
        """One of those, or the agent's own, with its transcript; UserMistake for anybody else's."""
        wanted, own = _id(task), self._origin.task
        if wanted != own and wanted not in [child.agent_id for child in await self.own()]:
            raise UserMistake(f"There is no task {wanted} of yours.")
        return await self._launcher.retold(wanted)

    def sent(self) -> Sequence[Sent]:
        """The tasks that were sent in this run, in the order they were launched."""
        children = self._children.values()
        return [child if isinstance(child, Sent) else _as_sent(child.task) for child in children]

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be sent."""
        return [(spec.name, spec.description) for spec in self._launcher.spawnable(self._origin)]

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._launcher.result_cap(agent)

    def _look_after(self, job: Live) -> None:
        def ended(_: object) -> None:
            if self._children.get(job.id) is job:
                self._children[job.id] = _as_sent(job.task)

        self._children[job.id] = job
        self._inbox.has_sent = True
        if job.work is not None:
            job.work.add_done_callback(ended)

    async def _sent(self, request: TaskRequest, call: ToolCall) -> Live:
        return await self._launcher.launch(request, self._here(), call)

    def _here(self) -> Origin:
        """Where its agent sits, and when what it sends to the background has to end with it."""
        live = self._launcher.live(self._origin.task or "")
        return self._origin.ending(live.deadline.of_background if live is not None else None)

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
        request = await formed(request)
        await self._launcher.watch.check_rests(task)
        place = self._launcher.place_of(task, self._here(), request.model, background=request.background)
        return await self._launcher.resume(task, request.within(self._launcher.agent_of(task)), place)


def _as_sent(task: Task) -> Sent:
    return Sent(task.id, task.agent, task.status, task.error, task.background)


def _id(text: str) -> str:
    """A whole id, however it was written; UserMistake for what is none."""
    found = clean_id(text)
    if found is None:
        raise UserMistake(f"{text[:40]!r} is not a task id; it is 8 hex digits, as Task gave it.")
    return found
