"""GenCode: a coding assistant whose heart is its subagent system."""

__version__ = "0.1.0"
