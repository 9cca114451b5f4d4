"""Subagents: tasks are planned, started, supervised, controlled, resumed and recovered here."""
