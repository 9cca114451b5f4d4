"""The outcome of a task: its public record for scripts, the command line and Python callers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.core.rules import DecidedBy
from gencode.core.status import Status, as_verb
from gencode.core.structs import replace
from gencode.core.task import Evidence, Task
from gencode.core.text import code_span, counted, disarmed, disarmed_line, quoted

PAGE = 20_000
"""The length of one page of a result, in characters."""


class TreeUsage(Struct, frozen=True, rename="camel"):
    """Usage of a task, and under `tree` that of the task with all its subagents."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None
    tree: Usage = Usage()


class RefusedCall(Struct, frozen=True, rename="camel"):
    """A refused call of a run: its task, its tool, what it was about, who refused it and why."""

    task: str
    agent: str
    tool: str
    summary: str
    by: DecidedBy
    why: str


class StoppedWork(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Work that was stopped because its process ended: the task of an agent, or a background command."""

    id: str
    agent: str = ""
    command: str = ""


class Outcome(Struct, frozen=True, rename="camel"):
    """One task, in the field names of the contract (camelCase in JSON, snake_case in Python)."""

    success: bool
    result: str
    agent_id: str
    output_file: str | None
    error: str | None
    status: Status
    agent: str
    model: str
    turns: int
    duration_ms: int | None
    description: str
    prompt: str
    parent_id: str | None
    background: bool
    cwd: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    usage: TreeUsage
    evidence: Evidence
    output: Any = None
    forked_from: str | UnsetType = UNSET
    answered_from: str | UnsetType = UNSET
    """The earlier task whose result was reused from the result cache."""
    imported_from: str | UnsetType = UNSET
    queue_position: int | UnsetType = UNSET
    stalled_seconds: float | UnsetType = UNSET
    reported: int | UnsetType = UNSET
    """How many characters of the result its agent wrote; what GenCode says of its changes follows."""
    transcript: list[dict[str, Any]] | UnsetType = UNSET
    decisions: list[dict[str, Any]] | UnsetType = UNSET


class RunOutcome(Outcome, frozen=True, rename="camel"):
    """A task that was run to its end by this process, and what happened during the run.

    `refused` are the refused calls of the task and its subagents in this run; `stopped` is the work that the
    end of the process stopped. Each is present only if there is something.
    """

    refused: tuple[RefusedCall, ...] | UnsetType = UNSET
    stopped: tuple[StoppedWork, ...] | UnsetType = UNSET


def titled(description: str, prompt: str, fork_of: str | UnsetType = UNSET) -> str:
    """The title of a task in a list; that of a fork says so, to tell it from its original."""
    title = description or prompt
    return f"fork of {fork_of}: {title}" if fork_of else title


def _tree_usage(own: Usage, tree: Usage) -> TreeUsage:
    """Usage with costs rounded to a billionth of a dollar: sums of floats have odd trailing digits."""
    usd, whole = (None if each.usd is None else round(each.usd, 9) for each in (own, tree))
    rounded = replace(tree, usd=whole)
    return TreeUsage(own.input_tokens, own.output_tokens, own.cached_tokens, usd, rounded)


def title_of(task: Task) -> str:
    """The title of a task in a list."""
    return titled(task.created.description, task.created.prompt, task.created.forked)


def output_file(outputs: Path, task: str) -> Path:
    """The output file of a background task, in the folder of all outputs."""
    return outputs / f"{task}.md"


def outcome_of(task: Task, tree: Usage | None = None, outputs: Path | None = None) -> Outcome:
    """The public shape of a task.

    `tree` is the usage of the task and all its subagents, `outputs` the folder where background tasks have
    output files.
    """
    usage = task.totals.usage
    whole = usage if tree is None else tree
    # What it said before is no answer to what it waits to do.
    result = "" if task.status is Status.PENDING else task.result
    return Outcome(
        success=task.status is Status.COMPLETED,
        # A result from before does not answer the prompt it waits to work on.
        result="" if task.status is Status.PENDING else task.result,
        agent_id=task.id,
        output_file=str(output_file(outputs, task.id)) if outputs and task.terms.background else None,
        error=task.end.error,
        status=task.status,
        agent=task.agent,
        model=task.run.model,
        turns=task.totals.turns,
        duration_ms=task.totals.worked_ms if task.run.started_at and task.end.at else None,
        description=task.created.description,
        prompt=task.created.prompt,
        parent_id=task.parent,
        background=task.terms.background,
        cwd=task.cwd,
        created_at=task.created_at,
        started_at=task.run.started_at,
        ended_at=task.end.at,
        usage=_tree_usage(usage, whole),
        evidence=task.evidence,
        output=task.end.output,
        forked_from=task.created.forked or UNSET,
        answered_from=task.report.again or UNSET,
        imported_from=(task.imported.came_from if task.imported else "") or UNSET,
        stalled_seconds=task.run.stalled or UNSET,
        reported=len(task.report.text.strip()) if result and task.report.changes else UNSET,
    )


def page_of(text: str, page: int, *, of: str = "result") -> str:
    """One page of a long text with its number and the total; UserMistake when there is no such page."""
    start = start_of(len(text), page, of=of)
    part = text[start : start + PAGE]
    return part if len(text) <= PAGE else f"{part}\n[page {page} of {-(-len(text) // PAGE)}]"


def start_of(size: int, page: int, *, of: str = "result") -> int:
    """Where a page of a text of this size begins; UserMistake when there is no such page."""
    pages = max(1, -(-size // PAGE))
    if page > pages:
        raise UserMistake(f"There is no page {page}; the {of} has {pages}.")
    return (page - 1) * PAGE


LEAST_ACCOUNT = 1_000
LONGEST_QUOTED = 26_000
"""The longest quoted text: together with what is around it, it has to fit into one tool result."""


def excerpt(text: str, start: int, most: int, *, at_line: bool = True) -> tuple[str, int]:
    """At most `most` characters of a text from `start` on, quoted for another agent, and where they end.

    They end at a line break if there is one in their second half. Quoting makes text longer, so there may be
    fewer.
    """
    end = min(start + most, len(text))
    if end < len(text) and at_line:
        line = text.rfind("\n", start + most // 2, end)
        end = end if line < 0 else line + 1
    room = min(2 * most + 100, LONGEST_QUOTED)
    shown = quoted(disarmed(text[start:end].rstrip("\n")))
    while len(shown) > room and end > start + 1:
        end = start + max((end - start) * room // (len(shown) + 1), 1)
        shown = quoted(disarmed(text[start:end].rstrip("\n")))
    return shown, end


def report_lines(outcome: Outcome, most: int, start: int = 0, *, paged: bool = False, rest: str = "") -> str:
    """The report of an agent as its parent's model reads it: quoted, with our receipt below.

    `rest` says where the whole report is, if TaskOutput does not continue where it is cut.
    """
    text = outcome.result.strip()
    own = len(text) if outcome.reported is UNSET else outcome.reported
    lines: list[str] = [] if text else ["(no output)"]
    end = start
    if start < own:
        shown, end = excerpt(text[:own], start, most, at_line=not paged)
        lines.append(shown)
    if own <= end < len(text):
        room = min(most - (end - start), LONGEST_QUOTED - sum(map(len, lines)))
        account, taken = _beginning(text[end:], room if paged else max(room, LEAST_ACCOUNT), paged=paged)
        lines.append(disarmed(account.rstrip("\n").removeprefix("\n")))
        end += taken
    if end < len(text):
        where = rest or f'TaskOutput(task_id="{outcome.agent_id}", offset={end})'
        lines.append(f"[{len(text) - end:,} of {len(text):,} characters follow: {where}]")
    return "\n".join((*filter(None, lines), receipt_line(outcome)))


def _beginning(text: str, room: int, *, paged: bool) -> tuple[str, int]:
    """The beginning of a text, up to the end of a line if it is not `paged`, and its length."""
    line = text.rfind("\n", room // 2, room) if len(text) > room and not paged else -1
    taken = min(room, len(text)) if line < 0 else line + 1
    return text[:taken], taken


def how_ended(outcome: Outcome) -> str:
    """How a task ended that did not complete, and why, in one line."""
    why = why_ended(outcome).rstrip(".")
    return f"{as_verb(outcome.status)}{f': {why}' if why else ''}"


def why_ended(outcome: Outcome) -> str:
    """The error of a task in one line, as far as it is known; an empty end has no error, but a reason."""
    why = outcome.error or ("the model's reply was empty" if outcome.status is Status.EMPTY else "")
    return disarmed_line(why, LONGEST_ERROR)


MOST_NAMED = 5
LONGEST_ERROR = 1_000
LONGEST_NAME = 100
LONGEST_COMMAND = 80
LONGEST_WARNING = 300
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REFUSED_BY = {
    DecidedBy.USER: " (declined by the user)",
    DecidedBy.NOBODY: " (needs approval)",
    DecidedBy.SILENCE: " (needs approval, nobody answered)",
    DecidedBy.HOOK: " (by a hook)",
}


def receipt_line(outcome: Outcome) -> str:
    """What GenCode observed a task do, in one bracketed line that is bounded and cannot be forged.

    The names of files, commands and calls were chosen by an agent: they are put between backticks, and
    backticks in them are removed.
    """
    saw = outcome.evidence
    parts = work_done(saw)
    if saw.refused:
        calls: list[str] = []
        for each in saw.refused:
            about = f" {code_span(each.summary, LONGEST_NAME)}" if each.summary else ""
            # The model chose the name of a tool that does not exist.
            tool = each.tool if _PLAIN_NAME.fullmatch(each.tool) else code_span(each.tool, LONGEST_NAME)
            calls.append(f"{tool}{about}{_REFUSED_BY.get(each.by, '')}")
        parts.append(f"{counted(len(calls), 'call')} refused: {_several(calls)}")
    warned = ""
    if saw.warnings:
        told = [disarmed_line(each, LONGEST_WARNING).rstrip(".") for each in saw.warnings]
        warned = f" Warning{'' if len(told) == 1 else 's'}: {_several(told, '; ')}."
    agent = disarmed_line(outcome.agent, LONGEST_NAME)
    return f"[Task {outcome.agent_id} ({agent}): {'; '.join(parts)}.{warned}]"


def work_done(saw: Evidence) -> list[str]:
    """The tool calls of a task, the files it changed and its commands with their exit codes, bounded."""
    parts = [counted(saw.tool_calls, "tool call")]
    if saw.files_changed:
        paths = [code_span(each.path, LONGEST_NAME) for each in saw.files_changed]
        parts.append(f"{counted(len(paths), 'file')} changed: {_several(paths)}")
    if saw.commands:
        # The last ones of many are named: the tests at the end say more than the first look around.
        ran = [f"{code_span(each.command, LONGEST_COMMAND)} → {_exit(each.exit)}" for each in saw.commands]
        before = f" (the last {MOST_NAMED} of {len(ran)})" if len(ran) > MOST_NAMED else ""
        parts.append(f"commands{before}: {', '.join(ran[-MOST_NAMED:])}")
    return parts


def refusals(evidence: Evidence) -> list[str]:
    """Every refused call as a line for a person: the call, and why it was refused."""
    return [f"{each.tool}({each.summary}): {each.why}" for each in evidence.refused]


def _several(texts: Sequence[str], between: str = ", ") -> str:
    rest = len(texts) - MOST_NAMED
    return f"{between.join(texts[:MOST_NAMED])}{f' and {rest:,} more' if rest > 0 else ''}"


def _exit(code: int | None) -> str:
    return "not ended" if code is None else f"exit {code}"


def as_json(value: object, *, indent: int = 0) -> str:
    """Any record of ours as JSON text."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a file name need not be UTF-8
        encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def _encodable(value: Any) -> Any:
    """The value with everything escaped that is not valid Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {_encodable(name): _encodable(each) for name, each in fields.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in cast("list[Any]", value)]
    return value
