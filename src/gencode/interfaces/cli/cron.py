"""`gen cron list|add|remove|run`: scheduled jobs, and the process that runs them when they are due."""

import argparse
import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.text import visible
from gencode.interfaces.chat.schedule_runner import scheduler_for
from gencode.interfaces.cli.command_input import text_or_input
from gencode.interfaces.cli.open_session import flags, opened
from gencode.interfaces.cli.parser import Commands, add, add_group, add_policy
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import note, print_record, table
from gencode.schedule.scheduled_jobs import JobRequest, ScheduledJob

EXAMPLES = (
    'gen cron add "0 9 * * 1-5" "Which tests failed last night, and why?" --to file:mornings',
    'gen cron add "every 30m" "Look for new warnings in the log" --agent Explore',
    "gen cron list --all",
    "gen cron remove 9f3a",
    "gen cron run",
)


def add_command(commands: Commands, does: str) -> None:
    """`gen cron …`."""
    group = add_group(commands, "cron", does, EXAMPLES)
    listing = add(
        group,
        "list",
        listed,
        "list the jobs of this folder and their last results",
        ("gen cron list", "gen cron list --all --json"),
    )
    listing.add_argument("--all", action="store_true", help="in all folders")
    plan = add(group, "add", added, "schedule a prompt, or a task of an agent", EXAMPLES[:1])
    plan.add_argument(
        "schedule", metavar="SCHEDULE", help='"0 9 * * 1-5", "@daily", "every 10m", "in 2h" or a time'
    )
    plan.add_argument("planned", metavar="PROMPT", help="what to do then; - reads it from stdin")
    plan.add_argument("--agent", dest="subagent", metavar="NAME", help="run it as a task of this agent")
    plan.add_argument(
        "--session", dest="conversation", metavar="ID", help="in this conversation (default: a new one)"
    )
    plan.add_argument("--to", metavar="CHANNEL:CHAT", help="also send the result there")
    plan.add_argument("--zone", metavar="ZONE", help="the time zone (default: yours)")
    plan.add_argument("--label", metavar="TEXT", help="a short name for lists")
    plan.add_argument("--model", metavar="M", help="the model (default: as the settings say at that time)")
    add_policy(plan)
    remove = add(group, "remove", removed, "remove jobs", EXAMPLES[3:4])
    remove.add_argument("ids", metavar="ID", nargs="+", help="a job; the beginning of its id is enough")
    running = add(
        group,
        "run",
        run,
        "run jobs here when they are due, until Ctrl-C",
        ("gen cron run", "gen cron run --permission-mode plan"),
    )
    add_policy(running)


async def listed(args: argparse.Namespace) -> int:
    """What is planned, as a table or JSON."""
    async with opened(args) as gen:
        found = await gen.schedule.listed(everywhere="all" in args)
        waiting = await gen.outbox.waiting()
    where = "" if "all" in args else " in this folder (--all lists all folders)"
    head = ("ID", "SCHEDULE", "NEXT", "RUNS", "MISSED", "LAST", "WHAT")
    text = table(head, [_row(each) for each in found]) if found else f"There are no jobs{where}."
    print_record(args, {"jobs": [_object(each) for each in found]}, text)
    if waiting and "json" not in args:
        note(f"{counted(len(waiting), 'undelivered message')}; gen cron run tries again to deliver.")
    return 0


def added(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Plan something, and say when it runs next."""
    return _added(args, text_or_input(args.planned, "write the prompt after the schedule"))


async def _added(args: argparse.Namespace, prompt: str) -> int:
    async with opened(args) as gen:
        plan = JobRequest(
            when=args.schedule,
            prompt=prompt,
            zone=getattr(args, "zone", ""),
            agent=getattr(args, "subagent", ""),
            task="subagent" in args,
            session=await _session(gen, args),
            label=getattr(args, "label", ""),
            to=getattr(args, "to", ""),
        )
        if "model" in args:
            gen.models.resolve(args.model)
        made = await gen.schedule.add(plan)
        workers = " or a gen worker for this folder" if gen.settings.database_url else ""
    text = (
        f"Job {made.id} is scheduled ({made.when}); next run: {made.next_told}. "
        f"Keep gen cron run{workers} running then."
    )
    print_record(args, _object(made), text)
    return 0


async def _session(gen: GenCode, args: argparse.Namespace) -> str:
    if "conversation" not in args:
        return ""
    found = await gen.find(args.conversation, conversation=True)
    if not found.conversation:
        raise UserMistake(f"{found.id} is a task of {found.agent}, not a conversation.")
    return found.id


async def removed(args: argparse.Namespace) -> int:
    """Remove jobs; nothing when one of them is not there."""
    async with opened(args) as gen:
        calendar = gen.schedule
        found = {each.id: each for each in [await calendar.find(name) for name in args.ids]}
        for name in found:
            await calendar.remove(name)
    print_record(args, {"removed": list(found)}, f"Removed {', '.join(found)}.")
    return 0


async def run(args: argparse.Namespace) -> int:
    """Run due jobs until interrupted."""
    loop, code = asyncio.get_running_loop(), 0
    async with opened(args) as gen:
        work = asyncio.create_task(scheduler_for(gen, _tell, flags(args)).run())

        def end(number: signal.Signals) -> None:
            nonlocal code
            code = 128 + number
            work.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
        note("Running jobs of all folders when they are due; Ctrl-C stops.")
        await asyncio.wait([work])
    if not work.cancelled() and (trouble := work.exception()):
        raise trouble
    return code


def _tell(text: str) -> None:
    note(visible(text))


def _row(job: ScheduledJob) -> list[str]:
    what = f"{job.agent}: {job.title}" if job.task else job.title
    last = "running" if job.owner else job.last_status
    return [job.id, f"{job.when} {job.zone}", job.next_told, str(job.runs), str(job.missed), last, what]


def _object(job: ScheduledJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "schedule": job.when,
        "zone": job.zone,
        "next": job.due,
        "prompt": job.prompt,
        "label": job.label,
        "agent": job.agent or None,
        "task": job.task,
        "sessionId": job.session or None,
        "to": job.to or None,
        "cwd": job.cwd,
        "model": job.model or None,
        "mode": job.policy.mode,
        "createdAt": job.created_at,
        "running": bool(job.owner),
        "runs": job.runs,
        "missed": job.missed,
        "lastTask": job.last_task or None,
        "lastStatus": job.last_status or None,
    }
