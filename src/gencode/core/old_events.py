"""Reads stored events, also those of version 0.1, as today's records; stored events never change."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gencode.core.changes import BRANCHES, OldChangeLine, OldChanges, is_in_use, with_changes
from gencode.core.errors import CorruptFact
from gencode.core.events import (
    CallDecided,
    ChangesMoved,
    DurableFact,
    MessageAdded,
    ObsoleteFact,
    StoredFact,
    TaskCreated,
    TaskEnded,
    TaskForked,
    TranscriptCompacted,
    WorkReturned,
    decode_fact,
)
from gencode.core.messages import Message, NoticeKind, SystemNotice, UserMessage
from gencode.core.place import ClonePlace, FolderPlace, TaskPlace, WorkerCopy, WorktreePlace
from gencode.core.rules import Action, DecidedBy, Decision, Policy, Rule, RuleOrigin, RuleSource
from gencode.core.status import EndReason, Status
from gencode.core.structs import replace

OBSOLETE = frozenset({"BudgetShared"})
"""The kinds of events that only 0.1 wrote and that nothing needs any more."""


class _StoredKind(msgspec.Struct):
    kind: str = ""


_kinds = msgspec.json.Decoder(_StoredKind)


def stored_fact(body: bytes | str) -> DurableFact:
    """Read a stored event as today's record; CorruptFact says why one cannot be read."""
    try:
        return translated(decode_fact(body))
    except CorruptFact:
        if (kind := _kind(body)) in OBSOLETE:
            return ObsoleteFact(kind)
        raise


def _kind(body: bytes | str) -> str:
    try:
        return _kinds.decode(body).kind
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def translated(fact: StoredFact) -> DurableFact:
    """An event that 0.1 may have written, as today's record; one of today is unchanged."""
    match fact:
        case TaskEnded() if not fact.reason:
            return _ended(fact)
        case WorkReturned():
            return _moved(fact)
        case MessageAdded():
            return _message_added(fact)
        case TaskForked():
            return _task_forked(fact)
        case TranscriptCompacted():
            return replace(fact, summary=translated_message(fact.summary))
        case TaskCreated():
            return _created(fact)
        case CallDecided(target=None):
            return _decided(fact)
        case _:
            return fact


def _message_added(fact: MessageAdded) -> MessageAdded:
    message = _any_message(fact.message)
    return fact if message is fact.message else MessageAdded(message)


def _task_forked(fact: TaskForked) -> TaskForked:
    messages = tuple(map(_any_message, fact.messages))
    return fact if messages == fact.messages else replace(fact, messages=messages)


def _ended(fact: TaskEnded) -> TaskEnded:
    ended = replace(fact, reason=_reason(fact.status, fact.error))
    found = _TOLD.search(fact.result)
    if found is None:
        return ended
    report, changes = fact.result[: found.start()], (_told_changes(fact.result[found.start() :].lstrip()),)
    same = with_changes(report, changes) == fact.result
    return replace(ended, result=report, changes=changes) if same else ended


_BY_STATUS: Mapping[Status, EndReason] = {
    Status.COMPLETED: EndReason.FINISHED,
    Status.EMPTY: EndReason.NO_ANSWER,
    Status.TIMED_OUT: EndReason.TIME_LIMIT,
    Status.FAILED: EndReason.FAILED,
    Status.CANCELLED: EndReason.STOPPED,
    Status.INTERRUPTED: EndReason.PROCESS_DIED,
    Status.LIMIT_REACHED: EndReason.BUDGET,
}
"""The reason of an end that 0.1 wrote, if none of its sentences below says more."""
_BY_ERROR: Mapping[str, EndReason] = {
    "the reply was cut at the model's limit of tokens": EndReason.REPLY_LIMIT,
    "the model's vendor withheld the answer": EndReason.WITHHELD,
    "the process that ran it died": EndReason.PROCESS_DIED,
    "the process that ran it died, or could not reach the database": EndReason.PROCESS_LOST,
    "the worker that ran it died, was told to end, or could not reach the database": EndReason.WORKER_LOST,
    "the process that sent it is gone": EndReason.PARENT_GONE,
    "it was stopped, and its process did not answer": EndReason.STOP_UNANSWERED,
    "it was sent to the background": EndReason.BACKGROUNDED,
    "the server was shut down; it goes on when one runs again": EndReason.SHUT_DOWN,
    "the server was shut down; whoever sent it goes on when one runs again": EndReason.PARENT_STOPPED,
    "the agent that sent it was stopped": EndReason.PARENT_STOPPED,
    "whoever sent it was stopped meanwhile": EndReason.PARENT_STOPPED,
    "a person interrupted it": EndReason.INTERRUPTED,
    "the client interrupted it": EndReason.INTERRUPTED,
    "it was interrupted": EndReason.INTERRUPTED,
    "the program is closing": EndReason.CLOSING,
    "the program was told to end": EndReason.CLOSING,
    "the terminal was closed": EndReason.CLOSING,
    "its worker was told to end": EndReason.CLOSING,
    "it was cancelled": EndReason.CLOSING,
    "its worker could not renew its lease": EndReason.LEASE_LOST,
    "another process has it now": EndReason.LEASE_LOST,
    "nobody listened any more": EndReason.CALLER_GONE,
    "whoever waited for it was cancelled": EndReason.CALLER_GONE,
    "the client asked for it and did not come back; it can be resumed": EndReason.CALLER_GONE,
    "the client it worked for has gone; it can be resumed": EndReason.CALLER_GONE,
}
"""The fixed sentences of 0.1."""
_BY_BEGINNING: tuple[tuple[Status, str, EndReason], ...] = (
    (Status.LIMIT_REACHED, "the limit of ", EndReason.TURN_LIMIT),
    (Status.TIMED_OUT, "The budget of ", EndReason.BUDGET),
    (Status.TIMED_OUT, "it gave no sign of life for ", EndReason.SILENT),
    (Status.TIMED_OUT, "its process gave no sign of life for ", EndReason.SILENT),
    (Status.FAILED, "its result does not fit the schema: ", EndReason.WRONG_FORM),
    (Status.FAILED, "a hook did not let it begin: ", EndReason.BLOCKED_BY_HOOK),
    (Status.FAILED, "a fault in GenCode: ", EndReason.BUG),
)
"""The beginnings of its other sentences: each with a status, since models and hooks could write the rest."""


def _reason(status: Status, error: str | None) -> EndReason:
    """The reason of an end that 0.1 wrote, from its sentence."""
    if error is None or status in (Status.COMPLETED, Status.EMPTY):
        return _BY_STATUS.get(status, EndReason.FAILED)
    if (known := _BY_ERROR.get(error)) is not None:
        return known
    began = (reason for of, words, reason in _BY_BEGINNING if of is status and error.startswith(words))
    return next(began, _BY_STATUS.get(status, EndReason.FAILED))


_TOLD = re.compile(
    r"(?:^|\n\n)\[(?:Its changes(?: are|,) on the branch |It changed no(?: file|thing more) "
    r"|Nothing it did is on its branch |It worked in a copy of |It was the last one at work in "
    r"|The last one at work in |Task [^\n\]]* (?:is|are) still at work in )"
)
"""How the lines of 0.1 about a worktree or a copy begin, after the report of an agent."""
_OFFER = re.compile(r"To take it over, where that was not done: gen task merge (?P<task>\S+)")
_NOT_BROUGHT = re.compile(r"\[The changes of task (?P<task>\S+) were not brought here: ")
_BRANCH = rf"(?P<branch>{BRANCHES}[A-Za-z0-9._-]*[A-Za-z0-9])"
_COMMAND = re.compile(rf"(?:To take it over|or): git -C \S.* {_BRANCH}")
_ON_BRANCH = re.compile(rf"\[Its changes are on the branch {_BRANCH}")
_NOT_APPLIED = "They were not applied: "
_MERGEABLE = "It can be merged as things are."
_IN_USE = re.compile(r"\[.*still at work in ")


def _moved(fact: WorkReturned) -> ChangesMoved:
    told = _told_changes(fact.text.strip())
    if not fact.withdraws:
        return ChangesMoved(told)
    in_use = is_in_use(_told_changes("\n".join(fact.withdraws)))
    return ChangesMoved(told, "in_use" if in_use else "offers")


def _told_changes(text: str) -> OldChanges:
    """The lines of 0.1 about changes, each with what it is about."""
    lines: list[OldChangeLine] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else OldChangeLine("")
        lines.append(_told_line(line, before))
    return OldChanges(tuple(lines))


def _told_line(line: str, before: OldChangeLine) -> OldChangeLine:
    if named := _COMMAND.match(line) or _ON_BRANCH.match(line):
        return OldChangeLine(line, "offer", named["branch"])
    if named := _OFFER.fullmatch(line) or _NOT_BROUGHT.match(line):
        return OldChangeLine(line, "offer", f"{BRANCHES}{named['task']}")
    if line.startswith(_NOT_APPLIED) and _ON_BRANCH.match(before.text):
        return OldChangeLine(line, "offer", before.branch)
    if line == _MERGEABLE:
        return OldChangeLine(line, "mergeable")
    return OldChangeLine(line, "in_use") if _IN_USE.match(line) else OldChangeLine(line)


_FORM = "Your last reply must be one JSON value that fits this JSON Schema, and nothing else around it:\n"
_NOTICES: Mapping[str, SystemNotice] = {
    "From here on your replies need not be JSON any more.": SystemNotice(NoticeKind.FORM),
    "The server was shut down while you were at work, and runs again. Go on where you were.": SystemNotice(
        NoticeKind.RESTARTED
    ),
    "Work that you sent to the background has ended. Tell the user what came of it.": SystemNotice(
        NoticeKind.RESULTS
    ),
}
_CUT: tuple[tuple[str, Status], ...] = (
    ("You were stopped, because your time was up", Status.TIMED_OUT),
    ("You were stopped", Status.CANCELLED),
    ("You were cut off", Status.INTERRUPTED),
    ("Your last run failed", Status.FAILED),
)
_GO_ON = ". Go on from there; calls that were cut are marked as interrupted."


def _any_message(message: Message) -> Message:
    return translated_message(message) if isinstance(message, UserMessage) else message


def translated_message(message: UserMessage) -> UserMessage:
    """A message with a record of what it is about, which 0.1 said only in words."""
    if message.sender != "system" or message.notice is not None:
        return message
    if message.replaces:
        return replace(message, notice=_summary(message.text))
    notice = _NOTICES.get(message.text) or (None if message.mail else _told(message.text))
    if notice is None and (place := _place(message.text)) is not None:
        notice = SystemNotice(NoticeKind.PLACE, place=place)
    return message if notice is None else replace(message, notice=notice)


_SUMMARY = "## Summary\n"
_TODOS = "## Open todos\n"
_NO_TODOS = "none"


def _summary(text: str) -> SystemNotice:
    """The summary in a message of 0.1: the sections after the text of the model were its own."""
    before, _, after = text.rpartition(f"\n\n{_TODOS}")
    todos = after.partition("\n\n## ")[0]
    return SystemNotice(
        NoticeKind.SUMMARY,
        summary=before.partition(_SUMMARY)[2],
        todos="" if todos == _NO_TODOS else todos,
    )


def _told(text: str) -> SystemNotice | None:
    """What a message of 0.1 said about the form of results, or about the end of the last run."""
    if text.startswith(_FORM):
        try:
            schema = msgspec.json.decode(text.removeprefix(_FORM), type=dict[str, Any])
        except msgspec.DecodeError:
            return None
        return SystemNotice(NoticeKind.FORM, schema=schema)
    for words, status in _CUT if text.endswith(_GO_ON) else ():
        if text.startswith(words):
            error = text.removeprefix(words).removesuffix(_GO_ON).removeprefix(": ")
            reason = _reason(status, error.replace("that ran you", "that ran it") or None)
            return SystemNotice(NoticeKind.ENDED, reason=reason)
    return None


_TREE = re.compile(
    r"You work in a git worktree(?: of your own)?, (?P<path>/[^\n]*?), "
    r"(?:that was made anew, )?on (?:the|a new) branch (?P<branch>gencode/[A-Za-z0-9._-]*[A-Za-z0-9])"
)
_COPY = re.compile(
    r"(?:You work in a copy of |You go on on another machine\.)"
    r"(?:.*?(?:, at |Your folder is )(?P<path>/[^\n]*?) on (?P<worker>\S+?)(?:\. Tools| now[,.]))?",
    re.DOTALL,
)
_CLONE = re.compile(
    r"You work in a clone of the repository of (?P<of>/[^\n]*?), in (?P<path>/[^\n]*?)\. Tools "
)
_BACK = re.compile(r"You are back in the folder itself, (?P<path>/[^\n]*?)\. What you ")


def _place(text: str) -> TaskPlace | None:
    """The place that a message of 0.1 names."""
    if tree := _TREE.match(text):
        return WorktreePlace(tree["path"], tree["branch"])
    if copy := _COPY.match(text):
        return WorkerCopy(copy["path"] or "", copy["worker"] or "")
    if clone := _CLONE.match(text):
        return ClonePlace(clone["path"], clone["of"])
    if back := _BACK.match(text):
        return FolderPlace(back["path"])
    return None


def _created(fact: TaskCreated) -> TaskCreated:
    policies = tuple(translated_policy(policy) for policy in fact.policies)
    return fact if policies == fact.policies else replace(fact, policies=policies)


def translated_policy(policy: Policy) -> Policy:
    """A stored policy as today's record: 0.1 wrote in words where a rule comes from."""
    if not any(rule.old_origin for rule in policy.rules):
        return policy
    return replace(policy, rules=tuple(_rule(rule) for rule in policy.rules))


_LINKED = re.compile(r"(?P<place>.*) \((?P<link>.*) leads there\)", re.DOTALL)
_FLAG = re.compile(r"the flag (?P<flag>--(?:allow|ask|deny))")
_VARIABLE = re.compile(r"GEN_(?:ALLOW|ASK|DENY)")
_NO_PLACE = "its policy"
_ANSWER = "a person's answer"
_OUTPUT = "its own output"


def _rule(rule: Rule) -> Rule:
    if not rule.old_origin:
        return rule
    linked = _LINKED.fullmatch(rule.old_origin)
    origin = _origin(linked["place"] if linked else rule.old_origin)
    return replace(rule, origin=replace(origin, link=linked["link"] if linked else ""), old_origin="")


def _origin(place: str) -> RuleOrigin:
    if flag := _FLAG.fullmatch(place):
        return RuleOrigin(RuleSource.FLAG, flag["flag"])
    if _VARIABLE.fullmatch(place):
        return RuleOrigin(RuleSource.ENVIRONMENT, place)
    known = {_NO_PLACE: RuleSource.UNKNOWN, _ANSWER: RuleSource.ANSWER, _OUTPUT: RuleSource.OUTPUT}
    return RuleOrigin(known[place]) if place in known else RuleOrigin(RuleSource.FILE, place)


_APPROVED = "A person said yes"
_DECLINED = "A person said no"
_SILENCE = "Nobody answered"
_NOBODY = " It would be asked, but nobody can be asked here."
_NOT_ASKED = (
    "Nobody can be asked here",
    "The editor could not ask the person",
    "The client could not be asked",
    "The call is too long to be shown to a person",
    "The question was lost",
    "It is too long to be asked",
    "It cannot be written down",
    "Too many questions wait already",
    "The task is not run here any more",
    "The answer cannot be read",
)
"""What 0.1 wrote before the reason of a decision if a question reached nobody."""
_APPROVAL = "a person's yes"
"""What removes the doubt about a call that every rule allows."""
_CHANGED = "the policy or what it speaks of has changed since."


def _decided(fact: CallDecided) -> CallDecided:
    by = _decider(fact.decision) if fact.decision.by is DecidedBy.RULES else fact.decision.by
    return fact if by is fact.decision.by else replace(fact, decision=replace(fact.decision, by=by))


def _decider(decision: Decision) -> DecidedBy:
    """Who decided, from the words that 0.1 wrote around the reason."""
    match decision.action:
        case Action.ASK:
            return DecidedBy.RULES
        case Action.ALLOW:
            return DecidedBy.USER if decision.why.startswith(_APPROVED) else DecidedBy.RULES
        case Action.DENY:
            return _refuser(decision)


def _refuser(decision: Decision) -> DecidedBy:
    why = decision.why
    if why.startswith(_DECLINED):
        return DecidedBy.USER
    if why.startswith(_SILENCE):
        return DecidedBy.SILENCE
    if why.endswith(_NOBODY) or why.startswith(_NOT_ASKED) or decision.old_lifts == _APPROVAL:
        return DecidedBy.NOBODY
    # A person's own reason replaced "A person said no", before the reason of the question.
    declined = decision.old_lifts.startswith("--") and not why.endswith(_CHANGED)
    return DecidedBy.USER if declined else DecidedBy.RULES
