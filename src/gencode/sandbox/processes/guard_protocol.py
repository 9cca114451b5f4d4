"""The wire format of a launch order: what a command guard has to run. Both sides read this file."""

import os
from collections.abc import Mapping, Sequence

RUN = b"r"
"""Asks for a guard. With it come its socket, where the command writes, and namespaces to enter."""
COUNT_STRAYS = b"c"
"""Asks how many strays cannot be ended. On the socket that comes with it stands the dead guard."""
NETWORK = b"n"
"""Asks for a network of its own; its namespaces come back on the socket that comes with it."""
LENGTH = 8
"""An order begins with its length, in this many bytes."""
NO_STATUS = -1
"""What a guard says instead of a status, when the command itself could not be ended."""


class LaunchOrder:
    """One command: the program and its arguments, where, with which environment, for how long."""

    __slots__ = ("argv", "cwd", "environment", "namespaces", "privileges", "seconds")

    def __init__(
        self,
        argv: Sequence[bytes],
        cwd: bytes,
        environment: Mapping[bytes, bytes],
        seconds: float | None,
        privileges: bool,
        namespaces: int = 0,
    ) -> None:
        """`namespaces` is how many of the files that came with it are namespaces to enter."""
        self.argv = argv
        self.cwd = cwd
        self.environment = environment
        self.seconds = seconds
        self.privileges = privileges
        self.namespaces = namespaces

    def packed(self) -> bytes:
        """The order as it travels. No part of it can hold a NUL, so that is what stands between them."""
        seconds = b"" if self.seconds is None else repr(float(self.seconds)).encode()
        pairs = [name + b"=" + value for name, value in self.environment.items()]
        flags = (b"p" if self.privileges else b"") + b"n" * self.namespaces
        parts = [seconds, flags, self.cwd, str(len(self.argv)).encode(), *self.argv, *pairs]
        blob = b"\0".join(parts)
        return len(blob).to_bytes(LENGTH, "big") + blob


def unpack(blob: bytes) -> LaunchOrder:
    """The order in a block, without its length."""
    seconds, flags, cwd, count, *rest = blob.split(b"\0")
    argv, pairs = rest[: int(count)], rest[int(count) :]
    environment = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
    return LaunchOrder(
        argv, cwd, environment, float(seconds) if seconds else None, b"p" in flags, flags.count(b"n")
    )


def encoded(text: str) -> bytes:
    """A word for the kernel. ValueError for one that no program can be given."""
    raw = os.fsencode(text)
    if b"\0" in raw:
        raise ValueError("a NUL character")
    return raw
