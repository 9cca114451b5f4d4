"""TODO: say what chat is."""
