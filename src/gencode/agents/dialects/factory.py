"""Factory: droids, with words for groups of tools."""

from gencode.agents.dialect import COMMON, Dialect, field_names

DIALECT = Dialect(
    "factory",
    project=(".factory/droids",),
    user=(".factory/droids",),
    fields={**COMMON, **field_names(effort="effort reasoningEffort", nothing="version")},
    families=("read-only", "edit", "execute", "web"),
)
