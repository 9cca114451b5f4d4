"""runtime: calls that wait until what they may cost is there, in the order they came."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gencode.runtime.purse import Purse, Reservation

AtMost = Callable[[], tuple[int, float | None]]
"""Works out how many tokens and dollars a call costs at most."""


class Turnstile:
    """The calls of a whole tree that wait, in the order they came."""

    def __init__(self) -> None:
        self.bounds = False
        """Whether anything in the tree was ever bounded; where nothing was, nobody has to look."""
        self._waiting: dict[Reservation, None] = {}
        self.free: dict[Reservation, AtMost] = {}
        """Those in flight that nothing bounded when they went."""
        self._moved: asyncio.Future[None] | None = None

    def join(self, reservation: "Reservation") -> None:
        """Wait behind those who came before."""
        self._waiting[reservation] = None
        self.admit()

    def leave(self, reservation: "Reservation") -> None:
        """Wait no more, or make nothing of having been let go."""
        reservation.drop()
        if reservation in self._waiting:
            del self._waiting[reservation]
            self.admit()

    def flights(self, purse: "Purse") -> "list[Reservation]":
        """Those of a purse, and of all below it, that nothing bounded when they went."""
        return [each for each in self.free if purse in each.purse.upwards]

    def next_move(self) -> "asyncio.Future[None]":
        """Done when something was paid, set aside or given back; for who cannot wait here."""
        if self._moved is None or self._moved.done():
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    def admit(self) -> None:
        """Let go who may; nobody passes one that waits for the same purse."""
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)
        barred: set[Purse] = set()
        for reservation in tuple(self._waiting):
            upwards = reservation.purse.upwards
            if upwards[-1] in barred:
                return  # all calls of the tree go through its root
            if reservation.answer.cancelled():
                continue
            refusal = reservation.refusal()
            hindrances: set[Purse] = set()
            if refusal is None:
                hindrances = barred.intersection(upwards) or reservation.hindrances()
            if hindrances:
                barred |= hindrances
                continue
            del self._waiting[reservation]
            if refusal is None:
                reservation.take_off()
            reservation.answer.set_result(refusal)
