"""`gen task send | interrupt | fork`: a word to a task, a cut, and a copy that goes another way."""

import argparse
from functools import partial
from itertools import chain

import msgspec

from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import all_named
from gencode.interfaces.chat.task_controls import INTERRUPTED, bounded, with_ids
from gencode.interfaces.cli.foreground_run import follow, painter_for
from gencode.interfaces.cli.open_session import check, opened
from gencode.interfaces.cli.piped_input import whole_input
from gencode.interfaces.cli.queued_tasks import awaited, handing_over
from gencode.interfaces.cli.schema_file import schema
from gencode.interfaces.cli.task_life import (
    announce,
    in_clone,
    leaving,
    move,
    tell_begun,
    tell_outcome,
    with_news,
)
from gencode.interfaces.cli.terminal_questions import asker_for
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, note
from gencode.journal.dispatch import SharedJournal
from gencode.journal.store import Store
from gencode.tasks.fork import Fork
from gencode.tasks.service import MessageKept


def send(args: argparse.Namespace) -> int:
    """Say something to a task, and say what came of that."""
    typed: str = args.text
    text = whole_input("write what to say after the id") if typed == "-" else typed
    return run_to_end(_send(args, text))


async def _send(args: argparse.Namespace, text: str) -> int:
    async with opened(args) as gen:
        found = await gen.watch.task((await gen.find(args.id)).id)
        ended = found.status.ended and not found.conversation
        does = f"has ended as {found.status}" if ended else f"is {found.status}"
        note(f"This is for task {found.id} of {visible_line(found.agent)}, which {does}.")
        kept, behind = "", await _behind(gen.store, found)
        try:
            outcome, woken = await handing_over(gen, gen.send(found.id, text))
        except MessageKept as refused:
            outcome, woken, kept = await gen.get(found.id), False, str(refused)
    if "json" in args:
        answer_json({**msgspec.to_builtins(outcome), "woken": woken})
    if woken and behind:
        note(f"Mind that {behind}.")
    if kept:
        note(f"{kept} It hears it when it goes on: gen task resume {outcome.agent_id}")
        return 1
    if "json" in args:
        return 0
    if woken:
        answer(f"{_named(outcome)} had ended and goes on with it: gen task output {outcome.agent_id}")
    elif outcome.status.ended:
        answer(f"{_named(outcome)} hears it when it goes on: gen -p --session {outcome.agent_id}")
    else:
        answer(f"{_named(outcome)} hears it before its next reply.")
    return 0


async def _behind(store: Store, task: Task) -> str:
    """What a person should know of how a task would begin when it is woken here."""
    if not isinstance(store, SharedJournal):
        return ""
    from gencode.workspaces.transfer.change_report import begins_behind_of

    return await begins_behind_of(store.parcels, task)


def interrupt(args: argparse.Namespace) -> int:
    """Cut what a task does at this moment, and say what that hit."""
    return run_to_end(_interrupt(args))


async def _interrupt(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        found = await gen.find(args.id)
        await announce(gen, found.id, "interrupt", "interrupts")
        message: str = getattr(args, "message", "")
        struck = await gen.verbs.interrupt(found.id, message, why=INTERRUPTED)
        waits = message in [letter.text for letter in await gen.store.waiting(found.id)]
    if "json" in args:
        answer_json(with_ids(struck, "interrupted"))
    elif not struck.hit:
        ended = f"had already ended as {struck.status}" if struck.status.ended else "waits for its turn"
        answer(f"{_named(struck)} {ended}; nothing was interrupted.")
    else:
        after = "its turn is over" if found.conversation else "it goes on from there"
        waited = all_named(struck.hit[1:])
        also = f" What it waited for was stopped: {waited}." if waited else ""
        answer(f"{_named(struck)} was interrupted; {after}.{also}")
    if waits and struck.status.ended:
        way = f"gen -p --session {found.id}" if found.conversation else f"gen task resume {found.id}"
        note(f"What was said to it is kept; it hears it when it goes on: {way}")
    elif waits and not struck.hit:
        note("It hears what was said to it when it is its turn.")
    elif message and found.status.ended:
        note(f"Nothing was said to it; to do so: gen task send {found.id}")
    return 0


def fork(args: argparse.Namespace) -> int:
    """Begin a copy of a task and print what it says."""
    typed: str = args.task
    prompt = whole_input("write what to do after the id") if typed == "-" else typed
    return run_to_end(_fork(args, prompt))


async def _fork(args: argparse.Namespace, prompt: str) -> int:
    output = "json" if "json" in args else "text"
    painter = painter_for(output, verbose="verbose" in args)
    request = TaskRequest(
        agent="",
        prompt=prompt,
        description=getattr(args, "description", ""),
        model=getattr(args, "model", ""),
        max_turns=getattr(args, "max_turns", None),
        output_schema=schema(args),
        isolation=getattr(args, "isolation", ""),
        here="cwd" in args,
    )
    source = await move(args, args.id)
    amounts: list[list[str]] = getattr(args, "budget", [])
    budget = bounded(source.terms.budget, [*chain.from_iterable(amounts)])
    async with opened(args, without=("max_turns",), asker=asker_for(output, painter)) as gen:
        told = check(gen, args) if "no_offline" in args else ""
        point = Fork(getattr(args, "at", None), budget)
        if "background" in args:
            task, begins = await handing_over(gen, gen.work.fork_detached(args.id, point, request))
            outcome = await gen.get(task)
            awaits = "" if output == "json" else await awaited(gen, outcome)
            told = "\n".join(filter(None, (told, begins)))
            return tell_begun(outcome, told, awaits, as_json=output == "json")
        told = "\n".join(filter(None, (told, in_clone(gen, source))))
        start = partial(with_news, partial(gen.work.fork, args.id, point, request))
        outcome, code = await follow(gen, start, painter, told, leaving(gen))
        servers = gen.servers.reports()
    return tell_outcome(outcome, code, servers, as_json=output == "json")


def _named(outcome: Outcome) -> str:
    return f"Task {outcome.agent_id} of {outcome.agent}"
