"""Stores of task journals: SQLite, Postgres and memory; all pass tests/contracts/store.py."""
