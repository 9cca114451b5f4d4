"""A folder in which a worker runs tasks: an open GenCode with a worker's settings.

Nothing of it is loaded without a shared database.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gencode.app import GenCode, components
from gencode.budgets.limits import NO_BUDGET
from gencode.core.budget import Budget
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.questions import Question
from gencode.core.status import StopCause
from gencode.core.structs import replace
from gencode.fleet.fleet_engine import FleetEngine, FleetTask
from gencode.fleet.worker_workspace import CopiedTaskFolder, FolderMode
from gencode.journal.dispatch import BUDGETS, Handover
from gencode.journal.owner import LEASE_SECONDS
from gencode.questions.question_desk import QuestionDesk
from gencode.sandbox.shells import SandboxMode
from gencode.stores.pg_fleet import FleetStore
from gencode.tasks.running_task import RunningTask
from gencode.workspaces.transfer.snapshot_builder import EnclosingCopy

log = logging.getLogger(__name__)

SERVERS_WAIT = 30.0
"""How long a task waits at most for its MCP servers, which are started anew for every copy of a folder."""
BOTH_CAPPED = (
    "{sent} cannot be sent to other workers from here: it has a cap (fleet_caps), and so has {above} above "
    "it, so that each could wait for the other for ever. Leave isolation out, and it runs here."
)


class WorkerOptions(Struct, frozen=True):
    """What a worker does: how many tasks at once, for which agents (none: all), below which folder."""

    most: int
    workspace: Path
    home: Path
    agents: tuple[str, ...] = ()
    caps: Mapping[str, int] = {}
    lease_seconds: float = LEASE_SECONDS
    folders: FolderMode = "auto"
    walls: SandboxMode = "auto"
    budget: Budget = NO_BUDGET
    """What one task may spend here at most, whatever came with it."""


class ForwardingEngine(FleetEngine):
    """Gives agents to the workers that were sent from a worker. Whatever else it runs, it runs itself."""

    far = False

    def __init__(self, store: FleetStore, options: WorkerOptions, cwd: str, flags: Mapping[str, Any]) -> None:
        super().__init__(store, Path(cwd), flags, options.home)
        self._journal = store
        self._capped = {name.casefold() for name in options.caps}

    async def start(self, handover: Handover) -> FleetTask:
        """Give a task to the workers, unless it could wait for its own sender."""
        created = handover.created
        if created is not None and created.agent.casefold() in self._capped:
            await self._check(created)
        return await super().start(handover)

    async def _check(self, created: TaskCreated) -> None:
        """UserMistake if an agent above has a cap as well: waiting for one under another could deadlock."""
        above, passed = created.parent, set[str]()
        while above is not None and above not in passed and (task := await self._journal.task(above)):
            passed.add(above)  # what was imported may go round in circles
            if task.agent.casefold() in self._capped:
                raise UserMistake(BOTH_CAPPED.format(sent=created.agent, above=task.agent))
            above = task.parent


class WorkerFolder:
    """An open GenCode in one folder, with the settings that came with its tasks."""

    def __init__(self, store: FleetStore, options: WorkerOptions, cwd: str, flags: Mapping[str, Any]) -> None:
        self._store = store
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[GenCode] = asyncio.get_running_loop().create_future()
        self._desk = QuestionDesk(here=False, shown_as=self._at_home)
        self._copied: tuple[str, str] | None = None
        """The copy in which the agents work, and the folder that it is a copy of."""
        self._forwarding = ForwardingEngine(store, options, cwd, flags)
        # What may be spent comes with each task, and whoever is there says what is asked.
        own = {"max_agents": options.most, "background_questions": True, **dict.fromkeys(BUDGETS)}
        self.life = asyncio.get_running_loop().create_task(self._lived(cwd, {**flags, **own}))
        self.given_up = False

    async def gen(self) -> GenCode:
        """The GenCode, once it is open; UserMistake when it cannot be."""
        return await asyncio.shield(self._opened)

    @property
    def opened(self) -> GenCode | None:
        """The GenCode, if it is open."""
        done = self._opened.done() and not self._opened.cancelled() and self._opened.exception() is None
        return self._opened.result() if done else None

    @property
    def parked(self) -> int:
        """How many of its tasks only wait, for a person or for an agent that another worker may run."""
        return max(self._desk.parked, self._waiting() if self._forwarding.follows else 0)

    def enter_copy(self, copy: CopiedTaskFolder) -> None:
        """Note that the folder is a copy: questions name the original, and so do agents that are sent on."""
        copied = copy.copied
        self._copied = (copied.top, copied.originals[-1].folder)
        self._forwarding.transfer.enter_copy(EnclosingCopy(copy.snapshot, copied))

    def _at_home(self, question: Question) -> Question:
        return question_for_sender(question, *self._copied) if self._copied else question

    def _waiting(self) -> int:
        """How many tasks wait for agents elsewhere, and nothing of theirs is at work here."""
        lives = {live.id: live for live in self.opened.running} if self.opened else {}
        sent = {_first(live, lives) for live in lives.values() if live.elsewhere}
        at_work = {_first(live, lives) for live in lives.values() if live.at_work}
        return len(sent - at_work)

    def close(self) -> None:
        """Close it; `life` is over when that is done."""
        self._closing.set()

    def give_up(self, why: StopCause) -> None:
        """Stop everything in it at once and write nothing more: others may take its tasks over."""
        self.given_up = True
        if (gen := self.opened) is not None:
            self._store.give_up(components(gen).supervisor.owner)
            gen.running.stop(why)
            for live in gen.running:
                if live.work is not None:
                    live.work.cancel()
        self.close()

    async def _lived(self, cwd: str, settings: dict[str, Any]) -> None:
        try:
            async with GenCode.open(cwd, settings=settings, store=self._store, asker=self._desk) as gen:
                components(gen).tasks.processes.employ(self._forwarding)
                gen.mcp_servers.wait_at_most(SERVERS_WAIT)
                self._opened.set_result(gen)
                await self._closing.wait()
        except GenCodeError as trouble:
            if self._opened.done():
                log.warning("a folder was not left in order: %s", trouble)
            else:
                self._opened.set_exception(trouble)


def question_for_sender(question: Question, copy: str, folder: str) -> Question:
    """The question with rules that apply in the asker's folder: a copy is gone when "always" takes effect.

    Rules that cannot be translated are not offered.
    """
    said = question.decision
    moved_rules = [replace(rule, pattern=rule.pattern.replace(copy, folder)) for rule in said.offers]
    offers = tuple(rule for rule in moved_rules if Path(copy).name not in rule.pattern)
    kept = len(offers) == len(said.offers)
    decision = replace(
        said,
        why=said.why.replace(copy, folder),
        offers=offers if kept else (),
    )
    return replace(question, rules=tuple(rule.spelled for rule in decision.lasting), decision=decision)


def _first(live: RunningTask, lives: Mapping[str, RunningTask]) -> str:
    """The task from which an agent was sent that runs here, over however many others."""
    while (above := lives.get(live.task.parent or "")) is not None:
        live = above
    return live.id
