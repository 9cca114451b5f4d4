"""TODO: say what channels is."""
