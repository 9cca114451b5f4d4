"""Claude Code's command-line options: its spellings, lists of tools, modes and inline agents.

They mean what they mean there, as far as our rules and modes allow. `bypassPermissions` is our `dontAsk`.
"""

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from gencode.core.errors import UserMistake
from gencode.core.rules import Mode, parse_mode

AUTONOMY = "gen: dontAsk is full autonomy: agents act without approval; only deny and ask rules still apply."
NOT_TOLD = "This conversation keeps its original system prompt, so --append-system-prompt has no effect."
WHICH = "Name a conversation: --resume ID (see gen sessions list), or use --continue for the last one."
SEVERAL = ("--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools")
"""Options that are followed by one or more values."""

_MODES = {"bypasspermissions": Mode.DONT_ASK.value, "manual": Mode.DEFAULT.value, "auto": Mode.DEFAULT.value}
_CALLED_HERE = {
    "agent": "Task",
    "multiedit": "Edit",
    "notebookread": "Read",
    "bashoutput": "TaskOutput",
    "agentoutput": "TaskOutput",
    "killbash": "KillShell",
    "todoread": "TodoWrite",
}
_NOT_HERE = frozenset(
    (
        *("notebookedit", "exitplanmode", "enterplanmode", "slashcommand", "lsp", "monitor", "toolsearch"),
        *("listmcpresourcestool", "readmcpresourcetool", "enterworktree", "exitworktree"),
        *("taskcreate", "taskget", "tasklist", "taskupdate", "croncreate", "crondelete", "cronlist"),
    )
)
"""Tools of Claude Code that have no counterpart: a rule about them is no mistake, and has no effect."""
_SERVERS = ("mcpServers", "mcp-servers", "mcp_servers")
_SECRET = ("env", "headers")
_LONGEST = 1_000_000


def mode(text: str) -> str:
    """A mode by our name or Claude Code's; an unknown one is reported when settings are read."""
    return _MODES.get(re.sub(r"[-_\s]", "", text).casefold(), text)


class ToolRules(argparse.Action):
    """Lists of tools, with commas or spaces between, in one word or several; the rules of allow and deny."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add the rules of one option to the list."""
        typed: Sequence[str] = [values] if isinstance(values, str) else list(values or ())
        found: list[str] = list(getattr(namespace, self.dest, ()))
        notes: list[str] = list(getattr(namespace, "notes", ()))
        for word in typed:
            try:
                rules = split_rules(word)
            except ValueError as problem:
                raise argparse.ArgumentError(self, str(problem)) from None
            for rule in rules:
                name, rest = _named(rule)
                if name in _NOT_HERE:
                    notes.append(f"GenCode has no tool {rule}, so {option_string} has no effect on it.")
                else:
                    found.append(f"{_CALLED_HERE[name]}{rest}" if name in _CALLED_HERE else rule)
        setattr(namespace, self.dest, found)
        if notes:
            namespace.notes = notes


def split_rules(text: str) -> list[str]:
    """`Bash(git log:*) Edit,Read` as three rules; text in parentheses is never split.

    ValueError names an unbalanced parenthesis, or says that the text is empty.
    """
    rules: list[str] = []
    begun, depth = "", 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise ValueError(f"{_brief(text)} closes a parenthesis that is not open")
        if depth == 0 and (character == "," or character.isspace()):
            rules.append(begun)
            begun = ""
        else:
            begun += character
    if depth:
        raise ValueError(f"{_brief(text)} has a parenthesis that is not closed")
    found = [rule for rule in (*rules, begun) if rule]
    if not found:
        raise ValueError("it needs the name of a tool, or a rule such as Bash(git log:*)")
    return found


def are_rules(word: str) -> bool:
    """Whether a word can only be meant as tools: each of its rules names one that is known."""
    from gencode.permissions.decision import check_tool

    try:
        for rule in split_rules(word):
            name = _named(rule)[0]
            if name not in _CALLED_HERE and name not in _NOT_HERE:
                check_tool(rule.partition("(")[0])
    except (ValueError, UserMistake):
        return False
    return True


def typed_agents(text: str) -> dict[str, Any]:
    """The object of `--agents`; what its agents are is looked at when they are made."""
    if len(text) > _LONGEST:
        raise argparse.ArgumentTypeError(f"it is longer than {_LONGEST:,} characters; write agent files")
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise argparse.ArgumentTypeError("it is nested too deep") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{_brief(text)} is not JSON: {error}") from None
    if not isinstance(found, dict) or not found:
        shape = '{"reviewer": {"description": "…", "prompt": "…"}}'
        raise argparse.ArgumentTypeError(f"{_brief(text)} is not an object of agents such as {shape}")
    return cast("dict[str, Any]", found)


def add_agents(parser: Any) -> None:
    """`--agents`, for commands that may send agents."""
    parser.add_argument(
        "--agents",
        dest="typed_agents",
        type=typed_agents,
        metavar="JSON",
        help='agents for this session: {"reviewer": {"description": "…", "prompt": "…"}}',
    )


def add_tool_lists(parser: argparse.ArgumentParser) -> None:
    """`--allowedTools` and `--disallowedTools`, in both spellings."""
    group = parser.add_argument_group("permissions in the syntax of Claude Code")
    for spelled, dest, says in ((SEVERAL[:2], "allow", "allow"), (SEVERAL[2:], "deny", "refuse")):
        group.add_argument(
            *spelled,
            dest=dest,
            action=ToolRules,
            nargs="+",
            metavar="TOOLS",
            help=f'{says} these tools, for example "Bash(git log:*),Edit"; like --{dest}',
        )


def remarks(args: argparse.Namespace) -> Iterator[str]:
    """Warnings about the options that were typed, one line each."""
    if getattr(args, "session", None) == "" and ("prompt" in args or "plain" in args):
        raise UserMistake(WHICH)
    if _means_autonomy(getattr(args, "permission_mode", "")) and getattr(args, "verb", "") != "explain":
        yield AUTONOMY
    notes: Iterable[str] = getattr(args, "notes", ())
    yield from (f"gen: {note}" for note in notes)
    yield from _brought(getattr(args, "typed_agents", {}))


def _brought(agents: dict[str, Any]) -> Iterator[str]:
    """What typed agents start; the variables it gets may be secret and are not shown."""
    for agent, table in agents.items():
        fields = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
        servers: Any = next((fields[name] for name in _SERVERS if fields.get(name)), ())
        if not servers:
            continue
        from gencode.app import describe_servers

        entries = cast("list[Any]", servers) if isinstance(servers, list) else [servers]
        for line in describe_servers([_without_secrets(each) for each in entries], {}, agent):
            yield f"gen: --agents starts for {agent}: {line}"


def _without_secrets(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    tables = cast("dict[str, Any]", entry)
    return {
        name: {key: each for key, each in cast("dict[str, Any]", table).items() if key not in _SECRET}
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }


def _means_autonomy(text: str) -> bool:
    try:
        return bool(text) and parse_mode(text) is Mode.DONT_ASK
    except UserMistake:
        return False


def _named(rule: str) -> tuple[str, str]:
    """A rule as the name of its tool, to compare it, and what follows."""
    name, parenthesis, rest = rule.partition("(")
    return name.strip().casefold(), f"{parenthesis}{rest}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_brief(twice)} is given twice")
    return found


def _brief(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
