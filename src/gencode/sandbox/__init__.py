"""The operating system's sandbox around a command: `choose_sandbox` is the way in, `profile` what it allows.

It is a second wall: whether a command may run is decided without it, and never depends on it.
"""
