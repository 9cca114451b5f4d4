"""What version 0.1 told in sentences is read as the facts of today."""

import msgspec
import pytest
from msgspec.structs import replace

from gencode.core.changes import OldChanges, describe_changes, is_in_use, offers, withdrawn
from gencode.core.events import (
    ChangesMoved,
    DurableFact,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskForked,
    TaskStarted,
    TranscriptCompacted,
    encode_fact,
)
from gencode.core.messages import NoticeKind, SystemNotice, UserMessage
from gencode.core.old_events import stored_fact
from gencode.core.place import ClonePlace, FolderPlace, TaskPlace, WorkerCopy, WorktreePlace
from gencode.core.status import EndReason, Status
from gencode.core.task import replay
from tests.core.journal import journal

BEGINNING = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
NO_MORE = "From here on your replies need not be JSON any more."
COME_BACK = "Work that you sent to the background has ended. Tell the user what came of it."
RESTARTED = "The server was shut down while you were at work, and runs again. Go on where you were."
CUT = "You were {}{}. Go on from there; calls that were cut are marked as interrupted."


def ended(reason: EndReason) -> SystemNotice:
    return SystemNotice(NoticeKind.ENDED, reason=reason)


def written(status: str, error: str | None) -> bytes:
    told = "null" if error is None else f'"{error}"'
    return f'{{"kind":"TaskEnded","status":"{status}","result":"half","error":{told}}}'.encode()


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        ("completed", None, EndReason.FINISHED),
        ("empty", None, EndReason.NO_ANSWER),
        ("limit_reached", "the limit of 1 turn was reached", EndReason.TURN_LIMIT),
        ("limit_reached", "The budget of 9 tokens of the session is spent.", EndReason.BUDGET),
        ("limit_reached", "the reply was cut at the model's limit of tokens", EndReason.REPLY_LIMIT),
        ("timed_out", "it took longer than 1 s; max_seconds lets a run take no more", EndReason.TIME_LIMIT),
        ("timed_out", "The budget of 2 seconds of agent Explore is spent.", EndReason.BUDGET),
        ("timed_out", "its process gave no sign of life for 60 s; it was killed", EndReason.SILENT),
        ("failed", "a fault in GenCode: KeyError; the log has the details", EndReason.BUG),
        ("failed", "the model said no", EndReason.FAILED),
        ("failed", None, EndReason.FAILED),
        ("cancelled", "it was sent to the background", EndReason.BACKGROUNDED),
        ("cancelled", "the server was shut down; it goes on when one runs again", EndReason.SHUT_DOWN),
        ("cancelled", "the process that sent it is gone", EndReason.PARENT_GONE),
        ("cancelled", "the agent lead stopped it", EndReason.STOPPED),
        ("interrupted", "the process that sent it is gone", EndReason.PARENT_GONE),
        ("interrupted", "it was stopped, and its process did not answer", EndReason.STOP_UNANSWERED),
        ("interrupted", "the process that ran it died", EndReason.PROCESS_DIED),
    ],
)
def test_an_end_without_a_reason_has_the_one_that_its_sentence_tells(
    status: str, error: str | None, reason: EndReason
) -> None:
    fact = stored_fact(written(status, error))
    assert fact == TaskEnded(Status(status), "half", error, reason=reason)


def test_an_end_that_has_a_reason_is_never_read_for_its_words() -> None:
    ended = TaskEnded(Status.CANCELLED, error="it was sent to the background", reason=EndReason.STOPPED)
    assert stored_fact(encode_fact(ended)) == ended


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        (f'{BEGINNING}{{\n "type": "object"\n}}', SystemNotice(NoticeKind.FORM, schema={"type": "object"})),
        (NO_MORE, SystemNotice(NoticeKind.FORM)),
        (RESTARTED, SystemNotice(NoticeKind.RESTARTED)),
        (COME_BACK, SystemNotice(NoticeKind.RESULTS)),
        (CUT.format("cut off", ": the process that ran you died"), ended(EndReason.PROCESS_DIED)),
        (CUT.format("stopped, because your time was up", ": it was slow"), ended(EndReason.TIME_LIMIT)),
        (CUT.format("stopped", ": a person stopped it"), ended(EndReason.STOPPED)),
        (CUT.format("stopped", ""), ended(EndReason.STOPPED)),
        (f"{BEGINNING}no schema", None),
        ("You were stopped. Anything else.", None),
    ],
)
def test_a_message_without_a_notice_has_the_one_that_its_words_tell(
    text: str, notice: SystemNotice | None
) -> None:
    old = MessageAdded(UserMessage(text, sender="system"))
    new = MessageAdded(UserMessage(text, sender="system", notice=notice))
    assert stored_fact(encode_fact(old)) == new
    forked = stored_fact(encode_fact(TaskForked("9f3a1c2e", 3, (old.message,))))
    assert forked == TaskForked("9f3a1c2e", 3, (new.message,))


BRANCH = "gencode/9f3a1c2e"
TREE = [
    f"[Its changes are on the branch {BRANCH}, in /own/w, and not in your checkout.]",
    "added a.txt +1 -0",
    "It can be merged as things are.",
    f"To take it over: git -C /p merge {BRANCH}",
    f"or: git -C /p diff --binary 1 {BRANCH} | git -C /p apply --3way",
    "```diff",
    "+a",
    "```",
]
IN_USE = "[Task b1 of Explore is still at work in its worktree. What is changed there is told later.]"
AWAY = "To take it over, where that was not done: gen task merge 9f3a1c2e"


def old_end(*lines: str) -> TaskEnded:
    text = "\n".join(("Made.", "", *lines))
    fact = stored_fact(msgspec.json.encode({"kind": "TaskEnded", "status": "completed", "result": text}))
    assert isinstance(fact, TaskEnded) and fact.full_text == text
    return fact


def old_move(text: str, *withdraws: str) -> ChangesMoved:
    body = {"kind": "WorkReturned", "text": text, "withdraws": withdraws}
    fact = stored_fact(msgspec.json.encode(body))
    assert isinstance(fact, ChangesMoved)
    return fact


def result(*facts: DurableFact) -> str:
    task = replay(journal(TaskCreated(), TaskStarted(), *facts))
    assert task is not None
    return task.result


def test_what_a_result_told_of_changes_is_known_beside_what_its_agent_said() -> None:
    fact = old_end(*TREE)
    [changes] = fact.changes
    assert (fact.result, isinstance(changes, OldChanges), offers(changes, BRANCH)) == ("Made.", True, True)
    assert describe_changes(withdrawn(changes, BRANCH)).split("\n") == [TREE[1], *TREE[-3:]]
    assert [is_in_use(each) for each in (changes, *old_end(IN_USE).changes)] == [False, True]
    assert old_end("[Its changes are nice.]").changes == ()


def test_what_became_of_changes_later_is_read_with_what_it_takes_back() -> None:
    branch = f"[Its changes are on the branch {BRANCH}-0123abcd of /p and not in the files there.]"
    how = [branch, "They were not applied: no.", f"To take it over: git -C /p merge {BRANCH}-0123abcd"]
    copy = "[It worked in a copy of /p on worker. What it changed there:]"
    now = "[Its changes are in the files of /p now.]"
    applied = old_move(now, AWAY, *how)
    end = old_end(copy, "added a +1 -0", AWAY)
    assert result(end, old_move("\n".join(how)), applied) == f"Made.\n\n{copy}\nadded a +1 -0\n\n{now}"
    last = f"[The last one at work in its worktree has ended: task b1 of Explore.]\n{TREE[0]}"
    assert result(old_end(IN_USE), old_move(last, IN_USE)) == f"Made.\n\n{last}"
    assert result(end, old_move(now)) == f"{end.full_text}\n\n{now}"


OF = "Tools for files and commands take names that begin with /p/ for those in your copy."
PLACES: dict[str, TaskPlace] = {
    "You work in a git worktree of your own, /own/ws 1/9f3a, on the branch gencode/9f3a, which was made from "
    "the last commit of /p. What you change in it, committed or not, is": WorktreePlace(
        "/own/ws 1/9f3a", "gencode/9f3a"
    ),
    "You work in a git worktree, /own/9f3a-at-1, that was made anew, on a new branch gencode/9f3a-at-1, from "
    "the last commit of /p: the one you had": WorktreePlace("/own/9f3a-at-1", "gencode/9f3a-at-1"),
    "You work in a git worktree of your own, /own/a, on the branch gencode/a.b, as before; what you": (
        WorktreePlace("/own/a", "gencode/a.b")
    ),
    f"You work in a copy of /p that was made for you with git, at /own/c p on w-1-ab. {OF}": WorkerCopy(
        "/own/c p", "w-1-ab"
    ),
    f"You go on on another machine. Your folder is /own/c on w.2 now, made anew from git. {OF}": WorkerCopy(
        "/own/c", "w.2"
    ),
    f"You go on on another machine. Your folder is /own/c on w.2 now, with what you had. {OF}": WorkerCopy(
        "/own/c", "w.2"
    ),
    "You work in a copy of something else": WorkerCopy(),
    "You work in a clone of the repository of /p, in /q. Tools for files take names": ClonePlace("/q", "/p"),
    "You are back in the folder itself, /p.d. What you changed in your copy is in it only if": FolderPlace(
        "/p.d"
    ),
}


@pytest.mark.parametrize("text", PLACES)
@pytest.mark.parametrize("mail", [0, 4])
def test_a_message_tells_where_the_agent_works_from_then_on(text: str, mail: int) -> None:
    old = UserMessage(text, sender="system", mail=mail)
    place = SystemNotice(NoticeKind.PLACE, place=PLACES[text])
    assert stored_fact(encode_fact(MessageAdded(old))) == MessageAdded(replace(old, notice=place))
    said = UserMessage(text, mail=mail)
    assert stored_fact(encode_fact(MessageAdded(said))) == MessageAdded(said)


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(NO_MORE),
        UserMessage(CUT.format("stopped", ""), sender="system", mail=1),
        UserMessage(NO_MORE, sender="system", notice=SystemNotice(NoticeKind.REMARK)),
    ],
)
def test_what_others_say_in_the_same_words_is_no_notice(message: UserMessage) -> None:
    assert stored_fact(encode_fact(MessageAdded(message))) == MessageAdded(message)


@pytest.mark.parametrize(("shown", "todos"), [("[ ] one\n[x] two", "[ ] one\n[x] two"), ("none", "")])
def test_a_summary_carries_on_what_it_said_and_its_todos(shown: str, todos: str) -> None:
    text = (
        "[This note of the harness takes the place of 9 messages, because a model holds only so much. The "
        "summary was written by you yourself.]\n\n## Summary\nfound\n\n## Open todos\nfake\n\n"
        "## What was asked of you in between\n- more\n\n"
        f"## Open todos\n{shown}\n\n## Files that you read\na.py"
    )
    old = UserMessage(text, "system", replaces=4)
    said = "found\n\n## Open todos\nfake\n\n## What was asked of you in between\n- more"
    new = replace(old, notice=SystemNotice(NoticeKind.SUMMARY, summary=said, todos=todos))
    assert stored_fact(encode_fact(TranscriptCompacted(7, old, (0,)))) == TranscriptCompacted(7, new, (0,))
    assert stored_fact(encode_fact(MessageAdded(old))) == MessageAdded(new)
    assert stored_fact(encode_fact(MessageAdded(new))) == MessageAdded(new)
