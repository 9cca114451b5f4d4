"""Runtime room: what one agent has seen of each file, so that it changes nothing it does not know."""

from gencode.runtime.openers import Identity


class Seen:
    """The files an agent read or wrote, by real path, each in the state it was in then."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, Identity] = {}

    def note(self, real: str, identity: Identity) -> None:
        """Remember a file as it is now."""
        self._files[real] = identity

    def state(self, real: str) -> Identity | None:
        """The state in which a file was seen last; None for one that never was."""
        return self._files.get(real)
