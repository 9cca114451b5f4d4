"""Kimi Code: Markdown with the agents it may send."""

from gencode.agents.dialect import COMMON, Dialect, field_names

DIALECT = Dialect(
    "kimi-code",
    project=(".kimi-code/agents",),
    user=(".kimi-code/agents",),
    fields={**COMMON, **field_names(sends="subagents")},
)
