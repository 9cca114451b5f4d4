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
    """A name that is not there, with the nearest ones that are."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.unread = ""
        """What was not read and may hold it."""
        names = [*known]
        way = f". {nearest(name, names)}" if names else f", and no other {what} here."
        super().__init__(f"There is no {what} {name!r}{way}")


class Conflict(UserMistake):
    """What is asked for does not fit the state of what it names: at work, ended, not the only one.

    A server answers it with another status than a request that makes no sense.
    """


class StoreTrouble(UserMistake):
    """The database cannot be read or written as it is."""


class StoreUnavailable(StoreTrouble):
    """The database did not answer; the same step may work a little later."""


class ToolError(GenCodeError):
    """Becomes an error result that the model reads."""


class Denied(ToolError):
    """The gate refused the call."""


class ProviderError(GenCodeError):
    """A model could not answer.

    `retryable`: waiting helps. `retry_after`: how many seconds it asked to be left alone. `limited`: it was
    asked too much, so everybody who asks it should wait, not only this one. `overloaded`: that is not about
    how much we ask. `too_long`: the conversation is more than the model can hold. `unfit`: something in the
    request is not taken, now or later.
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
    """Only what was being done at this moment was cut; the work itself goes on."""


class Fenced(GenCodeError):
    """Another process has taken the task over."""


class CorruptFact(GenCodeError):
    """One row of the journal cannot be read; `before` are the events that stand before it."""

    def __init__(self, message: str, before: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.before = before


def nearest(name: str, known: Iterable[str], most: int = 5) -> str:
    """A sentence that offers the names closest to `name`, or the first of them when nothing is close."""
    names = sorted(set(known))
    by_fold = {each.casefold(): each for each in names}
    close = [by_fold[fold] for fold in get_close_matches(name.casefold(), list(by_fold), n=most, cutoff=0.5)]
    if close:
        return f"Did you mean {', '.join(close)}?"
    if len(names) > MOST_NAMES:
        return f"There are: {', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more."
    return f"There are: {', '.join(names)}." if names else "There are none."
