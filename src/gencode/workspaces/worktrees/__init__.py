"""worktrees: a checkout of its own for an agent, and what became of it.

`making` is the way in, `work` the way out, `leftovers` what is still there; `git` runs nothing of theirs.
"""
