"""Claude Code: Markdown with front matter, found by its name at any depth below `agents`."""

from gencode.agents.dialect import Dialect

DIALECT = Dialect("claude", project=(".claude/agents",), user=(".claude/agents",))
