"""The life of a task as a set of statuses and the moves between them."""

from enum import StrEnum


class Status(StrEnum):
    """Where a task is; only `completed` is a success."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    EMPTY = "empty"
    LIMIT_REACHED = "limit_reached"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        """Whether only a resume leads on from here."""
        return self not in (Status.PENDING, Status.RUNNING)
