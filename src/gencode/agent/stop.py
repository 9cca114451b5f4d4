"""The stop tree: stopping a branch stops its leaves, at once and also inside an await."""

import asyncio
from types import TracebackType

from gencode.core.errors import Interrupted, Stopped
from gencode.core.status import StopCause


class Stop:
    """One branch. Work on it calls `check()` or runs inside `interruptible()`."""

    __slots__ = ("_branches", "_parent", "_running", "cause", "cuts")

    def __init__(self, parent: "Stop | None" = None) -> None:
        self._parent = parent
        self._branches: set[Stop] = set()
        self._running: set[asyncio.Task[object]] = set()
        self.cuts: dict[asyncio.Task[object], StopCause] = {}
        """The asyncio tasks whose current block is interrupted, with the cause."""
        self.cause: StopCause | None = None

    @property
    def stopped(self) -> bool:
        """Whether this branch or one above it was stopped."""
        return self.cause is not None

    def branch(self) -> "Stop":
        """A new branch that is stopped with this one; call `fall` when its work has ended."""
        child = Stop(self)
        child.cause = self.cause
        self._branches.add(child)
        return child

    def fall(self) -> None:
        """Remove this branch from the tree: its work has ended."""
        if self._parent is not None:
            self._parent._branches.discard(self)

    def move(self, parent: "Stop") -> None:
        """Move this branch with everything on it below another one."""
        self.fall()
        self._parent = parent
        parent._branches.add(self)
        if parent.cause is not None:
            self.stop(parent.cause)

    def stop(self, cause: StopCause) -> None:
        """Stop everything on this branch. The first cause stays."""
        if self.cause is None:
            self.cause = cause
            for task in self._running:
                task.cancel()
        for branch in tuple(self._branches):
            branch.stop(cause)

    def cut(self, cause: StopCause) -> bool:
        """Interrupt the current step on this branch, and nothing after it.

        False if there was nothing to interrupt.
        """
        if self.cause is not None:
            return False
        for task in self._running:
            if task not in self.cuts:
                self.cuts[task] = cause
                task.cancel()
        return bool(self._running)

    def check(self) -> None:
        """Raise Stopped if this branch was stopped."""
        if self.cause is not None:
            raise Stopped(self.cause)

    def interruptible(self, seconds: float | None = None) -> "Interruptible":
        """Run a block that a stop may interrupt inside any await; it raises Stopped instead of
        CancelledError.

        If only this block is interrupted, it raises Interrupted; if it takes longer than `seconds`,
        TimeoutError.
        """
        return Interruptible(self, self._running, seconds)


class Interruptible:
    """A block of work on a branch; every turn and every call is one, so it is a class and no generator."""

    __slots__ = ("_before", "_late", "_running", "_seconds", "_stop", "_task", "_timer")

    def __init__(self, stop: Stop, running: "set[asyncio.Task[object]]", seconds: float | None) -> None:
        self._stop = stop
        self._running = running
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._late = False

    def __enter__(self) -> None:
        self._stop.check()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("interrupts() belongs inside a task")
        self._task = task
        self._before = task.cancelling()
        self._running.add(task)
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._time_out)

    def _time_out(self) -> None:
        self._late = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._running.discard(self._task)
        if self._timer is not None:
            self._timer.cancel()
        cut = isinstance(error, asyncio.CancelledError)
        if self._stop.cuts and (why := self._stop.cuts.pop(self._task, None)) is not None:
            ours = self._task.uncancel() <= self._before
            if cut and ours and self._stop.cause is None:
                raise Interrupted(why) from None
        if self._late and self._task.uncancel() <= self._before and cut:
            raise TimeoutError from None
        cause = self._stop.cause
        if cut and cause is not None and self._task.uncancel() <= self._before:
            raise Stopped(cause) from None
