"""What the parts of the command line are made of: nouns, verbs, options that many share, and numbers."""

import argparse
from collections.abc import Callable
from typing import Any, Protocol

from gencode.core.budget import allowed, amount_of
from gencode.interfaces.cli.claude_code_options import mode


class Commands(Protocol):
    """Where commands are added."""

    def add_parser(self, name: str, **words: Any) -> argparse.ArgumentParser:
        """A parser for one more command."""
        ...


def add_group(commands: Commands, name: str, says: str, epilog: str = "") -> Commands:
    """A noun that needs a verb."""
    parser = commands.add_parser(
        name,
        help=says,
        description=f"{name}: {says}",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)


def add(commands: Commands, name: str, body: str, says: str) -> argparse.ArgumentParser:
    """A command whose body is `module:function` in the folder `commands`."""
    parser = commands.add_parser(
        name,
        help=says,
        description=f"{says[:1].upper()}{says[1:]}.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.set_defaults(body=body)
    add_common(parser)
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """Who answers, and how much that may cost."""
    group = parser.add_argument_group("model and limits")
    group.add_argument(
        "--model", metavar="M", help="fast, balanced, powerful, PROVIDER/MODEL, offline, scripted:FILE"
    )
    group.add_argument("--no-offline", action="store_true", help="fail rather than use the offline model")
    group.add_argument("--max-turns", type=turns, metavar="N", help="end after N turns of the model")
    group.add_argument("--max-seconds", type=seconds, metavar="S", help="end after S seconds")
    group.add_argument(
        "--max-tokens-total",
        type=amount("tokens"),
        metavar="N",
        help="spend at most N tokens, with all agents together",
    )
    group.add_argument(
        "--max-usd", type=amount("usd"), metavar="X", help="spend at most X dollars, with all agents together"
    )
    group.add_argument(
        "--max-spawns", type=amount("spawns"), metavar="N", help="send at most N agents in all"
    )


def add_policy(parser: argparse.ArgumentParser, *spelled: str) -> None:
    """What may be done without asking."""
    group = parser.add_argument_group("permissions")
    group.add_argument(
        *(spelled or ("--permission-mode",)),
        dest="permission_mode",
        type=mode,
        metavar="MODE",
        help="plan (read only), default, acceptEdits, unattended, or dontAsk (full autonomy)",
    )
    for action, says in (("allow", "let through"), ("deny", "refuse"), ("ask", "ask about")):
        group.add_argument(
            f"--{action}",
            action="append",
            metavar="RULE",
            help=f'{says} the calls a rule names, such as "Read(docs/**)"; may be repeated',
        )


def add_common(parser: argparse.ArgumentParser) -> None:
    """What every command takes."""
    group = parser.add_argument_group("everywhere")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--cwd", metavar="DIR", help="work in this folder instead of the current one")
    group.add_argument("--verbose", action="store_true", help="show every step, and keep more in the log")


def whole(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def page(text: str) -> int:
    """The number of a page."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a page; the first is 1")
    return int(text)


def port(text: str) -> int:
    """The number of a port; 0 is any that is free."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a port, from 0 to 65535")
    return int(text)


def days(text: str) -> float:
    """A number of days."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return value


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def amount(kind: str) -> Callable[[str], float]:
    """What reads so much of one kind of a budget."""

    def read(text: str) -> float:
        found = amount_of(kind, text)
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not {allowed(kind)}")
        return found

    return read


turns, seconds = amount("turns"), amount("seconds")
