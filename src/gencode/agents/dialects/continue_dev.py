"""Continue: Markdown whose rules may apply always."""

from gencode.agents.dialect import COMMON, Dialect, field_names

DIALECT = Dialect(
    "continue",
    project=(".continue/agents",),
    user=(".continue/agents",),
    fields={**COMMON, **field_names(nothing="alwaysApply globs rules version schema")},
)
