"""sandbox: the operating system's wall around a command. `choose` is the door, `plan` says what the wall is.

It is a second wall: whether a command may run is decided without it, and never depends on it.
"""
