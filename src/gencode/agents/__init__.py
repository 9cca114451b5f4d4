"""Agent files: their dialects, the linter, the registry of agents and skills, and the built-in agents."""
