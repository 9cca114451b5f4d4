"""Agents are files: readers for them, the registry of what is there, and the built-in ones."""
