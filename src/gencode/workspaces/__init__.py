"""TODO: say what workspaces is."""
