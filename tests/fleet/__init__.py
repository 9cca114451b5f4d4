"""Workers of a shared database, as real processes."""
