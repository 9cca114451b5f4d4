"""goose: personas in Markdown."""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "goose",
    project=(".goose/agents",),
    user=(".config/goose/agents",),
    fields={**COMMON, **spelled(nothing="provider avatar")},
)
