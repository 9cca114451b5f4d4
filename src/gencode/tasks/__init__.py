"""TODO: say what tasks is."""
