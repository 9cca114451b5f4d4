"""Workers of a shared database: they take tasks of other machines from a queue and run them."""
