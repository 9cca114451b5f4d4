"""`gen migrate`: upgrades the database, or copies the one of this machine to Postgres."""

import argparse
import sys
from pathlib import Path

from gencode.app import migrate
from gencode.core.errors import UserMistake
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import print_record
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
    text = f"The database {where} is up to date (version {after})."
    if before != after:
        text = f"Upgraded the database {where} from version {before} to {after}."
        text += f"\nBackup: {backup}" if backup else ""
    record = {"database": where, "before": before, "after": after, "backup": backup and str(backup)}
    print_record(args, record, text)
    return 0


def _url(told: str) -> str:
    url = sys.stdin.readline(LONGEST_URL).strip() if told == "-" else told
    if not url:
        raise UserMistake("Name the URL to copy to, or - to read it from stdin.")
    return url


async def _copy(args: argparse.Namespace, url: str) -> int:
    """Copy everything and look whether it arrived; 1 when something is not there, or differs."""
    from gencode.fleet.worker import copy_to

    if not database().exists():
        raise UserMistake(f"There is no database {database()} to copy.")
    copy = await copy_to(database(), url)
    lines = [
        f"Copied {counted(copy.tasks, 'task')} with {counted(copy.facts, 'event')} to {copy.address} "
        f"({copy.new} new). All were read back and verified."
    ]
    if copy.busy:
        lines.append(f"Running, so not copied: {', '.join(copy.busy)}. Run this again when they have ended.")
    print_record(args, copy, "\n".join((*lines, *copy.problems)))
    return 1 if copy.problems or copy.busy else 0
