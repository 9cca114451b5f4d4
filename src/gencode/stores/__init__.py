"""A rack of journals; every one passes tests/contracts/store.py."""
