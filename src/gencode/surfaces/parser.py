"""Everything that can be typed after `gen`, and nothing of what it does."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from gencode import __version__
from gencode.core.errors import UserMistake, nearest

FORMATS = ("text", "json", "stream-json")

EXAMPLES = """\
examples:
  gen -p "Where is the parser built?"
  git diff | gen -p "Where else is this changed function used?"
  gen -p "Where is the parser, and where are its tests?" --output-format stream-json
  gen -p "And who calls it?" --continue
  gen task run Explore "Find all database-related files" --json
  gen task list --tree
  gen doctor

exit codes: 0 completed, 1 any other ending, 2 a mistake in what was typed or set up, 130 interrupted
"""

TASK_EXAMPLES = """\
examples:
  gen task run Explore "Where is the configuration read?" --max-turns 5
  gen task run Explore "Map the whole repository" --background
  gen task output 9f3a
  gen task events 9f3a --follow
  gen task stop 9f3a --keep
  gen task resume 9f3a "And where is it tested?"
  gen task list --all --json
  gen task replay 9f3a
  gen task export 9f3a1c2e - | gzip > task.jsonl.gz
"""

SESSION_EXAMPLES = """\
examples:
  gen sessions list --all
  gen sessions show 9f3a
  gen sessions prune --older-than 90 --yes
"""

PERMISSION_EXAMPLES = """\
examples:
  gen permissions explain --tool Bash --input "git push"
  gen permissions explain --tool Read --input '{"file_path": ".env"}' --agent Explore --json
  gen permissions check cases.jsonl
"""


VALUED = frozenset(
    (
        *("--output-format", "--agent", "--session", "--model", "--max-turns", "--max-seconds"),
        *("--permission-mode", "--allow", "--deny", "--ask", "--cwd"),
    )
)
"""The options of `gen -p` that are followed by a value."""

PLAIN = frozenset(("--print", "--continue", "--no-offline", "--json", "--verbose", "--version", "--help"))
"""Its options that are not, or need not be."""

_UNKNOWN = re.compile(r"argument COMMAND: invalid choice: (?P<word>.*) \(choose from (?P<known>.*)\)", re.S)


class Parser(argparse.ArgumentParser):
    """A parser that complains in one sentence, raised and not printed."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; a command that is not there gets the nearest names."""
        help_ = f"See: {self.prog} --help"
        if found := _UNKNOWN.match(message):
            known = re.findall(r"[\w-]+", found["known"])
            word = found["word"].strip("'\"")[:80]
            ask = ' To ask something: gen -p "…".' if self.prog == "gen" else ""
            raise UserMistake(f"There is no command {word!r}. {nearest(word, known)}{ask} {help_}")
        raise UserMistake(f"{message[:1].upper()}{message[1:].rstrip('.')}. {help_}")


class Commands(Protocol):
    """Where commands are added."""

    def add_parser(self, name: str, **words: Any) -> argparse.ArgumentParser:
        """A parser for one more command."""
        ...


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Options that were not given are absent, so that settings can decide."""
    parser = Parser(
        prog="gen",
        usage='gen -p "PROMPT" [options]\n       gen COMMAND [options]',
        description="GenCode: a coding assistant whose heart is its subagent system.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("-V", "--version", action="version", version=f"gen {__version__}")
    _add_asking(parser)
    _add_model(parser)
    _add_policy(parser)
    _add_common(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", prog="gen")
    _add_task(commands)
    _add_sessions(commands)
    agents = _add_group(commands, "agents", "the agents that can be sent")
    _add(agents, "list", "agents:show", "every agent with its source, tools and problems")
    _add_permissions(commands)
    _add_trust(commands)
    _add(commands, "models", "models:show", "which model answers, and how names resolve")
    _add(commands, "tools", "tools:show", "every tool with its aliases, effect and source")
    _add(commands, "doctor", "doctor:show", "what is set up and what is missing")
    _add(commands, "migrate", "migrate:run", "bring the database up to date")
    _add(commands, "demo", "demo:run", "a guided tour on the offline model, in a folder of its own")
    return parser


def prompt_first(arguments: Sequence[str]) -> list[str]:
    """The words with the prompt right behind `-p`, so that options may stand between the two.

    An option that does not exist is named here: argparse would take its value for a command.
    """
    words = list(arguments)
    place = next((place for place, word in enumerate(words) if word in ("-p", "--print")), None)
    if place is None:
        return words
    at = place + 1
    if words[at : at + 1] == ["--"] and at + 1 < len(words):
        return [*words[:place], f"--print={words[at + 1]}", *words[at + 2 :]]
    while at < len(words) and _is_option(words[at]):
        _check_option(words[at])
        at += 2 if words[at] in VALUED else 1
    if at < len(words):
        words.insert(place + 1, words.pop(at))
    for word, before in zip(words[place + 2 :], words[place + 1 :], strict=False):
        if before not in VALUED:
            _check_option(word)
    return words


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and " " not in word


def _check_option(word: str) -> None:
    name = word.partition("=")[0]
    if name.startswith("--") and _is_option(name) and name not in VALUED | PLAIN:
        known = nearest(name, VALUED | PLAIN)
        raise UserMistake(f"There is no option {name!r}. {known} See: gen --help")


def _add_asking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("asking")
    group.add_argument(
        "-p",
        "--print",
        dest="prompt",
        nargs="?",
        const="",
        metavar="PROMPT",
        help="ask, print the answer and exit; piped input is added to the prompt",
    )
    group.add_argument("--output-format", choices=FORMATS, help="text (default), json or stream-json")
    group.add_argument("--agent", metavar="NAME", help="let this agent lead the conversation")
    earlier = group.add_mutually_exclusive_group()
    earlier.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="go on with this folder's last conversation",
    )
    earlier.add_argument("--session", metavar="ID", help="go on with this conversation")


def _add_task(commands: Commands) -> None:
    tasks = _add_group(
        commands, "task", "run, list, follow, stop, resume, replay and move tasks", TASK_EXAMPLES
    )
    run = _add(tasks, "run", "tasks:run", "one subagent, without a main conversation")
    run.add_argument("subagent", metavar="AGENT", help="which agent, for example Explore")
    run.add_argument("task", metavar="PROMPT", help="the whole task; - reads it from stdin")
    run.add_argument("--description", metavar="TEXT", help="the task in three to five words")
    run.add_argument("--background", action="store_true", help="print its id; it outlives this terminal")
    run.add_argument("--resume", metavar="ID", help="go on with this task of the agent")
    run.add_argument("--isolation", choices=("process",), help="process: in a process of its own")
    _add_model(run)
    _add_policy(run)
    listing = _add(tasks, "list", "tasks:listed", "tasks of this folder, unfinished or of the last 24 hours")
    listing.add_argument("--all", action="store_true", help="the tasks of all folders and times")
    listing.add_argument("--tree", action="store_true", help="below the conversations that asked for them")
    show = _add(tasks, "show", "tasks:show", "one task with its transcript and the gate's decisions")
    alive = _add_life(tasks)
    replay = _add(tasks, "replay", "journal:replayed", "play a task again from the journal, without a model")
    export = _add(tasks, "export", "journal:exported", "write the journal of a task as JSONL")
    for parser in (show, replay, export, *alive):
        parser.add_argument("id", metavar="ID", help="the task; the beginning of its id is enough")
    export.add_argument("file", metavar="FILE", help="where to write it; - is stdout")
    taking = _add(tasks, "import", "journal:imported", "read a task from a JSONL file")
    taking.add_argument("file", metavar="FILE", help="where to read it; - is stdin")


def _add_life(tasks: Commands) -> list[argparse.ArgumentParser]:
    """What can be done to a task while it runs and afterwards, from any process."""
    output = _add(tasks, "output", "life:output", "the result of a task, once it has ended")
    output.add_argument("--no-block", action="store_true", help="do not wait for the end")
    output.add_argument("--timeout", type=_whole, metavar="MS", help="wait so long (30000, at most 600000)")
    output.add_argument("--page", type=_page, metavar="N", help="one page of a long result, not all of it")
    stop = _add(tasks, "stop", "life:stop", "stop a task and the work it waits for; what it said is kept")
    stop.add_argument("--tree", action="store_true", help="also what it sent to the background")
    stop.add_argument("--keep", action="store_true", help="let it first say in one turn what it has found")
    resume = _add(tasks, "resume", "life:resume", "go on with a task: same agent, folder and permissions")
    resume.add_argument("id", metavar="ID", help="the task; the beginning of its id is enough")
    resume.add_argument("task", metavar="PROMPT", help="what to do now; - reads it from stdin")
    resume.add_argument("--background", action="store_true", help="print its id; it outlives this terminal")
    _add_model(resume)
    _add_policy(resume)
    background = _add(tasks, "background", "life:background", "let the agent that waits for a task go on")
    events = _add(tasks, "events", "life:events", "the facts of a task, one per line")
    events.add_argument("--follow", action="store_true", help="go on until the task has ended")
    events.add_argument("--after", type=_whole, metavar="SEQ", help="only the facts after this number")
    return [output, stop, background, events]


def _add_sessions(commands: Commands) -> None:
    group = _add_group(commands, "sessions", "conversations; nothing else deletes anything", SESSION_EXAMPLES)
    listing = _add(group, "list", "sessions:listed", "the conversations of this folder")
    show = _add(group, "show", "sessions:show", "one conversation with its transcript and its tasks")
    show.add_argument("id", metavar="ID", help="the conversation; the beginning of its id is enough")
    delete = _add(group, "delete", "sessions:deleted", "delete conversations, with all that they asked for")
    delete.add_argument("ids", metavar="ID", nargs="+", help="a conversation, or a task of gen task run")
    prune = _add(group, "prune", "sessions:pruned", "delete what nobody has touched for a while")
    prune.add_argument("--older-than", type=_days, required=True, metavar="DAYS", help="for so many days")
    for parser in (listing, prune):
        parser.add_argument("--all", action="store_true", help="those of all folders")
    for parser in (delete, prune):
        parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_permissions(commands: Commands) -> None:
    says = "what is decided about a call, and why"
    group = _add_group(commands, "permissions", says, PERMISSION_EXAMPLES)
    one = _add(group, "explain", "permissions:explained", "the decision for one call, and what would lift it")
    one.add_argument("--tool", required=True, metavar="T", help="the tool, for example Bash")
    one.add_argument(
        "--input",
        metavar="JSON",
        help="what it would be called with, as JSON; plain text is its command, path or URL",
    )
    one.add_argument("--agent", dest="subagent", metavar="A", help="decide for this agent, sent from here")
    one.add_argument(
        "--background", action="store_true", help="decide for an agent whose questions nobody answers"
    )
    _add_policy(one, "--mode", "--permission-mode")
    check = _add(group, "check", "permissions:checked", "the decision for every case of files of cases")
    check.add_argument("files", nargs="+", metavar="FILE", help="cases as JSON lines; - is stdin")


def _add_trust(commands: Commands) -> None:
    parser = _add(commands, "trust", "trust:run", "look at what a folder brings, and let it count")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder; without it the current one")
    parser.add_argument("--show", action="store_true", help="only look at it")
    parser.add_argument("--yes", action="store_true", help="trust it without being asked")
    parser.add_argument("--revoke", action="store_true", help="trust it no more")
    parser.add_argument("--list", dest="listed", action="store_true", help="the folders that are trusted")


def _add_group(commands: Commands, name: str, says: str, epilog: str = "") -> Commands:
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


def _add(commands: Commands, name: str, body: str, says: str) -> argparse.ArgumentParser:
    """A command whose body is `module:function` in the folder `commands`."""
    parser = commands.add_parser(
        name,
        help=says,
        description=f"{says[:1].upper()}{says[1:]}.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.set_defaults(body=body)
    _add_common(parser)
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model and limits")
    group.add_argument(
        "--model", metavar="M", help="fast, balanced, powerful, PROVIDER/MODEL, offline, scripted:FILE"
    )
    group.add_argument("--no-offline", action="store_true", help="fail rather than use the offline model")
    group.add_argument("--max-turns", type=_turns, metavar="N", help="end after N turns of the model")
    group.add_argument("--max-seconds", type=_seconds, metavar="S", help="end after S seconds")


def _add_policy(parser: argparse.ArgumentParser, *spelled: str) -> None:
    group = parser.add_argument_group("permissions")
    group.add_argument(
        *(spelled or ("--permission-mode",)),
        dest="permission_mode",
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


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("everywhere")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--cwd", metavar="DIR", help="work in this folder instead of the current one")
    group.add_argument("--verbose", action="store_true", help="show every step, and keep more in the log")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _page(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a page; the first is 1")
    return int(text)


def _days(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return value


def _turns(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of turns; at least 1 is needed")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
