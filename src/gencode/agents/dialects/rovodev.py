"""Rovo Dev: subagents with a switch for memory."""

from gencode.agents.dialect import COMMON, Dialect, field_names

DIALECT = Dialect(
    "rovodev",
    project=(".rovodev/subagents",),
    user=(".rovodev/subagents",),
    fields={**COMMON, **field_names(nothing="load_memory")},
)
