"""Letta Code: Claude Code's fields; `tools: all` is every tool."""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "letta",
    project=(".letta/agents",),
    user=(".letta/agents",),
    fields={**COMMON, **spelled(nothing="fork launchProfile memoryBlocks")},
    every=("all",),
)
