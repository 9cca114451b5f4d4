"""Kimi Code: Markdown with the agents it may send."""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "kimi-code",
    project=(".kimi-code/agents",),
    user=(".kimi-code/agents",),
    fields={**COMMON, **spelled(sends="subagents")},
)
