"""TODO: say what files is."""
