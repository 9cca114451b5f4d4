"""Journals that could have happened, for property tests."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from gencode.core.changes import (
    ChangedFile,
    CopyChanges,
    LostChanges,
    MergedChanges,
    NamedTask,
    WorktreeChanges,
    WorktreeInUse,
)
from gencode.core.events import (
    CallDecided,
    ChangesMoved,
    CostEstimated,
    DurableFact,
    FilesCheckpointed,
    MessageAdded,
    SessionRewound,
    TaskBackgrounded,
    TaskCreated,
    TaskEnded,
    TaskImported,
    TaskQueued,
    TaskStarted,
    TranscriptCompacted,
)
from gencode.core.messages import (
    AssistantMessage,
    CommandRun,
    FileChange,
    FileCheckpoint,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trace,
    Usage,
    UserMessage,
    place_message,
)
from gencode.core.place import ClonePlace, FolderPlace, WorkerCopy, WorktreePlace
from gencode.core.rules import Action, DecidedBy, Decision, Mode, Policy, Remedy, Rule, RuleOrigin, RuleSource
from gencode.core.status import EndReason, Status

words = st.text(max_size=12)
several_words = st.lists(words, max_size=3).map(tuple)
counts = st.integers(0, 10**6)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
usages = st.builds(Usage, counts, counts, counts, st.none() | st.sampled_from([0.0, 0.25, 1.5]))
traces = st.builds(
    Trace,
    read=several_words,
    changed=st.lists(st.builds(FileChange, words, words), max_size=2).map(tuple),
    commands=st.lists(st.builds(CommandRun, words, st.none() | st.integers(-15, 255)), max_size=2).map(tuple),
    children=several_words,
    delivered=several_words,
    ends=several_words,
)
calls = st.builds(ToolCall, words, words, st.dictionaries(words, json_values, max_size=3), words)
places = st.one_of(
    st.builds(FolderPlace, words),
    st.builds(WorktreePlace, words, words),
    st.builds(WorkerCopy, words, words),
    st.builds(ClonePlace, words, words),
)
messages = st.one_of(
    st.builds(UserMessage, words, words, several_words, st.integers(0, 9), ends=several_words),
    st.builds(place_message, words, places),
    st.builds(
        AssistantMessage,
        words,
        calls=st.lists(calls, max_size=2).map(tuple),
        thinking=st.lists(st.builds(Thinking, words, words), max_size=1).map(tuple),
        usage=st.none() | usages,
        model=words,
        stop=words,
        partial=st.booleans(),
    ),
    st.builds(
        ToolMessage,
        st.lists(st.builds(ToolResult, words, words, words, st.booleans(), traces), max_size=2).map(tuple),
    ),
)
origins = st.builds(RuleOrigin, st.sampled_from(RuleSource), words, words)
rules = st.lists(st.builds(Rule, words, words, st.sampled_from(Action), origins), max_size=2).map(tuple)
policies = st.builds(Policy, st.sampled_from(Mode), rules, words)
created = st.builds(
    TaskCreated,
    agent=words,
    prompt=words,
    description=words,
    conversation=st.booleans(),
    parent=st.none() | words,
    call=st.none() | words,
    background=st.booleans(),
    cwd=words,
    asked_model=words,
    max_turns=st.none() | counts,
    depth=st.integers(0, 5),
    policies=st.lists(policies, max_size=2).map(tuple),
    grant=st.none() | st.sampled_from(Mode),
)
started = st.builds(TaskStarted, words, words, several_words, several_words)
queued = st.builds(TaskQueued, words)
tasks = st.builds(NamedTask, words, words)
files = st.lists(st.builds(ChangedFile, words, st.just("added"), st.none() | counts, counts), max_size=1)
changes = st.one_of(
    st.builds(
        WorktreeChanges,
        st.sampled_from(("unknown", "removed", "empty", "merged", "open")),
        words,
        host=words,
        last=st.none() | tasks,
        files=files.map(tuple),
        merges=st.sampled_from(("clean", "conflicts", "unknown")),
        commands=several_words,
    ),
    st.builds(WorktreeInUse, st.lists(tasks, min_size=1, max_size=2).map(tuple), words, st.booleans()),
    st.builds(CopyChanges, st.sampled_from(("empty", "no_more", "handed_in", "kept")), words, diff=words),
    st.builds(MergedChanges, st.sampled_from(("applied", "there", "offered")), words, words, words),
    st.builds(LostChanges, words, words),
)
changes_moved = st.builds(ChangesMoved, changes, st.sampled_from(("", "offers", "in_use")))
ended = st.builds(
    TaskEnded,
    st.sampled_from([status for status in Status if status.ended]),
    words,
    st.none() | words,
    several_words,
    reason=st.sampled_from(EndReason),
    changes=st.lists(changes, max_size=2).map(tuple),
)
added = st.builds(MessageAdded, messages)
decided = st.builds(
    CallDecided,
    words,
    words,
    st.builds(
        Decision,
        st.sampled_from(Action),
        words,
        words,
        words,
        st.sampled_from(Remedy),
        removes=words,
        by=st.sampled_from(DecidedBy),
        offers=rules,
        grants=st.none() | st.sampled_from(Mode),
    ),
    several_words,
    words,
)
summed_up = st.builds(
    TranscriptCompacted,
    st.integers(0, 12),
    st.builds(UserMessage, words, words, replaces=counts),
    st.lists(st.integers(0, 12), max_size=3).map(tuple),
    words,
    words,
    st.none() | usages,
)
estimated = st.builds(CostEstimated, usages)
moved = st.one_of(st.just(TaskBackgrounded()), st.builds(TaskImported, words))
kept = st.builds(FileCheckpoint, words, words, st.none() | words, counts, st.booleans())
several_kept = st.lists(kept, max_size=2).map(tuple)
rewound = st.one_of(
    st.builds(FilesCheckpointed, words, several_kept, words),
    st.builds(SessionRewound, st.integers(1, 12), st.booleans(), several_kept),
)
durable: st.SearchStrategy[DurableFact] = st.one_of(
    created, started, queued, added, summed_up, estimated, decided, moved, rewound, ended, changes_moved
)


@st.composite
def lives(draw: Callable[[st.SearchStrategy[Any]], Any], most: int = 12) -> list[DurableFact]:
    """All the facts of one task, in an order that can happen: created first, started and ended by turns.

    Who goes on may have to wait for that.
    """
    facts: list[DurableFact] = [draw(created)]
    status = Status.PENDING
    for _ in range(draw(st.integers(0, most))):
        choices: list[st.SearchStrategy[DurableFact]] = [added, summed_up, estimated, decided, moved, rewound]
        if status is not Status.RUNNING:
            choices.append(started)
        choices += [queued, changes_moved] if status.ended else [ended]
        fact: DurableFact = draw(st.one_of(choices))
        if isinstance(fact, TaskStarted):
            status = Status.RUNNING
        elif isinstance(fact, TaskQueued):
            status = Status.PENDING
        elif isinstance(fact, TaskEnded):
            status = fact.status
        facts.append(fact)
    return facts


@st.composite
def chunks(
    draw: Callable[[st.SearchStrategy[Any]], Any], facts: list[DurableFact]
) -> list[list[DurableFact]]:
    """The same facts cut into appends of any size."""
    pieces: list[list[DurableFact]] = []
    rest = facts
    while rest:
        size: int = draw(st.integers(1, len(rest)))
        pieces.append(rest[:size])
        rest = rest[size:]
    return pieces
