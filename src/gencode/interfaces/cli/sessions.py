"""`gen sessions list|show|rewind|fork|delete|prune`: conversations; no other command deletes anything."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.outcome import Outcome, refusals
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import USUAL_LIMIT, Commands, add, add_group, add_limit, days
from gencode.interfaces.render.number_format import counted, local_time, local_zone, turns
from gencode.interfaces.render.plain_text import answer, answer_json, newest, note, print_record, table
from gencode.interfaces.render.rewind_text import point_text, preview_lines, result_lines
from gencode.interfaces.render.transcript import transcript_text
from gencode.journal.store import TaskQuery

if TYPE_CHECKING:
    from gencode.tasks.rewind import RewindPoint

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
    add_limit(listing)
    showing = add(
        group, "show", show, "show a conversation with its transcript and tasks", ("gen sessions show 9f3a",)
    )
    showing.add_argument("id", metavar="ID", help="the conversation; the beginning of its id is enough")
    rewind = add(
        group,
        "rewind",
        rewound,
        "take a conversation and its file changes back to an earlier prompt",
        (
            "gen sessions rewind 9f3a",
            "gen sessions rewind 9f3a --to 42",
            "gen sessions rewind 9f3a --to 42 --yes",
        ),
    )
    rewind.add_argument("id", metavar="ID", help="the conversation; the beginning of its id is enough")
    rewind.add_argument(
        "--to", type=int, metavar="N", help="before the prompt of this number; without it prompts are listed"
    )
    rewind.add_argument(
        "--only", choices=("conversation", "files"), help="take only this back (default: both)"
    )
    rewind.add_argument(
        "--overwrite", action="store_true", help="also restore files that you or others changed since"
    )
    fork = add(
        group,
        "fork",
        forked,
        "start a new conversation with all that this one said; the original stays as it is",
        ("gen sessions fork 9f3a", "gen sessions fork 9f3a --at 12"),
    )
    fork.add_argument("id", metavar="ID", help="the conversation; the beginning of its id is enough")
    fork.add_argument(
        "--at", type=int, metavar="N", help="only up to its event N, as gen task show --json numbers them"
    )
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
    for parser in (rewind, delete, prune):
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


async def listed(args: argparse.Namespace) -> int:
    """The conversations, as a table or JSON."""
    async with opened(args) as gen:
        cwd = None if "all" in args else str(gen.workspace.cwd)
        found = await gen.history.tasks(TaskQuery(cwd=cwd, conversations=True))
        sessions = [await gen.outcome_of(task) for task in found]
        by_use = sorted(zip(found, sessions, strict=True), key=lambda each: each[0].touched_at, reverse=True)
    if "json" in args:
        answer_json({"sessions": sessions[-args.limit :] if "limit" in args else sessions})
    elif not sessions:
        where = "" if "all" in args else " in this folder (--all lists all folders)"
        answer(f"There are no conversations{where}.")
    else:
        rows = [_row(session, local_time(task.touched_at)) for task, session in by_use]
        used = f"LAST USED ({local_zone()})"
        head = ("ID", "STATUS", "TURNS", "AGENTS", used, "FIRST PROMPT")
        answer(
            table(head, newest(rows, getattr(args, "limit", USUAL_LIMIT)), spare=("AGENTS", "TURNS", used))
        )
    return 0


def _row(session: Outcome, at: str) -> list[str]:
    sent = str(len(session.evidence.children))
    return [session.agent_id, session.status, str(session.turns), sent, at, session.prompt[:200]]


async def show(args: argparse.Namespace) -> int:
    """One conversation with all its messages, and the tasks it started."""
    async with opened(args) as gen:
        session = await gen.history.with_transcript(await gen.find(args.id, conversation=True))
        tasks = await gen.tasks(parent=session.agent_id)
        head = f"{session.agent} {session.agent_id}: {session.status} after {turns(session.turns)}"
        lines = [
            head,
            f"  folder   {session.cwd}",
            f"  created  {local_time(session.created_at)} {local_zone()}",
        ]
        lines += [f"  sent     {task.agent} {task.agent_id}: {task.status}" for task in tasks]
        lines += [f"  refused  {visible_line(each)}" for each in refusals(session.evidence)]
        lines += [f"  warning  {visible_line(warning)}" for warning in session.evidence.warnings]
        lines += ["", await transcript_text(gen, session.agent_id)]
    record = {**msgspec.to_builtins(session), "tasks": tasks}
    print_record(args, record, "\n".join(lines))
    return 0


async def rewound(args: argparse.Namespace) -> int:
    """Take a conversation, the files that its agents changed, or both back to an earlier prompt."""
    async with opened(args) as gen:
        session = (await gen.find(args.id, conversation=True)).id
        if "to" not in args:
            points = await gen.rewind_points(session)
            print_record(args, {"points": points}, _points_table(points))
            return 0
        folder = str(gen.workspace.cwd)
        preview = await gen.preview_rewind(session, args.to)
        if "yes" not in args:
            print_record(args, preview, "\n".join(preview_lines(preview, folder)))
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                note("Nothing was changed. Confirm with --yes.")
                return 0
            note("Rewind? [y/N]")
            if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
                note("Nothing was changed.")
                return 1
        only = getattr(args, "only", "")
        done = await gen.rewind(
            session,
            args.to,
            conversation=only != "files",
            files=only != "conversation",
            overwrite="overwrite" in args,
        )
        print_record(args, done, "\n".join(result_lines(done, folder)))
        if any(each.state == "changed" for each in done.left) and "overwrite" not in args:
            note("To restore files that were changed since, too, add --overwrite.")
        return 1 if done.problems else 0


def _points_table(points: "Sequence[RewindPoint]") -> str:
    if not points:
        return "The conversation has no prompts."
    rows = [[str(each.to), local_time(each.at), str(each.files), point_text(each)] for each in points]
    return table(("N", f"AT ({local_zone()})", "FILES CHANGED", "BACK TO BEFORE"), rows)


async def forked(args: argparse.Namespace) -> int:
    """A new conversation that begins like another one."""
    async with opened(args) as gen:
        fork = await gen.fork_session(args.id, at=getattr(args, "at", None))
    told = f"Forked {fork.forked_from}. Continue the new conversation with: gen --session {fork.agent_id}"
    print_record(args, fork, told)
    return 0


async def deleted(args: argparse.Namespace) -> int:
    """Delete conversations, with everything below them."""
    async with opened(args) as gen:
        found = {task.id: task for task in [await gen.find(name, conversation=True) for name in args.ids]}
        return await _delete(gen, list(found.values()), args)


async def pruned(args: argparse.Namespace) -> int:
    """Delete conversations without activity for so many days."""
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
    several = f"{counted(len(gone), 'task')}: {', '.join(gone)}" if gone else "nothing"
    print_record(args, {"deleted": gone}, f"Deleted {several}.")
    return 0


def _sure(tasks: Sequence[Task]) -> bool:
    """The confirmation of a person at the terminal; without one --yes is needed."""
    names = ", ".join(task.id for task in tasks[:20]) + (" …" if len(tasks) > 20 else "")
    talks = sum(task.conversation for task in tasks)
    kinds = [(talks, "conversation"), (len(tasks) - talks, "task")]
    what = " and ".join(counted(number, kind) for number, kind in kinds if number)
    question = f"This permanently deletes {what} with all subagents: {names}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserMistake(f"{question}. Confirm with --yes.")
    note(f"{question}. Delete? [y/N]")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
