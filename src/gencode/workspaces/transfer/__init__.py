"""away: a folder by its git identity, so that a worker on another machine works in a copy of its own.

`packing` is the way out, `mirror` and `lodging` what a worker makes of it, `homecoming` the way back.
"""
