"""`gen sessions list|show|delete|prune`: conversations, and the only commands that delete anything."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.outcome import Outcome, refusals
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, add_group, days
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import counted, local_time, local_zone, turns
from gencode.interfaces.render.plain_text import answer, answer_json, note, table
from gencode.interfaces.render.transcript import transcript_text
from gencode.journal.store import TaskQuery

EXAMPLES = (
    "gen sessions list --all",
    "gen sessions show 9f3a",
    "gen sessions prune --older-than 90 --yes",
)


def add_command(commands: Commands, does: str) -> None:
    """`gen sessions …`."""
    group = add_group(commands, "sessions", does, EXAMPLES)
    listing = add(
        group,
        "list",
        listed,
        "list the conversations of this folder",
        ("gen sessions list", "gen sessions list --all --json"),
    )
    showing = add(
        group, "show", show, "show a conversation with its transcript and tasks", ("gen sessions show 9f3a",)
    )
    showing.add_argument("id", metavar="ID", help="the conversation; the beginning of its id is enough")
    delete = add(
        group,
        "delete",
        deleted,
        "delete conversations and all their tasks",
        ("gen sessions delete 9f3a --yes",),
    )
    delete.add_argument("ids", metavar="ID", nargs="+", help="a conversation, or a task of gen task run")
    prune = add(
        group,
        "prune",
        pruned,
        "delete conversations that have not been used for some days",
        ("gen sessions prune --older-than 90 --yes",),
    )
    prune.add_argument(
        "--older-than", type=days, required=True, metavar="DAYS", help="not used for this many days"
    )
    for parser in (listing, prune):
        parser.add_argument("--all", action="store_true", help="in all folders")
    for parser in (delete, prune):
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def listed(args: argparse.Namespace) -> int:
    """The conversations, as a table or JSON."""
    return run_to_end(_listed(args))


async def _listed(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        cwd = None if "all" in args else str(gen.workspace.cwd)
        found = await gen.history.tasks(TaskQuery(cwd=cwd, conversations=True))
        sessions = [await gen.outcome_of(task) for task in found]
        touched = [local_time(task.touched_at) for task in found]
    if "json" in args:
        answer_json({"sessions": sessions})
    elif not sessions:
        where = "" if "all" in args else " in this folder (--all lists all folders)"
        answer(f"There are no conversations{where}.")
    else:
        rows = [_row(session, at) for session, at in zip(sessions, touched, strict=True)]
        answer(
            table(("ID", "STATUS", "TURNS", "AGENTS", f"LAST USED ({local_zone()})", "FIRST PROMPT"), rows)
        )
    return 0


def _row(session: Outcome, at: str) -> list[str]:
    sent = str(len(session.evidence.children))
    return [session.agent_id, session.status, str(session.turns), sent, at, session.prompt[:200]]


def show(args: argparse.Namespace) -> int:
    """One conversation with everything that was said, and the tasks it asked for."""
    return run_to_end(_show(args))


async def _show(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        session = await gen.history.with_transcript(await gen.find(args.id, conversation=True))
        tasks = await gen.tasks(parent=session.agent_id)
        if "json" in args:
            answer_json({**msgspec.to_builtins(session), "tasks": tasks})
            return 0
        head = f"{session.agent} {session.agent_id}: {session.status} after {turns(session.turns)}"
        lines = [
            head,
            f"  folder   {session.cwd}",
            f"  created  {local_time(session.created_at)} {local_zone()}",
        ]
        lines += [f"  sent     {task.agent} {task.agent_id}: {task.status}" for task in tasks]
        lines += [f"  refused  {visible_line(each)}" for each in refusals(session.evidence)]
        lines += [f"  warning  {visible_line(warning)}" for warning in session.evidence.warnings]
        answer("\n".join((*lines, "", await transcript_text(gen, session.agent_id))))
    return 0


def deleted(args: argparse.Namespace) -> int:
    """Delete conversations, with everything below them."""
    return run_to_end(_deleted(args))


async def _deleted(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        found = {task.id: task for task in [await gen.find(name) for name in args.ids]}
        return await _delete(gen, list(found.values()), args)


def pruned(args: argparse.Namespace) -> int:
    """Delete what nobody has touched for so many days."""
    return run_to_end(_pruned(args))


async def _pruned(args: argparse.Namespace) -> int:
    before = stamp(datetime.now(UTC) - timedelta(days=args.older_than))
    async with opened(args) as gen:
        cwd = None if "all" in args else str(gen.workspace.cwd)
        every = await gen.history.tasks(TaskQuery(cwd=cwd))
        known = {task.id for task in every}
        old = [
            task
            for task in every
            if task.parent not in known and task.status.ended and task.touched_at < before
        ]
        return await _delete(gen, old, args)


async def _delete(gen: GenCode, tasks: Sequence[Task], args: argparse.Namespace) -> int:
    """Ask, unless that was answered before, then delete one after the other."""
    if tasks and "yes" not in args and not _sure(tasks):
        note("Nothing was deleted.")
        return 1
    gone: list[str] = []
    for task in tasks:
        gone += await gen.delete(task.id)
    if "json" in args:
        answer_json({"deleted": gone})
    else:
        several = counted(len(gone), "task") if gone else "nothing"
        answer(f"Deleted {several}{': ' if gone else ''}{', '.join(gone)}.")
    return 0


def _sure(tasks: Sequence[Task]) -> bool:
    """What a person at the terminal says; elsewhere it has to be said with --yes."""
    names = ", ".join(task.id for task in tasks[:20]) + (" …" if len(tasks) > 20 else "")
    talks = sum(task.conversation for task in tasks)
    kinds = [(talks, "conversation"), (len(tasks) - talks, "task")]
    what = " and ".join(counted(number, kind) for number, kind in kinds if number)
    question = f"This permanently deletes {what} with all subagents: {names}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserMistake(f"{question}. Confirm with --yes.")
    note(f"{question}. Delete? [y/N]")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
