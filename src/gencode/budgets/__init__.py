"""Budgets: what a task with its subagents may spend, and the ledger that records it."""
