"""Task Types: a folder for each type with a `SUBAGENT.md`; its name is that of the folder."""

from gencode.agents.dialect import Dialect

DIALECT = Dialect("task-types", project=("data/subagents", "subagents"), deep=False, file="SUBAGENT.md")
