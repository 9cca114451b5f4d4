"""The errors that are raised on purpose, each written for whoever reads it.

GenCodeError
├── UserMistake          the person reads it: one plain sentence with a way out, exit code 2
│   ├── UnknownName      … with the nearest names
│   ├── Conflict         … because of what the named thing is at this moment
│   └── StoreTrouble     the database cannot be used as it is
│       └── StoreUnavailable    … and may be there again a little later
├── ToolError            the model reads it and can act on it
│   └── Denied           … because the gate said no
├── ProviderError        the model could not answer; `retryable` says whether waiting helps
├── Stopped              somebody stopped this branch of work
├── Fenced               another process owns the task now; stop at once, write nothing more
└── CorruptFact          a row of the journal cannot be read; everything else can

Anything else is a bug: it fails the task it happened in, with a traceback in the log.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gencode.core.status import StopCause

MOST_NAMES = 20


class GenCodeError(Exception):
    """The root of every error raised on purpose."""


class UserMistake(GenCodeError):
    """Shown as one plain sentence; the command exits with 2."""


class UnknownName(UserMistake):
    """An unknown name, with the nearest known ones."""

    def __init__(
        self, what: str, name: str, known: Iterable[str], meant: str = "", listing: str = ""
    ) -> None:
        """`meant` is the right name, where it is certain which one was meant.

        `listing` is the command that lists the names, where naming any of them would not help.
        """
        self.name = name
        self.unread = ""
        """What could not be read and may define the name."""
        names = [meant] if meant else [*known]
        way = f". {nearest(meant or name, names)}" if names else f", and no other {what} here."
        if listing and not _close(name, names):
            way = f". See: {listing}"
        super().__init__(f"There is no {what} {name!r}{way}")


class Conflict(UserMistake):
    """A request that does not fit the current state of what it names: running, ended, ambiguous.

    A server answers it with another status code than an invalid request.
    """


class StoreTrouble(UserMistake):
    """The database cannot be read or written as it is."""


class StoreUnavailable(StoreTrouble):
    """The database did not answer; the same step may work a little later."""


class ToolError(GenCodeError):
    """Becomes an error result that the model reads."""


class Denied(ToolError):
    """The gate refused a call."""


class ProviderError(GenCodeError):
    """A model could not answer.

    `retryable`: waiting helps. `retry_after`: for how many seconds the provider asked to wait. `limited`: a
    rate limit, so every caller should wait. `overloaded`: it is not about our rate. `too_long`: the
    conversation exceeds the model's context. `unfit`: the provider never accepts something in the request.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        limited: bool = False,
        overloaded: bool = False,
        too_long: bool = False,
        unfit: bool = False,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after if retry_after is not None and retry_after >= 0 else None
        self.limited = limited
        self.overloaded = overloaded
        self.too_long = too_long
        self.unfit = unfit


class Stopped(GenCodeError):
    """This branch of work was stopped; the cause says by whom or why."""

    def __init__(self, cause: StopCause) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Interrupted(Stopped):
    """Only the current step was interrupted; the task itself continues."""


class Fenced(GenCodeError):
    """Another process has taken the task over."""


class CorruptFact(GenCodeError):
    """One row of the journal cannot be read; `before` are the events before it."""

    def __init__(self, message: str, before: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.before = before


def nearest(name: str, known: Iterable[str], most: int = 5) -> str:
    """A hint with the names closest to `name`, or the first of all when nothing is close."""
    names = sorted(set(known))
    close = _close(name, names, most)
    if close:
        return f"Did you mean {', '.join(close)}?"
    if len(names) > MOST_NAMES:
        return f"There are: {', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more."
    return f"There are: {', '.join(names)}." if names else "There are none."


def _close(name: str, names: Iterable[str], most: int = 5) -> list[str]:
    by_fold = {_folded(each): each for each in names}
    return [by_fold[fold] for fold in get_close_matches(_folded(name), list(by_fold), n=most, cutoff=0.6)]


def _folded(name: str) -> str:
    """A name as it is compared: the dashes before an option would make all options alike."""
    return name.casefold().lstrip("-")
