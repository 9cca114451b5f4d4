"""Everything that can be typed after `gen`, and nothing of what it does."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn, cast

from gencode import __version__
from gencode.core.errors import UserMistake, nearest
from gencode.interfaces.cli.claude_code_options import SEVERAL, add_agents, add_tool_lists, are_rules
from gencode.interfaces.cli.cron_options import add_cron
from gencode.interfaces.cli.examples import show_examples
from gencode.interfaces.cli.mcp_options import add_mcp
from gencode.interfaces.cli.option_types import (
    Commands,
    add,
    add_common,
    add_group,
    add_model,
    add_policy,
    days,
    port,
    turns,
)
from gencode.interfaces.cli.task_options import add_task
from gencode.interfaces.cli.worker_options import add_migrate, add_worker

FORMATS = ("text", "json", "stream-json")

EXAMPLES = """\
examples:
  gen
  gen -p "Where is the parser built?"
  git diff | gen -p "Where else is this changed function used?"
  gen -p "Where is the parser, and where are its tests?" --output-format stream-json
  gen -p "And who calls it?" --continue
  gen task run Explore "Find all database-related files" --json
  gen task list --tree
  gen doctor

exit codes: 0 completed, 1 any other ending, 2 a mistake in what was typed or set up, 130 interrupted
"""

SESSION_EXAMPLES = """\
examples:
  gen sessions list --all
  gen sessions show 9f3a
  gen sessions prune --older-than 90 --yes
"""

AGENT_EXAMPLES = """\
examples:
  gen agents show Explore
  gen agents lint .claude/agents --json
  gen agents new tester --description "Runs the tests and says what broke." --tools Bash,Read
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
        *("--max-tokens-total", "--max-usd", "--max-spawns"),
        *("--permission-mode", "--allow", "--deny", "--ask", "--cwd"),
        *("--resume", "-r", "--agents", "--append-system-prompt", *SEVERAL),
    )
)
"""The options of `gen -p` that are followed by a value."""

PLAIN = frozenset(
    ("--print", "--plain", "--continue", "--no-offline", "--json", "--verbose", "--version", "--help")
)
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


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Options that were not given are absent, so that settings can decide."""
    parser = Parser(
        prog="gen",
        usage='gen [options]\n       gen -p "PROMPT" [options]\n       gen COMMAND [options]',
        description="GenCode: a coding assistant whose heart is its subagent system.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("-V", "--version", action="version", version=f"gen {__version__}")
    _add_asking(parser)
    add_model(parser)
    add_policy(parser)
    add_tool_lists(parser)
    add_common(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", prog="gen")
    add_task(commands)
    _add_sessions(commands)
    add_cron(commands)
    _add_agents(commands)
    skills = add_group(commands, "skills", "instructions for one kind of work, loaded when needed")
    add(skills, "list", "skills:show", "every skill with its source, agent and problems")
    _add_permissions(commands)
    _add_trust(commands)
    add(commands, "models", "models:show", "which model answers, and how names resolve")
    add(commands, "tools", "tools:show", "every tool with its aliases, effect and source")
    _add_serve(commands)
    _add_acp(commands)
    add_mcp(commands)
    add(commands, "doctor", "doctor:show", "what is set up and what is missing")
    add_worker(commands)
    add_migrate(commands)
    add(commands, "demo", "demo:run", "a guided tour on the offline model, in a folder of its own")
    completions = add(commands, "completions", "completions:run", "a script by which a shell completes gen")
    completions.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
    show_examples(parser)
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
        if words[at] == "--" and at + 1 < len(words):
            return [*words[:place], f"--print={words[at + 1]}", *words[place + 1 : at], *words[at + 2 :]]
        _check_option(words[at])
        at = _behind(words, at)
    if at < len(words):
        words.insert(place + 1, words.pop(at))
    for word, before in zip(words[place + 2 :], words[place + 1 :], strict=False):
        if before not in VALUED:
            _check_option(word)
    return words


def _behind(words: Sequence[str], at: int) -> int:
    """The place behind an option and its values."""
    if words[at] not in VALUED:
        return at + 1
    if words[at] in ("--resume", "-r"):
        return at + 2 if at + 1 < len(words) and not _is_option(words[at + 1]) else at + 1
    end = at + 2
    while words[at] in SEVERAL and end < len(words) and are_rules(words[end]):
        end += 1
    return end


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
    group.add_argument(
        "--plain", action="store_true", help="gen without -p: line by line, for screen readers and pipes"
    )
    earlier = group.add_mutually_exclusive_group()
    earlier.add_argument(
        "-c",
        "--continue",
        dest="go_on",
        action="store_true",
        help="go on with this folder's last conversation",
    )
    earlier.add_argument("--session", metavar="ID", help="go on with this conversation")
    earlier.add_argument(
        "-r", "--resume", dest="session", nargs="?", const="", metavar="ID", help="the same as --session"
    )
    add_agents(group)
    group.add_argument(
        "--append-system-prompt", metavar="TEXT", help="tell whoever leads the conversation this as well"
    )


def _add_sessions(commands: Commands) -> None:
    group = add_group(commands, "sessions", "conversations; nothing else deletes anything", SESSION_EXAMPLES)
    listing = add(group, "list", "sessions:listed", "the conversations of this folder")
    show = add(group, "show", "sessions:show", "one conversation with its transcript and its tasks")
    show.add_argument("id", metavar="ID", help="the conversation; the beginning of its id is enough")
    delete = add(group, "delete", "sessions:deleted", "delete conversations, with all that they asked for")
    delete.add_argument("ids", metavar="ID", nargs="+", help="a conversation, or a task of gen task run")
    prune = add(group, "prune", "sessions:pruned", "delete what nobody has touched for a while")
    prune.add_argument("--older-than", type=days, required=True, metavar="DAYS", help="for so many days")
    for parser in (listing, prune):
        parser.add_argument("--all", action="store_true", help="those of all folders")
    for parser in (delete, prune):
        parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_agents(commands: Commands) -> None:
    group = add_group(commands, "agents", "the agents that can be sent", AGENT_EXAMPLES)
    add(group, "list", "agents:listed", "every agent with its source, tools and problems")
    show = add(group, "show", "agents:shown", "everything about one agent, and what it really gets")
    show.add_argument("name", metavar="NAME", help="the agent, without regard to case and separators")
    lint = add(group, "lint", "agents:linted", "check files of any dialect, and folders of them")
    lint.add_argument(
        "paths", metavar="PATH", nargs="*", help="a file or folder; without it what counts here"
    )
    new = add(group, "new", "agents:made", "write a new agent file; asks for what is not said")
    new.add_argument("name", metavar="NAME", nargs="?", help="what the agent is called")
    new.add_argument("--description", metavar="TEXT", help="when to send it, in a sentence")
    new.add_argument(
        "--tools", metavar="NAMES", help="its tools, with commas between; all when it is not said"
    )
    new.add_argument(
        "--model", dest="its_model", metavar="M", help="its model; its sender's when it is not said"
    )
    new.add_argument(
        "--permission-mode",
        dest="its_mode",
        metavar="MODE",
        help="its mode; its sender's when it is not said",
    )
    new.add_argument("--max-turns", dest="its_turns", type=turns, metavar="N", help="its turn limit")
    new.add_argument("--prompt", dest="instructions", metavar="TEXT", help="what it is told; - reads stdin")
    new.add_argument("--user", action="store_true", help="for all your folders, not for this one")


def _add_permissions(commands: Commands) -> None:
    says = "what is decided about a call, and why"
    group = add_group(commands, "permissions", says, PERMISSION_EXAMPLES)
    one = add(group, "explain", "permissions:explained", "the decision for one call, and what would lift it")
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
    add_policy(one, "--mode", "--permission-mode")
    check = add(group, "check", "permissions:checked", "the decision for every case of files of cases")
    check.add_argument("files", nargs="+", metavar="FILE", help="cases as JSON lines; - is stdin")


def _add_serve(commands: Commands) -> None:
    says = "HTTP API, live events and the web page, on this machine"
    parser = add(commands, "serve", "serve:run", says)
    parser.add_argument(
        "--port", type=port, metavar="N", help="listen there; a free port when it is not said"
    )
    parser.add_argument(
        "--bind", metavar="ADDRESS", help="listen on this address and not on 127.0.0.1; others can reach it"
    )
    parser.add_argument(
        "--allow-host", action="append", metavar="NAME", help="be asked for under this name too; repeatable"
    )
    parser.add_argument(
        "--share",
        action="append",
        choices=("view", "act", "answer"),
        help="print one more token, which may only look, act, or answer questions; repeatable",
    )
    parser.add_argument("--token-file", metavar="FILE", help="keep the token there, for the next start")
    add_model(parser)
    add_policy(parser)


def _add_acp(commands: Commands) -> None:
    says = "an agent for editors (Zed, JetBrains, Neovim), over stdin and stdout"
    parser = add(commands, "acp", "acp:run", says)
    for action in cast("list[argparse.Action]", vars(parser)["_actions"]):
        if "--cwd" in action.option_strings:
            action.help = argparse.SUPPRESS  # the editor says which folder a session is in
    add_model(parser)
    add_policy(parser)


def _add_trust(commands: Commands) -> None:
    parser = add(commands, "trust", "trust:run", "look at what a folder brings, and let it count")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder; without it the current one")
    parser.add_argument("--show", action="store_true", help="only look at it")
    parser.add_argument("--yes", action="store_true", help="trust it without being asked")
    parser.add_argument("--revoke", action="store_true", help="trust it no more")
    parser.add_argument("--list", dest="listed", action="store_true", help="the folders that are trusted")
    parser.add_argument(
        "--server", metavar="NAME", help="approve this MCP server and its tools as they are now, not a folder"
    )
