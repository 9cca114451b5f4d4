"""Git worktrees: a separate checkout for an agent, and what became of its changes.

`create` makes them, `agent_work` commits what was done, `leftovers` lists what remains; `git` runs no program
that a repository names.
"""
