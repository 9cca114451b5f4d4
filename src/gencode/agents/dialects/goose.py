"""goose: personas in Markdown."""

from gencode.agents.dialect import COMMON, Dialect, field_names

DIALECT = Dialect(
    "goose",
    project=(".goose/agents",),
    user=(".config/goose/agents",),
    fields={**COMMON, **field_names(nothing="provider avatar")},
)
