"""Letta Code: Claude Code's fields; `tools: all` is every tool."""

from gencode.agents.dialect import COMMON, Dialect, field_names

DIALECT = Dialect(
    "letta",
    project=(".letta/agents",),
    user=(".letta/agents",),
    fields={**COMMON, **field_names(nothing="fork launchProfile memoryBlocks")},
    every=("all",),
)
