"""Questions of agents: to the agent that sent them first, then to a person, and in the end to nobody."""

import asyncio
from collections.abc import Sequence

from gencode.core.messages import ToolCall
from gencode.core.rules import Action, Decision
from gencode.delegation.inbox import Arrivals
from gencode.delegation.live import Job
from gencode.delegation.origin import Origin
from gencode.delegation.reach import Reach
from gencode.delegation.supervisor import Supervisor
from gencode.runtime.asking import Inquiry, NobodyThere, Question, Reply

NOBODY = "Nobody can be asked here"
SILENCE = "Nobody answered in time"
PERSON = "The user"
ASKS = Decision(Action.ASK, "An agent asks for a decision.")


class Inquiring:
    """Carries questions to whoever can answer them. `seconds` is how long an agent has for that."""

    def __init__(self, supervisor: Supervisor, reach: Reach, seconds: float) -> None:
        self._supervisor = supervisor
        self._reach = reach
        self._seconds = seconds

    async def ask(
        self, origin: Origin, inbox: Arrivals, inquiries: Sequence[Inquiry], call: ToolCall
    ) -> Reply:
        """The answers, from the agent above if it gives them in time, else from the person."""
        job = self._supervisor.find(origin.task or "")
        alone = isinstance(job, Job) and job.seat.gate.background and not origin.disturb
        parent = self._supervisor.find(job.task.parent or "") if job else None
        if isinstance(job, Job) and isinstance(parent, Job):
            answered = await self._answered_above(job, parent, inbox, inquiries)
            if answered:
                return Reply(by=f"The agent {parent.seat.agent}", later=True)
        if origin.asker is None or alone:
            return Reply(by=SILENCE if parent else NOBODY)
        question = Question(
            *(origin.task or "", origin.lineage[-1], call, ASKS, origin.lineage), inquiries=tuple(inquiries)
        )
        try:
            answer = await origin.asker.ask(question)
        except NobodyThere:
            return Reply(by=SILENCE if parent else NOBODY)
        return Reply(by=PERSON, words=answer.words) if any(answer.words) else Reply(by=answer.why or SILENCE)

    async def _answered_above(
        self, job: Job, parent: Job, inbox: Arrivals, inquiries: Sequence[Inquiry]
    ) -> bool:
        """Whether the agent above answers with a letter. Who waits for this one is let go, to hear it."""
        if "SendMessage" not in parent.seat.toolbox:
            return False
        letter = asyncio.ensure_future(inbox.letter_from(parent.id))
        try:
            await self._reach.send(parent.id, asked_words(job, inquiries, self._seconds), job.id)
            if job.sent_back is not None:
                await self._supervisor.send_back(job)
            done, _ = await asyncio.wait([letter], timeout=self._seconds)
            return bool(done)
        finally:
            letter.cancel()


def asked_words(job: Job, inquiries: Sequence[Inquiry], seconds: float) -> str:
    """The questions as the agent above reads them."""
    lines = [f"[{job.seat.agent} (task {job.id}) asks]"]
    for number, each in enumerate(inquiries, start=1):
        lines.append(f"{number}. {each.question}")
        lines += [f"   - {option.label}: {option.description}".rstrip(": ") for option in each.options]
    lines.append(
        f'Answer with SendMessage(task_id="{job.id}", message="…") if you know it. Otherwise leave it: after '
        f"{seconds:.0f} s the user is asked, or it goes on without an answer."
    )
    return "\n".join(lines)
