"""Errands: tasks that a call of a client waits for, over one round or several (MCP server)."""

import asyncio
import logging
import secrets

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from gencode.app import GenCode
from gencode.core.errors import GenCodeError
from gencode.core.outcome import Outcome
from gencode.core.status import EndReason, StopCause
from gencode.interfaces.mcp_server.elicitation import PATIENCE, InRounds
from gencode.tasks.running_task import RunningTask

log = logging.getLogger(__name__)

GIVEN_UP_SECONDS = 120.0
"""So long a task goes on in the background after its client gave up waiting for it."""
NOT_BACK = StopCause(
    EndReason.CALLER_GONE, "the client asked for it and did not come back; it can be resumed"
)
UNKNOWN = "This requestState is not known, or not any more; make the call anew."


class MoreNeeded(Exception):
    """The client has to answer something and to make its call again."""

    def __init__(self, requests: dict[str, types.InputRequest], state: str | None = None) -> None:
        super().__init__("the client has to answer something first")
        self.requests = requests
        self.state = state


class Errand:
    """One task with somebody who waits for it; `rounds` keeps its questions for clients that want that."""

    def __init__(self, gen: GenCode, job: RunningTask, rounds: InRounds | None) -> None:
        self.gen = gen
        self.job = job
        self.rounds = rounds

    async def finished(self) -> Outcome | None:
        """The outcome once it has ended; None when it was sent to the background, or questions have come."""
        work = self.job.work
        if work is not None:
            left = self.job.background_signal()
            news = asyncio.ensure_future(self.rounds.news.wait()) if self.rounds else left
            try:
                await asyncio.wait([work, left, news], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.job.sent_back = None
                news.cancel()
                left.cancel()
        return await self.gen.outcome(self.job) if work is None or work.done() else None

    async def leave(self) -> bool:
        """Let the task go on in the background, where nobody is asked; whether it does.

        It is stopped where that is not possible.
        """
        if self.job.task.status.ended:
            return False
        try:
            if (local := self.gen.supervisor.local(self.job.id)) is not None:
                await self.gen.supervisor.move_to_background(local)
            else:
                await self.gen.reach.move_to_background(self.job.id)
        except GenCodeError as trouble:
            log.warning("task %s could not be sent to the background: %s", self.job.id, trouble)
            await self.job.halt(NOT_BACK)
            return False
        return True


class Errands:
    """The errands whose clients have to come back: with answers, or because they gave up waiting.

    The former are kept by a word that nobody can guess, the latter by the id of their task. MCP tells a
    client's own time-out and a person's wish to cancel apart by prose only, so that both are the same here:
    the task goes on for a while, and is stopped unless somebody asks for it.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Errand, asyncio.TimerHandle]] = {}
        self._given_up: dict[str, asyncio.TimerHandle] = {}

    def keep(self, errand: Errand) -> str:
        """Keep an errand for the next round; the word to ask for it by. Whoever stays away ends it."""
        word = secrets.token_urlsafe(24)
        late = asyncio.get_running_loop().call_later(PATIENCE, self._abandon, word)
        self._waiting[word] = (errand, late)
        return word

    def take(self, word: str) -> Errand:
        """An errand to go on with; each word counts once."""
        if word not in self._waiting:
            raise MCPError(types.INVALID_PARAMS, UNKNOWN)
        errand, late = self._waiting.pop(word)
        late.cancel()
        return errand

    async def give_up(self, errand: Errand) -> None:
        """Let a task go on that its client does not wait for any more; stop it if nobody asks for it."""
        with anyio.CancelScope(shield=True):
            if await errand.leave():
                loop, job = asyncio.get_running_loop(), errand.job
                self._given_up[job.id] = loop.call_later(GIVEN_UP_SECONDS, self._stop, job)

    def claim(self, task: str) -> None:
        """Keep a task going for whoever asks for it."""
        if (late := self._given_up.pop(task, None)) is not None:
            late.cancel()

    def _abandon(self, word: str) -> None:
        errand, _ = self._waiting.pop(word)
        errand.job.stop.stop(NOT_BACK)

    def _stop(self, job: RunningTask) -> None:
        self._given_up.pop(job.id, None)
        job.stop.stop(NOT_BACK)
