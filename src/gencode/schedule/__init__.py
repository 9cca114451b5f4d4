"""TODO: say what schedule is."""
