"""Which results a task was given of those it sent, and how its own earlier runs ended: part of its fold."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct

from gencode.core.changes import Changes, with_changes
from gencode.core.messages import ToolResult
from gencode.core.reasons import EndReason
from gencode.core.status import Status

MOST_PAST = 32
MOST_PAST_TEXT = 200_000
"""So many earlier ends of a task, with so many characters, are at hand; its journal has all of them."""


class Past(Struct, frozen=True, gc=False, omit_defaults=True):
    """How an earlier run of an agent ended: who sent it may not have heard of that when it goes on."""

    at: str
    status: Status
    text: str
    error: str | None = None
    background: bool = False
    reason: EndReason | None = None
    changes: tuple[Changes, ...] = ()

    @property
    def told(self) -> str:
        """What it came to, as its sender reads it."""
        return with_changes(self.text, self.changes).strip()


def with_past(past: tuple[Past, ...], end: Past) -> tuple[Past, ...]:
    """The earlier ends with one more, as far as there is room; one at which nothing was said is no loss."""
    if is_said_again(past, end) or not end.told:
        return past
    kept, room = [end], MOST_PAST_TEXT - len(end.told)
    for each in reversed(past[1 - MOST_PAST :]):
        room -= len(each.told)
        if room < 0:
            break
        kept.append(each)
    return tuple(reversed(kept))


def is_said_again(past: tuple[Past, ...], end: Past) -> bool:
    """Whether a run that ended so said nothing: an agent still has its last answer then."""
    last = past[-1] if past else None
    same = last is not None and (last.text, last.changes) == (end.text, end.changes)
    return same and end.status is not Status.COMPLETED


def receipt(task: str, ended_at: str | None) -> str:
    """What is kept of a result that was handed over: of which task it is, and of which of its runs."""
    return f"{task}@{ended_at}" if ended_at else task


def after_calls(before: tuple[str, ...], results: Sequence[ToolResult]) -> tuple[str, ...]:
    """What was handed over, after some calls: who is sent again has a result still to come.

    So a receipt of an earlier version, which does not say of which run, counts no more.
    """
    sent = {child for result in results for child in result.trace.children}
    if not sent.isdisjoint(before):
        before = tuple(each for each in before if each not in sent)
    more = [
        receipt(task, end)
        for result in results
        for task, end in zip_longest(result.trace.delivered, result.trace.ends[: len(result.trace.delivered)])
    ]
    return tuple(dict.fromkeys((*before, *more))) if more else before


def left_behind(before: tuple[str, ...], results: Iterable[ToolResult]) -> tuple[str, ...]:
    """The agents that were left, after some calls: for whom it is waited again answers like any other."""
    for result in results:
        if result.trace.left or (before and result.trace.children):
            kept = (each for each in before if each not in result.trace.children)
            before = tuple(dict.fromkeys((*kept, *result.trace.left)))
    return before


def handed_over(before: tuple[str, ...], tasks: Sequence[str], ends: Sequence[str]) -> tuple[str, ...]:
    """What was handed over, with some more; journals of earlier versions do not say when tasks had ended."""
    more = [receipt(task, end) for task, end in zip_longest(tasks, ends[: len(tasks)])]
    return tuple(dict.fromkeys((*before, *more))) if more else before
