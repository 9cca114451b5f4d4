"""Budgets: what a task and everything below it may spend, and the ledger that keeps account of it."""
