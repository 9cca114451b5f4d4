"""Where agents work: folders, git worktrees, and copies of a folder on other machines."""
