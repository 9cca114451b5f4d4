"""TODO: say what sessions is."""
