"""How many calls a piece of work makes in our files: unlike time, the same on every machine."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, ModuleType


class Count:
    """The calls so far."""

    calls = 0


@contextmanager
def counting(module: ModuleType, without: ModuleType | None = None) -> Generator[Count]:
    """Count the calls of whatever is written in a module, or in a package, in this thread.

    A module `without` which it is counted calls more often on a slow machine.
    """
    count, place = Count(), (module.__file__ or "").removesuffix("__init__.py")
    left_out = without.__file__ if without else ""

    def seen(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(place) and file != left_out:
            count.calls += 1

    sys.setprofile(seen)
    try:
        yield count
    finally:
        sys.setprofile(None)
