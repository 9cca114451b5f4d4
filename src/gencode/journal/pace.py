"""How fast a model may be asked by everybody who shares a database: one pause and one bucket for all."""

from typing import Protocol


class SharedRateLimit(Protocol):
    """Shared by all processes; a model is named as `PROVIDER/MODEL`."""

    async def turn(self, model: str, rate: float | None) -> None:
        """Wait until a model may be asked: the pause is over, and no more than `rate` a second are asked."""
        ...

    async def refuse(self, model: str, pause: float) -> None:
        """A model was asked too much: nobody asks it for so many seconds (0: as many as seem right)."""
        ...
