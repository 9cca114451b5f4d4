"""Junie: Claude Code's fields in a folder of its own."""

from gencode.agents.dialect import Dialect

DIALECT = Dialect("junie", project=(".junie/agents",), user=(".junie/agents",))
