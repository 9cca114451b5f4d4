"""`gen tools`: every tool with its aliases, effect class and source."""

import argparse

from gencode.agent.toolbox import Tool
from gencode.app import forgetful
from gencode.core.text import visible_line
from gencode.interfaces.cli.open_session import opened, servers_tried, servers_untrusted
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.render.plain_text import note, print_record, table


def add_command(commands: Commands, does: str) -> None:
    """`gen tools`."""
    add(commands, "tools", show, does, ("gen tools", "gen tools --json"))


async def show(args: argparse.Namespace) -> int:
    """List the tools."""
    async with opened(args, store=forgetful()) as gen:
        tools = list(gen.toolbox.values())
        for warning in gen.plugin_warnings:
            note(warning)
        await servers_tried(gen)
        servers = gen.mcp_servers.reports()
        unapproved = {each.name for each in servers if each.state == "unapproved"}
        tools += [tool for tool in gen.mcp_servers.tools() if tool.server not in unapproved]
        for line in (
            *(each.problem() for each in servers),
            *gen.mcp_servers.problems,
            servers_untrusted(gen),
        ):
            if line:
                note(visible_line(line, 1_000))
    rows = [
        (tool.name, tool.effect, _source(tool), " ".join(tool.aliases), tool.description.partition("\n")[0])
        for tool in tools
    ]
    text = table(("NAME", "EFFECT", "SOURCE", "ALIASES", "DESCRIPTION"), rows)
    record = {"tools": [_line(tool) for tool in tools], "servers": servers}
    print_record(args, record, text)
    return 0


def _source(tool: Tool) -> str:
    return f"{tool.source} {tool.server}" if tool.server else tool.source


def _line(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "aliases": tool.aliases,
        "effect": tool.effect,
        "source": tool.source,
        "server": tool.server or None,
        "onRequest": tool.on_request,
        "description": tool.description,
        "parameters": tool.schema,
    }
