"""Scheduled jobs: when they are due, and what is to be done then."""
