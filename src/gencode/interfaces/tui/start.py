"""`gen` without a command: the terminal app, or the same conversation line by line with --plain."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gencode.core.questions import Asker
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.prompt_history import History
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.tui.app import TerminalApp
from gencode.places import workspace_at
from gencode.settings import gen_home

if TYPE_CHECKING:
    from gencode.app import GenCode

HISTORY = "history.jsonl"


def run(args: argparse.Namespace) -> int:
    """Show the app until somebody leaves it; what ended it badly is raised once the terminal is as it was."""
    folder = workspace_at(Path(getattr(args, "cwd", "."))).cwd
    return run_to_end(_run(args, folder))


async def _run(args: argparse.Namespace, folder: Path) -> int:
    def opener(asker: Asker) -> "AbstractAsyncContextManager[GenCode]":
        return _opened(args, asker)

    app = TerminalApp(
        opener,
        folder=folder,
        agent=getattr(args, "agent", ""),
        begin=lambda talk: _begin(talk, args),
        beside=run_due,
        history=History(gen_home() / HISTORY),
        dark=is_dark(os.environ.get("COLORFGBG", "")),
    )
    told: list[int] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, _end, app, told, number)
    try:
        await app.run_async()
    finally:
        await app.closed()
    if told:
        return 128 + told[0]
    if app.trouble is not None:
        raise app.trouble
    if app.talk is not None and app.talk.session:
        print(f"Go on with it: gen --session {app.talk.session}", file=sys.stderr)
    return app.return_code or 0


def _end(app: TerminalApp, told: list[int], number: int) -> None:
    """A signal from outside ends the app, and leaves the terminal as it was."""
    told.append(number)
    app.end()


@asynccontextmanager
async def _opened(args: argparse.Namespace, asker: Asker) -> "AsyncGenerator[GenCode, None]":
    """GenCode, loaded only when the first frame is on the screen."""
    opening = await asyncio.to_thread(import_module, "gencode.interfaces.cli.open_session")
    async with opening.opened(args, asker=asker) as gen:
        gen.servers.wait_at_most(opening.SCREEN_WAIT)
        yield gen


async def _begin(talk: Talk, args: argparse.Namespace) -> None:
    """Say what should be known, and go on with an earlier conversation if that was asked for."""
    from gencode.interfaces.cli.open_session import check

    told = check(talk.gen, args)
    for line in told.splitlines():
        talk.tell(Notice(line, "warning"))
    if "session" in args or "go_on" in args:
        await talk.open(getattr(args, "session", "") or await talk.last())


async def run_due(talk: Talk) -> None:
    """Run what is planned while the app is open; what was missed or ended is told in a line.

    What was typed for this conversation does not count for it: its folder says how it runs.
    """
    from gencode.interfaces.chat.schedule_runner import scheduler_of

    await scheduler_of(talk.gen, lambda text: talk.tell(Notice(text, "result"))).run()


def is_dark(colours: str) -> bool:
    """Whether a terminal says that its background is dark; most are, and say nothing."""
    background = colours.rpartition(";")[2]
    return background not in ("7", "15")
