"""How much a server takes: the limits that crowds of agents run into."""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from tests.virtual_clock import stand_still


class Limit(Protocol):
    """How much a server takes."""

    def wait(self, now: float) -> float:
        """Seconds after which the request that comes now would be taken; 0 takes it."""
        ...

    def done(self) -> None:
        """A request that was taken is answered."""
        ...


@dataclass
class Bucket:
    """So many requests at most, which come back evenly over so many seconds; nothing before it `opens`."""

    size: float
    seconds: float
    opens: float = 0.0
    began: float = 0.0
    level: float = 0.0
    at: float = 0.0

    def wait(self, now: float) -> float:
        if not self.began:
            self.began, self.level = now, self.size
        if now - self.began < self.opens:
            return self.began + self.opens - now
        self.level = min(self.size, self.level + (now - self.at) * self.size / self.seconds)
        self.at = now
        if self.level < 1:
            return (1 - self.level) * self.seconds / self.size
        self.level -= 1
        return 0.0

    def done(self) -> None:
        pass


@dataclass
class Window:
    """So many requests in every so many seconds of the clock."""

    size: int
    seconds: float
    number: int = -1
    taken: int = 0

    def wait(self, now: float) -> float:
        if self.number != (number := int(now / self.seconds)):
            self.number, self.taken = number, 0
        if self.taken == self.size:
            return (number + 1) * self.seconds - now
        self.taken += 1
        return 0.0

    def done(self) -> None:
        pass


@dataclass
class Sliding:
    """So many requests in any so many seconds."""

    size: int
    seconds: float
    taken: deque[float] = field(default_factory=deque[float])

    def wait(self, now: float) -> float:
        while self.taken and self.taken[0] <= now - self.seconds:
            self.taken.popleft()
        if len(self.taken) == self.size:
            return self.taken[0] + self.seconds - now
        self.taken.append(now)
        return 0.0

    def done(self) -> None:
        pass


@dataclass
class AtOnce:
    """So many requests at the same time."""

    size: int
    busy: int = 0

    def wait(self, now: float) -> float:
        if self.busy == self.size:
            return 0.02
        self.busy += 1
        return 0.0

    def done(self) -> None:
        self.busy -= 1


@dataclass
class Unsteady:
    """Every so manieth request is refused, however slowly they come."""

    every: int
    count: int = 0

    def wait(self, now: float) -> float:
        self.count += 1
        return 0.0 if self.count % self.every else 0.02

    def done(self) -> None:
        pass


@dataclass
class Outage:
    """Nothing for so many seconds after the first request that was taken, and then everything."""

    seconds: float
    began: float = 0.0

    def wait(self, now: float) -> float:
        if not self.began:
            self.began = now
            return 0.0
        return max(0.0, self.began + self.seconds - now)

    def done(self) -> None:
        pass


@dataclass
class StandsStill:
    """One request each so many seconds, on a machine that once stands still while it refuses one."""

    seconds: float
    still: float
    limit: Bucket = field(init=False)
    answered: int = 0

    def __post_init__(self) -> None:
        self.limit = Bucket(1, self.seconds)

    def wait(self, now: float) -> float:
        wait = self.limit.wait(now)
        if wait and self.answered:
            stand_still(self.still)
            self.still = 0.0
        return wait

    def done(self) -> None:
        self.answered += 1
