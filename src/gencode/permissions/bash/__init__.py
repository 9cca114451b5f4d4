"""Decides about Bash commands: parses a command line, and allows, asks or denies."""
