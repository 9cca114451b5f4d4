"""`gen demo`: a guided tour on the offline model, in a small project of its own."""

import argparse
import sys
import tempfile
from pathlib import Path

from gencode.app import GenCode, forgetful
from gencode.core.ids import moment
from gencode.core.outcome import Outcome
from gencode.core.task import replay
from gencode.interfaces.cli.foreground_run import follow, renderer_for, tell_ending
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.cli.terminal_questions import somebody_is_there
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import seconds
from gencode.interfaces.render.plain_text import answer, answer_json, table

QUESTION = "Where are passwords checked, and where are invoices sent?"

PROJECT = {
    "README.md": "# Corner shop\n\nA tiny web shop: accounts, a cart, invoices by mail.\n",
    "shop/accounts.py": '''"""Accounts: sign-up and sign-in."""

import hashlib
import hmac


class WrongPassword(Exception):
    """The password does not belong to the account."""


def check_password(stored: bytes, salt: bytes, password: str) -> None:
    """Check a password against the stored hash; WrongPassword if it does not fit."""
    digest = hashlib.scrypt(password.encode(), salt=salt, n=16384, r=8, p=1)
    if not hmac.compare_digest(digest, stored):
        raise WrongPassword("the password is wrong")
''',
    "shop/invoices.py": '''"""Invoices: written when an order is paid, sent by mail."""

from shop.mail import Mailbox


def send_invoice(mailbox: Mailbox, address: str, order: int, cents: int) -> None:
    """Send the invoice of an order to the customer."""
    total = f"{cents / 100:.2f}"
    mailbox.send(address, f"Invoice for order {order}", f"Please find your invoice over {total} below.")
''',
    "shop/mail.py": '''"""Mail: the one way out of the shop."""

from typing import Protocol


class Mailbox(Protocol):
    """Anything that can send a message."""

    def send(self, address: str, subject: str, body: str) -> None: ...
''',
    "shop/cart.py": '''"""The cart: what a customer is about to buy."""


def total(prices: dict[str, int], amounts: dict[str, int]) -> int:
    """The sum of the cart in cents."""
    return sum(prices[name] * amount for name, amount in amounts.items())
''',
}

INTRODUCTION = f"""\
1. A question with two parts, about a small shop. The main agent starts one Explore agent for
   each. They run in parallel, each in its own context, and only their answers come back.

> {QUESTION}
"""

REPLAY = """
3. Replaying the {facts} events without a model {told}.
   gen task replay ID does the same with your own tasks.

Try these in your own project:
  gen -p "Where are errors logged, and where is the configuration read?"
  gen task run Explore "Find everything about sessions"
  gen task list --tree
  gen agents list
  gen doctor"""


def add_command(commands: Commands, does: str) -> None:
    """`gen demo`."""
    add(commands, "demo", run, does, ("gen demo",))


def run(args: argparse.Namespace) -> int:
    """Take the tour. It leaves nothing behind: the project and the journal live only as long as it does."""
    with tempfile.TemporaryDirectory(prefix="gen-demo-") as folder:
        _write_project(Path(folder))
        return run_to_end(_tour(Path(folder), as_json="json" in args, verbose="verbose" in args))


def _write_project(folder: Path) -> None:
    for name, text in PROJECT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


async def _tour(folder: Path, *, as_json: bool, verbose: bool) -> int:
    async with GenCode.open(folder, model="offline", store=forgetful()) as gen:
        if not as_json:
            answer(INTRODUCTION)
            _wait("Press Enter to ask it.")
        renderer = renderer_for("json" if as_json else "text", verbose=verbose, kept=False)
        outcome, code = await follow(gen, lambda: gen.start_turn(QUESTION), renderer)
        tasks = await gen.tasks(parent=outcome.agent_id)
        journals = [await gen.history.events(each.agent_id) for each in (outcome, *tasks)]
        states = [await gen.history.task(each.agent_id) for each in (outcome, *tasks)]
        same = [replay(journal) for journal in journals] == states
        facts = sum(len(journal) for journal in journals)
        if as_json:
            answer_json(
                {"question": QUESTION, "answer": outcome, "tasks": tasks, "facts": facts, "same": same}
            )
        else:
            answer(outcome.result)
            tell_ending(outcome)
            _wait("That was the answer. Press Enter to see what was written down.")
            answer(_journal(tasks))
            _wait("Press Enter for the last part.")
            told = (
                "matches the stored state" if same else "does NOT match the stored state (please report it)"
            )
            answer(REPLAY.format(facts=facts, told=told))
        return code


def _wait(cue: str) -> None:
    """Wait for Enter; not at all without a terminal."""
    if somebody_is_there():
        print(f"\n{cue} ", end="", file=sys.stderr, flush=True)
        sys.stdin.readline()


def _journal(tasks: list[Outcome]) -> str:
    rows = [
        (each.agent_id, each.agent, each.status, str(each.turns), _took(each), _title(each)) for each in tasks
    ]
    return f"""
2. Every step is an event in the journal (here in memory; yours is in ~/.gen/gencode.db):

{table(("ID", "AGENT", "STATUS", "TURNS", "TIME", "TASK"), rows)}
{_overlap(tasks)}"""


def _title(task: Outcome) -> str:
    """A task in a few words."""
    return task.description or task.prompt


def _took(task: Outcome) -> str:
    return "" if task.duration_ms is None else seconds(task.duration_ms / 1000)


def _overlap(tasks: list[Outcome]) -> str:
    starts = [moment(task.started_at) for task in tasks if task.started_at]
    ends = [moment(task.ended_at) for task in tasks if task.ended_at]
    if len(starts) < 2 or len(ends) != len(starts):
        return ""
    shared = (min(ends) - max(starts)).total_seconds()
    return f"\n   They ran in parallel for {shared * 1000:.0f} ms.\n" if shared > 0 else ""
