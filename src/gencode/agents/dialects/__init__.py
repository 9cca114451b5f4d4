"""The dialects of agent files: a table, and modules for those with behaviour of their own."""
