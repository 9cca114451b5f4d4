"""TODO: say what journal is."""
