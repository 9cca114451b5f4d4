"""Rovo Dev: subagents with a switch for memory."""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "rovodev",
    project=(".rovodev/subagents",),
    user=(".rovodev/subagents",),
    fields={**COMMON, **spelled(nothing="load_memory")},
)
