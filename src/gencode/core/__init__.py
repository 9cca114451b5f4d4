"""The vocabulary: frozen records and pure functions, no I/O, no async."""
