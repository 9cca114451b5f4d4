"""Speaks with one editor over stdin and stdout until it leaves or we are told to end (surfaces, ACP)."""

import argparse
import asyncio
import signal
from typing import cast

from acp.agent.connection import AgentSideConnection
from acp.interfaces import Agent

from gencode.interfaces.acp.agent import EditorAgent
from gencode.interfaces.acp.json_lines import connected, take_stdio
from gencode.interfaces.event_loop_runner import run_to_end

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(args: argparse.Namespace) -> int:
    """Serve the editor that has started us; the exit code."""
    handles = take_stdio()
    return run_to_end(_serve(args, *handles))


async def _serve(args: argparse.Namespace, incoming: int, outgoing: int) -> int:
    agent = EditorAgent(args)
    wire = await connected(incoming, outgoing, agent.sent)
    told: list[int] = []

    def end(number: int) -> None:
        told.append(number)
        wire.end()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, end, number)
    # The methods of the protocol that are not there are answered as such.
    connection = AgentSideConnection(cast("Agent", agent), wire, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await agent.close()
        await connection.close()
    return 128 + told[0] if told else 0
