"""`gen migrate`: bring the database up to date, or copy the one of this machine into a shared one."""

import argparse
import sys
from pathlib import Path

from gencode.app import migrate
from gencode.core.errors import UserMistake
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json
from gencode.places import database
from gencode.settings import load

LONGEST_URL = 4_096


def add_command(commands: Commands, does: str) -> None:
    """`gen migrate`."""
    parser = add(commands, "migrate", run, does, ("gen migrate",))
    parser.add_argument(
        "--to",
        metavar="URL",
        help="copy the database of this machine to a Postgres database; - reads the URL from stdin",
    )


def run(args: argparse.Namespace) -> int:
    """Migrate, and say from which version to which."""
    if "to" in args:
        return run_to_end(_copy(args, _url(args.to)))
    told = load(Path(getattr(args, "cwd", ".")).absolute())
    if told.database_url:
        from gencode.fleet.worker import migrate_shared

        where, before, after = run_to_end(migrate_shared(told.database_url))
        backup = None
    else:
        where = str(database())
        before, after, backup = migrate(database())
    if "json" in args:
        answer_json({"database": where, "before": before, "after": after, "backup": backup and str(backup)})
    elif before == after:
        answer(f"The database {where} is up to date (version {after}).")
    else:
        answer(f"The database {where} went from version {before} to version {after}.")
        if backup:
            answer(f"A copy from before is {backup}.")
    return 0


def _url(told: str) -> str:
    url = sys.stdin.readline(LONGEST_URL).strip() if told == "-" else told
    if not url:
        raise UserMistake("There is no address to copy to; name one, or - and give it on stdin.")
    return url


async def _copy(args: argparse.Namespace, url: str) -> int:
    """Copy everything and look whether it arrived; 1 when something is not there, or differs."""
    from gencode.fleet.worker import copy_to

    if not database().exists():
        raise UserMistake(f"There is no database {database()} on this machine to copy.")
    copy = await copy_to(database(), url)
    if "json" in args:
        answer_json(copy)
    else:
        answer(
            f"{copy.tasks} tasks with {copy.facts} facts are in {copy.address}, {copy.new} of them new; each "
            "was read back and folds to the same task."
        )
        if copy.busy:
            answer(
                f"Being worked on, and not copied: {', '.join(copy.busy)}. Run this again when they ended."
            )
        for problem in copy.problems:
            answer(problem)
    return 1 if copy.problems or copy.busy else 0
