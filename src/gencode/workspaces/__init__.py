"""Workspaces: worktrees, folder versions, and the copies and changes that travel between machines."""
