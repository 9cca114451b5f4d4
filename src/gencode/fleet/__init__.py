"""The fleet: workers that run tasks of a shared database, and how folders and results travel."""
