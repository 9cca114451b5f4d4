"""Which results a task was given of those it sent: part of its fold."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from gencode.core.messages import ToolResult


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
