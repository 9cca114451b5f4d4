"""Opens GenCode for a command: options as settings, and warnings about the model, trust and traces."""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from gencode.agent.trace_settings import standing
from gencode.app import SCREEN_WAIT as SCREEN_WAIT
from gencode.app import GenCode
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.questions import Asker
from gencode.core.spec import AgentSpec
from gencode.core.text import visible_line
from gencode.interfaces.chat.model_info import CONNECT, why_usual
from gencode.interfaces.render.plain_text import note
from gencode.journal.store import Store
from gencode.permissions.project_files import SERVERS
from gencode.settings import waiting

FLAGS = (
    *("model", "permission_mode", "allow", "ask", "deny", "max_turns", "max_seconds"),
    *("max_tokens_total", "max_usd", "max_spawns", "append_system_prompt"),
)
OFFLINE = "offline-search"

QUIET_SECONDS = 2.0
"""Waiting for MCP servers is not reported before this time."""


def flags(args: argparse.Namespace, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings that were typed."""
    typed = {name: getattr(args, name) for name in FLAGS if name in args and name not in without}
    return {**typed, "agents": args.typed_agents} if "typed_agents" in args else typed


@asynccontextmanager
async def opened(
    args: argparse.Namespace,
    *,
    without: tuple[str, ...] = (),
    store: Store | None = None,
    asker: Asker | None = None,
) -> AsyncGenerator[GenCode, None]:
    """GenCode in the folder and with the settings that were typed."""
    folder, typed = getattr(args, "cwd", "."), flags(args, without=without)
    async with GenCode.open(folder, settings=typed, store=store, asker=asker) as gen:
        if asker is None:
            yield gen
            return
        from gencode.interfaces.cli.terminal_questions import TerminalDesk

        if not isinstance(asker, TerminalDesk):
            yield gen
            return
        asker.farewell.open(gen)
        try:
            yield gen
        finally:
            await asker.farewell.close()


def check_model(gen: GenCode, args: argparse.Namespace) -> str:
    """Resolve the model before anything is written; a notice about a default one."""
    offline = gen.model.name == OFFLINE
    if offline and "no_offline" in args:
        raise UserMistake(
            f"Only the offline search model is available, and --no-offline excludes it: {CONNECT}."
        )
    surprising = offline or gen.model.name.startswith("ollama/")
    return why_usual(gen) if surprising and not gen.settings.model else ""


def check(gen: GenCode, args: argparse.Namespace) -> str:
    """Everything to be sure of before an agent starts; what to tell the person once it runs."""
    told = (check_model(gen, args), not_trusted(gen), untraced(gen), *unknown_agents(gen))
    return "\n".join(filter(None, told))


@contextmanager
def telling_of_servers(gen: GenCode) -> Generator[None]:
    """Report after a moment that this block waits for MCP servers."""

    def tell() -> None:
        if names := gen.mcp_servers.awaited():
            many = "the MCP servers" if len(names) > 1 else "the MCP server"
            note(f"Waiting for {many} {visible_line(', '.join(names), 300)} to start.")

    late = asyncio.get_running_loop().call_later(QUIET_SECONDS, tell)
    try:
        yield
    finally:
        late.cancel()


async def servers_tried(gen: GenCode, spec: AgentSpec | None = None) -> None:
    """Wait until every MCP server of the settings and the folder, or of an agent, was tried once."""
    with telling_of_servers(gen):
        await gen.mcp_servers.ready(spec)


def unknown_agents(gen: GenCode) -> Iterator[str]:
    """A line for each agent in the setting agent_models that is not here."""
    for name in gen.settings.agent_models:
        try:
            gen.agents.find(name)
        except UnknownName as unknown:
            yield f"The setting agent_models: {unknown}"


def untraced(gen: GenCode) -> str:
    """A line about traces that were asked for and cannot be sent."""
    found = standing(gen.settings.telemetry)
    return f"{found.trouble} To fix it: {found.fix}" if found.trouble else ""


def not_trusted(gen: GenCode) -> str:
    """A line about content of the folder that does not apply before it is trusted; empty without such."""
    *first, last = waiting(gen.project) or ("",)
    found = " and ".join(filter(None, (", ".join(first), last)))
    way = gen.project.way
    if found and gen.project.state == "changed":
        return f"This folder changed since you trusted it, so its {found} do not apply. Review it with: {way}"
    return f"This folder's {found} do not apply until you trust it: {way}" if found else ""


def servers_untrusted(gen: GenCode) -> str:
    """A line about MCP servers of the folder that do not apply before it is trusted; empty without such."""
    if gen.project.trusted or not (files := [name for name in SERVERS if name in gen.project.brought.texts]):
        return ""
    way = gen.project.way
    return f"The MCP servers of {' and '.join(files)} do not apply until you trust this folder: {way}"
