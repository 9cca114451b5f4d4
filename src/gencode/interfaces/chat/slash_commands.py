"""What can be typed behind a slash in a conversation: names, what they mean, and how they are completed."""

import shlex
from difflib import get_close_matches

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.visible import visible_line

NEAR = 0.6
"""So much alike a name must be to be offered for another."""


class Command(Struct, frozen=True):
    """One command: its words as they are typed, and what it does in a sentence."""

    name: str
    words: str
    says: str
    also: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The whole command as it is typed."""
        return f"/{self.name} {self.words}".rstrip()


COMMANDS = (
    Command("help", "", "this list, and the keys", ("keys",)),
    Command("tasks", "", "all agents of this session, as a tree (Ctrl+T)", ("tree",)),
    Command("task-status", "ID", "how one agent stands, and what it has found", ("status",)),
    Command("open", "ID", "the live transcript of an agent; typing there steers it"),
    Command("background", "[ID]", "send what runs in the foreground to the background (Ctrl+B)", ("bg",)),
    Command("interrupt", "[ID] [TEXT]", "cut what an agent does now; it goes on from there"),
    Command("steer", "ID TEXT", "say something to an agent, which hears it before its next reply", ("send",)),
    Command("keep", "[ID]", "stop an agent after a last turn in which it says what it found"),
    Command("stop", "[ID]", "abort an agent and what it waits for, at once"),
    Command("stop-tree", "[ID]", "abort an agent and everything below it"),
    Command("resume", "[ID] [TEXT]", "go on with an earlier conversation, or with an agent that has ended"),
    Command("fork", "ID TEXT", "a new agent that begins with what another one knew (ID@SEQ: at one fact)"),
    Command("sessions", "", "the conversations of this folder; Enter opens one"),
    Command("new", "", "begin a new conversation", ("clear",)),
    Command("agents", "[NAME | lint | new NAME | edit NAME | trust]", "the agents that can be sent"),
    Command("model", "[NAME]", "which model answers, or another one from the next turn on"),
    Command("mode", "[MODE]", "the permission mode, or another one for all agents at once (Shift+Tab)"),
    Command("permissions", "[TOOL INPUT]", "the rules that count, or what is decided about one call"),
    Command("budget", "[ID] [KIND AMOUNT | none]", "what this conversation, or one agent, may spend"),
    Command("cost", "", "what this conversation has cost, agent by agent"),
    Command("compact", "", "sum up what was said so far, so that there is room for more"),
    Command("skills", "", "the skills there are"),
    Command("mcp", "", "the MCP servers and their tools"),
    Command("export", "[FILE]", "write the journal of this conversation as JSONL"),
    Command("theme", "[dark | light]", "colours for a dark or a light terminal"),
    Command("quit", "", "leave; what runs in the background is stopped, what it said is kept", ("exit",)),
)
_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.also)}


class Typed(Struct, frozen=True):
    """A command as it was typed: its name and everything behind it."""

    name: str
    rest: str = ""

    def first(self) -> tuple[str, str]:
        """The first word behind the name, and the rest."""
        word, _, rest = self.rest.partition(" ")
        return word, rest.strip()

    def words(self) -> list[str]:
        """Everything behind the name as words; quotes keep words together."""
        try:
            return shlex.split(self.rest)
        except ValueError as error:
            raise UserMistake(f"What follows /{self.name} cannot be read: {error}.") from None


def is_command(text: str) -> bool:
    """Whether a text is meant as a command: one line, a slash, a name. A path is none."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return text.startswith("/") and "\n" not in text.strip() and "/" not in word[1:] and len(word) > 1


def is_known(text: str) -> bool:
    """Whether a text is one of the commands there are."""
    return is_command(text) and text.split(maxsplit=1)[0].removeprefix("/").casefold() in _BY_NAME


def parse(text: str) -> Typed:
    """A typed command; UserMistake offers the nearest ones when there is none of that name."""
    name, _, rest = text.strip().removeprefix("/").partition(" ")
    command = _BY_NAME.get(name.casefold())
    if command is None:
        near = get_close_matches(name.casefold(), _BY_NAME, n=3, cutoff=NEAR)
        offer = f" Did you mean {', '.join(f'/{each}' for each in near)}?" if near else ""
        raise UserMistake(f"There is no command /{visible_line(name, 40)}.{offer} See /help.")
    return Typed(command.name, rest.strip())


def completions(text: str) -> list[Command]:
    """The commands that a beginning may become, the best first."""
    if not text.startswith("/") or " " in text:
        return []
    typed = text[1:].casefold()
    ahead = [each for each in COMMANDS if each.name.startswith(typed)]
    ahead.sort(key=lambda each: each.name != typed)  # one that is whole already comes first
    inside = [each for each in COMMANDS if each not in ahead and typed and typed in each.name]
    others = [each for each in COMMANDS if any(name.startswith(typed) for name in each.also if typed)]
    return list(dict.fromkeys((*ahead, *inside, *others)))


def help_text() -> str:
    """Every command, one line each."""
    width = max(len(each.usage) for each in COMMANDS if len(each.usage) < 30)
    return "\n".join(f"{each.usage:{width}}  {each.says}" for each in COMMANDS)


KEYS = (
    ("Enter", "send; while the agent works it hears it before its next reply"),
    ("Ctrl+J, Shift+Enter", "a new line"),
    ("Up, Down", "earlier and later prompts, also of other sessions"),
    ("Tab", "complete, or move to the transcript; there Up, Down, Enter open and close"),
    ("Esc", "interrupt the turn and its foreground agents; the background goes on"),
    ("Ctrl+B, /background", "send the running foreground agents to the background"),
    ("Ctrl+T, /tasks", "the tree of all agents; Enter opens one"),
    ("Ctrl+O", "open or close all details"),
    ("Shift+Tab, /mode", "the next permission mode"),
    ("PageUp, PageDown", "scroll the transcript"),
    ("Ctrl+C", "close a page; clear what is typed; then interrupt; twice at rest: quit"),
    ("Ctrl+D", "quit when nothing is typed"),
)


def keys_text() -> str:
    """Every key, one line each."""
    width = max(len(key) for key, _ in KEYS)
    return "\n".join(f"{key:{width}}  {says}" for key, says in KEYS)
