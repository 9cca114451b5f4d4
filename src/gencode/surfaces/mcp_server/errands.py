"""Errands: tasks that a call of a client waits for, over one round or several (MCP server)."""

import asyncio
import secrets

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from gencode.app import GenCode
from gencode.core.outcome import Outcome
from gencode.delegation.live import Live
from gencode.surfaces.mcp_server.asking import PATIENCE, InRounds

CANCELLED = "the client cancelled the call"
NOT_BACK = "the client asked for it and did not come back"
UNKNOWN = "This requestState is not known, or not any more; make the call anew."


class MoreNeeded(Exception):
    """The client has to answer something and to make its call again."""

    def __init__(self, requests: dict[str, types.InputRequest], state: str | None = None) -> None:
        super().__init__("the client has to answer something first")
        self.requests = requests
        self.state = state


class Errand:
    """One task with somebody who waits for it; `rounds` keeps its questions for clients that want that."""

    def __init__(self, gen: GenCode, job: Live, rounds: InRounds | None) -> None:
        self.gen = gen
        self.job = job
        self.rounds = rounds

    async def finished(self) -> Outcome | None:
        """The outcome once it has ended; None when it was sent to the background, or questions have come.

        Whoever is cancelled while waiting stops the task.
        """
        work = self.job.work
        if work is not None:
            left = self.job.let_go()
            news = asyncio.ensure_future(self.rounds.news.wait()) if self.rounds else left
            try:
                await asyncio.wait([work, left, news], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                with anyio.CancelScope(shield=True):
                    await self.job.halt(CANCELLED)
                raise
            finally:
                self.job.sent_back = None
                news.cancel()
                left.cancel()
        return await self.gen.outcome(self.job) if work is None or work.done() else None


class Errands:
    """The errands whose clients have to come back with answers, by a word that nobody can guess."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Errand, asyncio.TimerHandle]] = {}

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

    def _abandon(self, word: str) -> None:
        errand, _ = self._waiting.pop(word)
        errand.job.stop.stop(NOT_BACK)
