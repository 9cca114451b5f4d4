"""Factory: droids, with words for groups of tools."""

from gencode.agents.dialect import COMMON, Dialect, spelled

DIALECT = Dialect(
    "factory",
    project=(".factory/droids",),
    user=(".factory/droids",),
    fields={**COMMON, **spelled(effort="effort reasoningEffort", nothing="version")},
    families=("read-only", "edit", "execute", "web"),
)
