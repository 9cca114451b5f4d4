"""Git worktrees: a checkout of its own for an agent, and what became of it.

`create` is the way in, `agent_work` the way out, `leftovers` what is still there; `git` runs no
program that a repository names.
"""
