"""The scheduler of a long-lived process: the terminal app, the server, a worker, `gen cron run`."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gencode.app import GenCode
from gencode.channels.outbox import TerminalChannel
from gencode.journal.store import Store
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.tasks.scheduler import Scheduler, any_folder


def scheduler_of(
    gen: GenCode,
    tell: Callable[[str], None],
    flags: Mapping[str, Any] | None = None,
    store: Store | None = None,
    mine: Callable[[ScheduledJob], bool] | None = None,
) -> Scheduler:
    """What runs due work of all folders in this process; `flags` are the settings that were typed for it.

    Every run opens its folder anew, as its settings and its trust are then; nobody is asked. What it says to
    the terminal goes to `tell`, and the channels of this process are its own. Of a shared database only what
    is `mine` is run, or what is due in a folder of this machine; a `store` is used for the runs, too.
    """
    here = mine or (_is_on_this_machine if gen.settings.database_url else any_folder)

    def shown(chat: str, line: str) -> bool:
        tell(f"[{chat}] {line}")
        return True

    @asynccontextmanager
    async def opening(job: ScheduledJob) -> AsyncGenerator[GenCode, None]:
        settings = {**(flags or {}), **({"model": job.model} if job.model else {})}
        async with GenCode.open(job.cwd, settings=settings, store=store) as opened:
            outbox = opened.outbox
            gen.outbox.lend(outbox)
            for name in ("cli", "terminal"):
                outbox.register(name, TerminalChannel(shown))
            yield opened

    return gen.scheduler(opening, tell, here)


def _is_on_this_machine(job: ScheduledJob) -> bool:
    """What belongs to a folder of another machine is left to the processes there."""
    return Path(job.cwd).is_dir()
