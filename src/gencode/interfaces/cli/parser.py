"""The options of `gen`: the parser, the groups of options that many commands share, and their types.

Each command has its options, examples and body in the module of its name, which imports what the body needs.
So only the modules of commands that were typed are imported here.
"""

import argparse
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, Protocol

from gencode import __version__
from gencode.core.budget import allowed, amount_of
from gencode.core.errors import UserMistake, nearest
from gencode.interfaces.cli.claude_code_options import add_agents, add_tool_lists, are_rules, mode

COMMANDS = {
    "task": "run, list, follow, stop, resume, replay and export tasks",
    "sessions": "list, show, rewind and delete conversations",
    "cron": "schedule prompts and tasks, and run them when they are due",
    "agents": "list, show, check and create agents",
    "skills": "list skills: instructions that agents load when they need them",
    "permissions": "show which calls are allowed, and why",
    "trust": "review and trust a folder's settings and agents",
    "models": "show which model answers and what each model name stands for",
    "tools": "list tools with their aliases, effects and sources",
    "serve": "serve the HTTP API, live events and the web page on this machine",
    "acp": "run as an agent for editors (Zed, JetBrains, Neovim) on stdin and stdout",
    "mcp": "offer the agents to other assistants, as an MCP server",
    "doctor": "check the installation and list what is missing",
    "worker": "run queued tasks of a shared database",
    "migrate": "upgrade the database, or copy it to Postgres",
    "demo": "take a guided tour on the offline model, in a temporary folder",
    "completions": "generate shell completions",
}
"""The commands and what they do, in the order of the help."""

TASK_ID = "the task; the beginning of its id is enough"
USUAL_LIMIT = 50
"""So many lines of a list are shown."""

FORMATS = ("text", "json", "stream-json")

EXAMPLES = """\
examples:
  gen
  gen "Explain how requests are retried"
  gen -p "Where is the parser built?"
  git diff | gen -p "Where else is this changed function used?"
  gen -p "Where is the parser, and where are its tests?" --output-format stream-json
  gen -p "And who calls it?" --continue
  gen task run Explore "Find all database-related files" --json
  gen task list --tree
  gen doctor

exit codes: 0 completed, 1 any other status, 2 a usage or setup error, 3 completed but calls were refused for
lack of approval, 130 interrupted
"""

ASKING = ("-p", "--print")
OTHER_NAMES = {"-C": "--cwd"}
"""Options of other programs, and what they are here."""

_UNKNOWN = re.compile(
    r"argument (?P<what>.*): invalid choice: (?P<word>.*) \(choose from (?P<known>.*)\)", re.S
)

Body = Callable[[argparse.Namespace], int | Coroutine[Any, Any, int]]
"""Runs a command and gives its exit code; a coroutine gets an event loop."""


class Commands(Protocol):
    """Where commands are added."""

    def add_parser(self, name: str, **words: Any) -> argparse.ArgumentParser:
        """A parser for one more command."""
        ...


class Parser(argparse.ArgumentParser):
    """A parser that complains in one sentence, raised and not printed."""

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """Refuse unknown arguments in the command that they were typed for: its help is the useful one."""
        found, unknown = super().parse_known_args(*given, **named)
        if unknown:
            self.check_option(unknown[0])
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    @property
    def options(self) -> Mapping[str, argparse.Action]:
        """Every option by each of its names."""
        return self._option_string_actions

    def check_option(self, word: str) -> None:
        """Refuse an option that does not exist; argparse would take its value for a command."""
        name = word.partition("=")[0]
        if not is_option(name) or name in self.options:
            return
        if name.startswith("--"):
            hint = f" {nearest(name, [each for each in self.options if each.startswith('--')])}"
        elif len(name) == 2 and name[1].isalpha():
            hint = f" Did you mean {OTHER_NAMES[name]}?" if name in OTHER_NAMES else ""
        else:
            return
        raise UserMistake(f"There is no option {name!r}.{hint} {self._help_way}")

    @property
    def _help_way(self) -> str:
        return f"See: {self.prog} --help"

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; a command that is not there gets the nearest names."""
        way = self._help_way
        if not (found := _UNKNOWN.match(message)):
            raise UserMistake(f"{message[:1].upper()}{message[1:].rstrip('.')}. {way}")
        known = re.findall(r"[\w-]+", found["known"])
        word = found["word"].strip("'\"")[:80]
        if found["what"] != "COMMAND":
            invalid = f"Argument {found['what']}: invalid choice: {word!r}."
            raise UserMistake(f"{invalid} {nearest(word, known)} {way}")
        ask = ""
        if self.prog == "gen":
            known.append("help")
            ask = ' To ask something: gen "…".'
        raise UserMistake(f"There is no command {word!r}. {nearest(word, known)}{ask} {way}")


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """The command line; without `words` all of it, else the options of the commands among them.

    Options that were not given are absent, so that settings can decide.
    """
    parser = Parser(
        prog="gen",
        usage='gen ["PROMPT"] [options]\n       gen -p "PROMPT" [options]\n       gen COMMAND [options]',
        description="GenCode: a coding assistant built around subagents.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("-V", "--version", action="version", version=f"gen {__version__}")
    # The help lists groups in this order: commands before the many options.
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", prog="gen")
    _add_asking(parser)
    add_model(parser)
    add_policy(parser)
    add_tool_lists(parser)
    add_common(parser)
    for name, does in COMMANDS.items():
        if words is None or name in words:
            import_module(f"gencode.interfaces.cli.{name}").add_command(commands, does)
        else:
            commands.add_parser(name, help=does)
    return parser


def add_group(commands: Commands, name: str, does: str, examples: Sequence[str] = ()) -> Commands:
    """A command that has commands of its own."""
    parser = commands.add_parser(
        name,
        help=does,
        description=_sentence(does),
        epilog=_shown(examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)


def add(
    commands: Commands, name: str, body: Body, does: str, examples: Sequence[str] = (), about: str = ""
) -> argparse.ArgumentParser:
    """A command and its body; `about` is a paragraph of its help above the examples."""
    parser = commands.add_parser(
        name,
        help=does,
        description=_sentence(does),
        epilog="\n".join(filter(None, (about, _shown(examples)))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.set_defaults(body=body)
    add_common(parser)
    return parser


def add_about_task(
    commands: Commands, name: str, body: Body, does: str, *examples: str
) -> argparse.ArgumentParser:
    """A command of `gen task` about one task; each example is what follows the id."""
    shown = [f"gen task {name} 9f3a {each}".rstrip() for each in examples or ("",)]
    parser = add(commands, name, body, does, shown)
    parser.add_argument("id", metavar="ID", help=TASK_ID)
    return parser


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _shown(examples: Sequence[str]) -> str:
    return "\n".join(("examples:", *(f"  {line}" for line in examples))) if examples else ""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What was typed. A question without `-p` is the `opening` of a conversation."""
    words, opening = _spelled_out(arguments), ""
    parser = build_parser(words)
    at = _first_word(parser, words, 0)
    first = words[at] if at < len(words) else ""
    if first in ASKING:
        words = _prompt_first(parser, words, at)
    elif len(first.split()) > 1:
        del words[at]
        asked = [place for place in range(at, len(words)) if words[place] in ASKING]
        if asked:
            words[asked[0]] = f"--print={first}"
        else:
            opening = first
        _check_options(parser, words[at:])
    args = parser.parse_args(words)
    if opening:
        args.opening = opening
    return args


def _spelled_out(arguments: Sequence[str]) -> list[str]:
    """`help` and `version` as the options that they are short for."""
    match list(arguments):
        case ["help", *words]:
            return [*words, "--help"]
        case ["version"]:
            return ["--version"]
        case words:
            return words


def _first_word(parser: Parser, words: Sequence[str], at: int) -> int:
    """The place of `-p` or `--`, or else of the first word behind the options: a command or a question."""
    while at < len(words) and is_option(words[at]) and words[at] not in (*ASKING, "--"):
        parser.check_option(words[at])
        at = _behind(parser, words, at)
    return at


def _prompt_first(parser: Parser, words: list[str], place: int) -> list[str]:
    """The arguments with the prompt moved directly behind `-p`; options may stand between the two."""
    at = _first_word(parser, words, place + 1)
    if words[at : at + 1] == ["--"]:
        del words[at]
        if at < len(words):
            words[place:] = [f"--print={words.pop(at)}", *words[place + 1 :]]
        return words
    if at < len(words):
        words.insert(place + 1, words.pop(at))
    _check_options(parser, words[place + 2 :])
    return words


def _behind(parser: Parser, words: Sequence[str], at: int) -> int:
    """The place behind an option and its values."""
    taken = parser.options[words[at]].nargs if words[at] in parser.options else 0
    at += 1
    if taken != 0 and at < len(words) and not (taken == "?" and is_option(words[at])):
        at += 1
    while taken == "+" and at < len(words) and are_rules(words[at]):
        at += 1
    return at


def is_option(word: str) -> bool:
    """Whether a word is an option, by its form."""
    return word.startswith("-") and word != "-" and " " not in word


def _check_options(parser: Parser, words: Sequence[str]) -> None:
    at = 0
    while at < len(words):
        parser.check_option(words[at])
        at = _behind(parser, words, at)


def _add_asking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("asking")
    group.add_argument(
        "-p",
        "--print",
        dest="prompt",
        nargs="?",
        const="",
        metavar="PROMPT",
        help="print the answer and exit; piped input is added to the prompt",
    )
    group.add_argument("--output-format", choices=FORMATS, help="text (default), json or stream-json")
    add_schema(group)
    group.add_argument("--agent", metavar="NAME", help="the agent of the main conversation")
    group.add_argument(
        "--plain", action="store_true", help="without -p: a conversation line by line, for screen readers"
    )
    earlier = group.add_mutually_exclusive_group()
    earlier.add_argument(
        "-c",
        "--continue",
        dest="go_on",
        action="store_true",
        help="resume this folder's last conversation",
    )
    earlier.add_argument("--session", metavar="ID", help="resume this conversation")
    earlier.add_argument(
        "-r", "--resume", dest="session", nargs="?", const="", metavar="ID", help="the same as --session"
    )
    add_agents(group)
    group.add_argument(
        "--append-system-prompt",
        metavar="TEXT",
        help="add this to the system prompt of the main conversation",
    )


def add_schema(parser: Any) -> None:
    """The schema that a result must match."""
    parser.add_argument(
        "--output-schema",
        metavar="FILE",
        help="a JSON Schema that the result must match; it is the field output of --json",
    )


def add_limit(parser: argparse.ArgumentParser) -> None:
    """How many lines a list has."""
    parser.add_argument(
        "--limit",
        type=whole,
        metavar="N",
        help=f"list the newest N (default {USUAL_LIMIT}; 0 lists all); JSON has all unless this is given",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model, and how much it may spend."""
    group = parser.add_argument_group("model and limits")
    group.add_argument(
        "--model", metavar="M", help="fast, balanced, powerful, PROVIDER/MODEL, offline, scripted:FILE"
    )
    group.add_argument("--no-offline", action="store_true", help="fail instead of using the offline model")
    group.add_argument("--max-turns", type=turns, metavar="N", help="stop after N turns of the model")
    group.add_argument("--max-seconds", type=seconds, metavar="S", help="stop after S seconds")
    group.add_argument(
        "--max-tokens-total",
        type=amount("tokens"),
        metavar="N",
        help="spend at most N tokens, including all subagents",
    )
    group.add_argument(
        "--max-usd", type=amount("usd"), metavar="X", help="spend at most X dollars, including all subagents"
    )
    group.add_argument("--max-spawns", type=amount("spawns"), metavar="N", help="start at most N subagents")


def add_policy(parser: argparse.ArgumentParser, *spelled: str) -> None:
    """Which calls are allowed, refused or need approval."""
    group = parser.add_argument_group("permissions")
    group.add_argument(
        *(spelled or ("--permission-mode",)),
        dest="permission_mode",
        type=mode,
        metavar="MODE",
        help="plan (read only), default, acceptEdits, unattended, or dontAsk (full autonomy)",
    )
    for action, says in (("allow", "allow"), ("deny", "refuse"), ("ask", "require approval for")):
        group.add_argument(
            f"--{action}",
            action="append",
            metavar="RULE",
            help=f'{says} calls that match, for example "Read(docs/**)"; may be repeated',
        )


def add_common(parser: argparse.ArgumentParser) -> None:
    """What every command takes."""
    group = parser.add_argument_group("general")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--cwd", metavar="DIR", help="work in this folder instead of the current one")
    group.add_argument("--verbose", action="store_true", help="show every step and write a more detailed log")


def whole(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def port(text: str) -> int:
    """The number of a port; 0 is any that is free."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number, from 0 to 65535")
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
    """The type of an amount of one kind of budget."""

    def read(text: str) -> float:
        found = amount_of(kind, text)
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not {allowed(kind)}")
        return found

    return read


turns, seconds = amount("turns"), amount("seconds")
