"""A clock that does not wait: an hour of waiting takes no time, and a slow machine loses none.

Time passes only when nothing in the process has anything to do, so a test says exactly what happens before
what. It is for what runs in one process: work in threads is waited for, other processes are not.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from selectors import DefaultSelector, SelectorKey
from typing import Any, ParamSpec, TypeVar

import pytest

Outcome = TypeVar("Outcome")
Fixtures = ParamSpec("Fixtures")
LOOK_SECONDS = 0.05


class Hurry(DefaultSelector):
    """Never waits, but for threads: the time that would pass is only counted."""

    passed = 0.0
    threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if self.threads:
            return super().select(LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS))
        ready = super().select(0)
        if timeout and not ready:
            self.passed += timeout
        return ready


class Hurried(asyncio.SelectorEventLoop):
    """A loop in which an hour of waiting takes no time, and all happens in the same order each time."""

    def __init__(self) -> None:
        self._hurry = Hurry()
        super().__init__(self._hurry)

    def time(self) -> float:
        return 1000 + self._hurry.passed

    def stand_still(self, seconds: float) -> None:
        self._hurry.passed += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._hurry.threads += 1
        future.add_done_callback(self._back)
        return future

    async def subprocess_exec(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("another process does not share this clock")

    def _back(self, _future: object) -> None:
        self._hurry.threads -= 1


def stand_still(seconds: float) -> None:
    """The machine does nothing for so long, neither for the server nor for those who ask it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Hurried)
    loop.stand_still(seconds)


def hurried(story: Coroutine[Any, Any, Outcome]) -> Outcome:
    """What comes of it on such a clock."""
    with asyncio.Runner(loop_factory=Hurried) as runner:
        return runner.run(story)


def virtual_time(
    test: Callable[Fixtures, Coroutine[Any, Any, None]],
) -> Callable[Fixtures, None]:
    """A test on such a clock, which `time.monotonic` follows."""

    @functools.wraps(test)
    def on_it(*args: Fixtures.args, **kwargs: Fixtures.kwargs) -> None:
        with asyncio.Runner(loop_factory=Hurried) as runner, pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", runner.get_loop().time)
            runner.run(test(*args, **kwargs))

    return on_it
