"""`gen tools`: every tool with its aliases, effect class and source."""

import argparse

from gencode.app import forgetful
from gencode.surfaces.commands.opening import opened
from gencode.surfaces.lifetime import run_to_end
from gencode.surfaces.plain import answer, answer_json, note, table


def show(args: argparse.Namespace) -> int:
    """List the tools."""
    return run_to_end(_show(args))


async def _show(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        tools = list(gen.toolbox.values())
        for warning in gen.plugins.warnings:
            note(warning)
    if "json" in args:
        lines = [
            {
                "name": tool.name,
                "aliases": tool.aliases,
                "effect": tool.effect,
                "source": tool.source,
                "onRequest": tool.on_request,
                "description": tool.description,
                "parameters": tool.schema,
            }
            for tool in tools
        ]
        answer_json({"tools": lines})
        return 0
    rows = [
        (tool.name, tool.effect, tool.source, " ".join(tool.aliases), tool.description.partition("\n")[0])
        for tool in tools
    ]
    answer(table(("NAME", "EFFECT", "SOURCE", "ALIASES", "DESCRIPTION"), rows))
    return 0
