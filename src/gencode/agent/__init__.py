"""TODO: say what agent is."""
