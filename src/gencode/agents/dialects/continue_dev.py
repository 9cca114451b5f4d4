"""Continue: Markdown whose rules may apply always."""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "continue",
    project=(".continue/agents",),
    user=(".continue/agents",),
    fields={**COMMON, **spelled(nothing="alwaysApply globs rules version schema")},
)
