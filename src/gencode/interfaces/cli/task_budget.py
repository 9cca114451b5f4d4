"""`gen task budget`: what a task may spend, and another budget for one that is at rest (surfaces)."""

import argparse

import msgspec

from gencode.core.text import visible_line
from gencode.interfaces.chat.task_controls import bounded, bounds_page
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json
from gencode.tasks.task_queries import spent_by


def budget(args: argparse.Namespace) -> int:
    """Set the budget of a task if one is named, and say what it may spend."""
    return run_to_end(_budget(args))


async def _budget(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        found = await gen.find(args.id)
        now, words = await gen.work.current_budget(found), getattr(args, "amounts", [])
        if words:
            now = await gen.set_budget(found.id, bounded(now, words))
        spent = await spent_by(gen.store, found.id)
    if "json" in args:
        values = {"budget": now, "spent": spent}
        answer_json({"agentId": found.id, "agent": found.agent, **msgspec.to_builtins(values)})
    else:
        named = f"Task {found.id} of {visible_line(found.agent)}"
        answer(f"{named}, with everything below it:\n{bounds_page(now, spent)}")
    return 0
