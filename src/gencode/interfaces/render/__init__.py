"""TODO: say what render is."""
