"""Slash commands: their table, parsing, help, and what each does, as a result that any screen can show."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from string import hexdigits
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gencode.agent.ports import StopAction
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.ids import clean_id
from gencode.core.rules import parse_mode
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import STILL_RUNNING, ChatSession
from gencode.interfaces.chat.info_pages import (
    MODES,
    budget_page,
    cost_page,
    rules_page,
    servers_page,
    status_page,
)
from gencode.interfaces.chat.task_controls import budget_usage_page, changed_budget, confirmation_text
from gencode.interfaces.render.agent_view import View, seen
from gencode.interfaces.render.number_format import local_time, local_zone, turns
from gencode.interfaces.render.plain_text import WIDE
from gencode.journal.store import TaskQuery
from gencode.tasks.fork import Fork

if TYPE_CHECKING:
    from gencode.app import CommandFiles

SIMILARITY = 0.6
"""How similar a name must be to be suggested for a mistyped one."""


class KeyHelp(Struct, frozen=True):
    """What a key does. One with a name can be another key in settings; `also` does the same."""

    key: str
    says: str
    name: str = ""
    also: str = ""

    def now(self, changed: Mapping[str, str]) -> str:
        """The key as it is now, as a person reads it: Ctrl+T."""
        keys = changed[self.name].split(",") if self.name in changed else []
        return ", ".join("+".join(map(str.capitalize, key.strip().split("+"))) for key in keys) or self.key


KEYS = (
    KeyHelp("Enter", "send; while the agent works, queue your message for its next reply"),
    KeyHelp("Ctrl+J", "new line", "new_line", "Shift+Enter"),
    KeyHelp("Up, Down", "previous and next prompts, also of other sessions"),
    KeyHelp("Ctrl+R", "search the previous prompts", "history"),
    KeyHelp("!COMMAND", "run a shell command yourself; its output joins the conversation"),
    KeyHelp("Ctrl+G", "write the prompt in your editor (EDITOR)", "editor"),
    KeyHelp("Ctrl+V", "attach the picture on the clipboard; or drop an image file on the terminal", "paste"),
    KeyHelp("Tab", "complete, or go to the transcript (Up and Down select, Enter opens)"),
    KeyHelp("Esc", "interrupt the turn and its foreground agents; background tasks continue"),
    KeyHelp("Esc Esc", "while idle: go back to an earlier prompt and edit it", "", "/rewind"),
    KeyHelp("Ctrl+B", "move running foreground agents to the background", "background", "/background"),
    KeyHelp("Ctrl+T", "agent tree; Enter opens an agent", "tree", "/tasks"),
    KeyHelp("Ctrl+O", "expand or collapse all details", "details"),
    KeyHelp("Shift+Tab", "next permission mode", "mode", "/mode"),
    KeyHelp("PageUp, PageDown", "scroll the transcript"),
    KeyHelp(
        "Ctrl+C", "copy the selection, close a page, clear the input or interrupt; twice while idle: quit"
    ),
    KeyHelp("Mouse", "drag to select, Ctrl+C copies; with Shift (Option on macOS) the terminal selects"),
    KeyHelp("Ctrl+D", "quit when the input is empty"),
)
NAMED_KEYS = {each.name: each for each in KEYS if each.name}
"""The keys that settings can change."""
RESUME_TEXT = "Continue where you left off."
WRITE_INSTRUCTIONS = (
    "Write AGENTS.md in the root of this repository, for coding agents that will work here. If it exists, "
    "improve it and keep what is still true; take over what CLAUDE.md and similar files say. First look at "
    "the README, the build and test configuration, CI, and how the source is organised. Then state, in at "
    "most 60 short lines: the commands to build, lint, run all tests and run one test; the structure that is "
    "not obvious from the file names; conventions of this repository that differ from what is usual. State "
    "only what you have verified in files, and nothing that is true of any project."
)
MAX_SESSIONS = 200
SHORTEST_ID = 4
"""So many characters an id has at least where a text may stand instead."""
ViewName = Literal[
    "tree",
    "agent",
    "rewind",
    "new",
    "opened",
    "edit",
    "trust",
    "theme",
    "copy",
    "quit",
]
_VERBS: dict[str, StopAction] = {
    "interrupt": "interrupt",
    "keep": "keep",
    "stop": "stop",
    "stop-tree": "tree",
}
_KINDS = ("tokens", "usd", "spawns")


class SlashCommand(Struct, frozen=True):
    """One command: name, arguments and description."""

    name: str
    words: str
    says: str
    also: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return f"/{self.name} {self.words}".rstrip()


COMMANDS = (
    SlashCommand("help", "", "list all commands and keys", ("keys",)),
    SlashCommand("tasks", "", "show all agents of this session as a tree (Ctrl+T)", ("tree",)),
    SlashCommand("task-status", "ID", "show the status and the result of an agent", ("status",)),
    SlashCommand("open", "ID", "open the live transcript of an agent; what you type there steers it"),
    SlashCommand("background", "[ID]", "move foreground agents to the background (Ctrl+B)", ("bg",)),
    SlashCommand("interrupt", "[ID] [TEXT]", "interrupt an agent; it continues from there"),
    SlashCommand("steer", "ID TEXT", "send a message that an agent reads before its next reply", ("send",)),
    SlashCommand("keep", "[ID]", "stop an agent after one last turn to report what it found"),
    SlashCommand("stop", "[ID]", "stop an agent and the agents it waits for"),
    SlashCommand("stop-tree", "[ID]", "stop an agent and all its subagents, in the background too"),
    SlashCommand("resume", "[ID] [TEXT]", "resume an earlier conversation, or a finished agent"),
    SlashCommand(
        "fork",
        "[ID[@N]] TEXT",
        "start a subagent that knows all of this conversation, or what the agent ID knew (up to event N)",
    ),
    SlashCommand("sessions", "", "choose one of the conversations of this folder"),
    SlashCommand("rewind", "", "go back to an earlier prompt: the conversation, changed files, or both"),
    SlashCommand("new", "", "start a new conversation", ("clear",)),
    SlashCommand(
        "agents",
        "[NAME | lint | new NAME | edit NAME | trust]",
        "list, show, check or create agents",
    ),
    SlashCommand("model", "[NAME]", "choose the model for the next turns"),
    SlashCommand("mode", "[MODE]", "choose the permission mode of all agents (Shift+Tab)"),
    SlashCommand("permissions", "[TOOL INPUT]", "show the rules in effect, or explain a decision"),
    SlashCommand("budget", "[ID] [KIND AMOUNT | none]", "show or set the budget, for all or for one agent"),
    SlashCommand("cost", "", "show the cost of this conversation by agent"),
    SlashCommand("compact", "", "summarise the conversation to free up context"),
    SlashCommand("skills", "", "list the available skills"),
    SlashCommand("mcp", "", "list the MCP servers and their tools"),
    SlashCommand("init", "", "let the agent write AGENTS.md, what agents should know about this folder"),
    SlashCommand("copy", "", "copy the last reply to the clipboard"),
    SlashCommand("export", "[FILE]", "save the journal of this conversation as JSONL"),
    SlashCommand("theme", "[NAME]", "choose the colours"),
    SlashCommand(
        "quit", "", "quit; running background tasks are stopped, their results so far are kept", ("exit",)
    ),
)


_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.also)}


class ParsedCommand(Struct, frozen=True):
    """A command as typed: its name and its arguments."""

    name: str
    rest: str = ""

    def first(self) -> tuple[str, str]:
        """The first word behind the name, and the rest."""
        word, _, rest = self.rest.partition(" ")
        return word, rest.strip()

    def words(self) -> list[str]:
        """The arguments as words; quotes keep words together."""
        try:
            return shlex.split(self.rest)
        except ValueError as error:
            raise UserMistake(f"Cannot parse the arguments of /{self.name}: {error}.") from None


def from_files(files: "CommandFiles") -> list[SlashCommand]:
    """The commands from files; one with the name of a command of ours cannot be reached."""
    return [
        SlashCommand(each.name, each.hint, each.description)
        for each in files.usable()
        if each.name.casefold() not in _BY_NAME
    ]


def is_command(text: str, files: "CommandFiles | None" = None) -> bool:
    """Whether a text is meant as a command of ours: one line, a slash, a name. A path is not.

    Nor is a command from `files`, which is a message to the agent.
    """
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    if files is not None and text.startswith("/") and not is_known_command(text) and files.named(text):
        return False
    return text.startswith("/") and "\n" not in text.strip() and "/" not in word[1:] and len(word) > 1


def is_known_command(text: str) -> bool:
    """Whether a text is a command of ours that exists."""
    return is_command(text) and text.split(maxsplit=1)[0].removeprefix("/").casefold() in _BY_NAME


def parse_command(text: str) -> ParsedCommand:
    """Parse a command; UserMistake suggests similar names for an unknown one."""
    name, _, rest = text.strip().removeprefix("/").partition(" ")
    command = _BY_NAME.get(name.casefold())
    if command is None:
        near = get_close_matches(name.casefold(), _BY_NAME, n=3, cutoff=SIMILARITY)
        offer = f" Did you mean {', '.join(f'/{each}' for each in near)}?" if near else ""
        raise UserMistake(f"Unknown command /{visible_line(name, 40)}.{offer} See /help.")
    return ParsedCommand(command.name, rest.strip())


def matching_commands(text: str, more: Sequence[SlashCommand] = ()) -> list[SlashCommand]:
    """The commands that match a prefix, `more` of files among them, the best first."""
    if not text.startswith("/") or " " in text:
        return []
    typed = text[1:].casefold()
    known = (*COMMANDS, *more)
    ahead = [each for each in known if each.name.casefold().startswith(typed)]
    ahead.sort(key=lambda each: each.name != typed)  # one that is whole already comes first
    inside = [each for each in known if each not in ahead and typed and typed in each.name.casefold()]
    others = [each for each in COMMANDS if any(name.startswith(typed) for name in each.also if typed)]
    return list(dict.fromkeys((*ahead, *inside, *others)))


def help_text(commands: Sequence[SlashCommand] = COMMANDS) -> str:
    """Commands, one line each."""
    width = max((len(each.usage) for each in commands if len(each.usage) < 30), default=0)
    return "\n".join(f"{each.usage:{width}}  {each.says}" for each in commands)


def keys_text(changed: Mapping[str, str] = {}) -> str:
    """Every key, one line each."""
    shown = [(f"{each.now(changed)}{each.also and f', {each.also}'}", each.says) for each in KEYS]
    width = max(len(key) for key, _ in shown)
    return "\n".join(f"{key:{width}}  {says}" for key, says in shown)


class Page(Struct, frozen=True):
    """A result: a page to read."""

    title: str
    text: str


class ShowView(Struct, frozen=True):
    """A result: a view to open, and its subject."""

    place: ViewName
    what: str = ""


class ConfirmAction(Struct, frozen=True):
    """A result: an action to confirm once the user has seen what it affects."""

    verb: StopAction
    task: str
    text: str
    message: str = ""


class StatusMessage(Struct, frozen=True):
    """A result: one line that says what was done."""

    text: str = ""


class PickList(Struct, frozen=True):
    """A result: a list to choose from. What is chosen becomes the argument of a command, or its beginning
    where it ends with a slash; `now` is what is chosen at present.
    """

    title: str
    command: str
    lines: Sequence[tuple[str, str]]
    now: str = ""

    @property
    def marked(self) -> list[tuple[str, str]]:
        """The lines with a mark at what is chosen at present."""
        return [(key, f"{'→' if key == self.now else ' '} {line}") for key, line in self.lines]

    @property
    def text(self) -> str:
        """The list where nothing can be chosen from it."""
        return "\n".join(line for _, line in self.marked)


CommandResult = Page | PickList | ShowView | ConfirmAction | StatusMessage


async def run_slash_command(chat: ChatSession, typed: ParsedCommand, here: str = "") -> CommandResult:
    """Run a command; `here` is the agent that is open, for commands that name none."""
    if typed.name in _VERBS:
        return await _verb(chat, typed, here or chat.session or "")
    return await _COMMANDS[typed.name](chat, typed, here)


async def request_action(chat: ChatSession, task: str, verb: StopAction, message: str = "") -> CommandResult:
    """Ask to confirm an action on an agent; one that affects nothing says so at once."""
    affected = await chat.affected_tasks(task, verb)
    text = confirmation_text(verb, await chat.gen.find(task), affected)
    return ConfirmAction(verb, task, text, message) if affected else StatusMessage(text)


async def _verb(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    verb = _VERBS[typed.name]
    word, rest = typed.first()
    if not word and not here:
        raise UserMistake(f"No agent is running here. Name one: /{typed.name} ID")
    return await request_action(chat, (await chat.gen.find(word or here)).id, verb, rest)


async def _help(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    files = from_files(chat.gen.commands)
    parts = [help_text(), help_text(files) and f"From files:\n{help_text(files)}"]
    parts.append(keys_text(chat.gen.settings.keys))
    return Page("Commands and keys", "\n\n".join(filter(None, parts)))


async def _tree(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    return ShowView("tree")


async def _status(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    task = await chat.gen.find(_required_task(typed, here))
    view = chat.view.agents.get(task.id)
    return Page(f"Task {task.id}", status_page(await chat.gen.get(task.id), view.place if view else 0))


async def _open(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    return ShowView("agent", (await chat.gen.find(_required_task(typed, ""))).id)


async def _background(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    await chat.move_to_background(typed.first()[0] or (here if here != chat.session else ""))
    return StatusMessage()


async def _steer(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    task, text = typed.first()
    if not text:
        raise UserMistake("Name an agent and a message: /steer ID TEXT")
    await chat.steer(task, text)
    return StatusMessage()


async def _resume(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    task, text = typed.first()
    if not task:
        return await _sessions(chat, typed, here)
    found = await chat.gen.find(task)
    if found.conversation:
        await chat.open(found.id)
        if text:
            await chat.send(text)
        return ShowView("opened", found.id)
    await chat.steer(found.id, text or RESUME_TEXT)
    return ShowView("agent", found.id)


async def _fork(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    word, text = typed.first()
    task, at, number = word.partition("@")
    if not _is_id(task):
        task, at, number, text = chat.session or "", "", "", typed.rest
    if not text or not task or (at and not number.isdecimal()):
        raise UserMistake(
            "Say what a copy of this conversation should do: /fork TEXT. For a copy of a subagent: "
            "/fork ID TEXT (ID@12 forks at event 12)"
        )
    request = TaskRequest("", text, background=True)
    fork = Fork(int(number) if at else None)
    return ShowView("agent", (await chat.gen.fork_in_background(task, fork, request)).agent_id)


def _is_id(word: str) -> bool:
    """Whether a word is an id rather than the beginning of a text: `add` and `face` could be both."""
    return clean_id(word) is not None and len(word) >= SHORTEST_ID and any(map(str.isdigit, word))


async def _sessions(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    query = TaskQuery(cwd=str(chat.gen.workspace.cwd), conversations=True)
    found = sorted(await chat.gen.history.tasks(query), key=lambda task: task.touched_at, reverse=True)
    if not found:
        raise UserMistake("No earlier conversation in this folder.")
    lines = [
        (
            task.id,
            f"{task.id}  {local_time(task.touched_at)}  {task.status:13} "
            f"{turns(task.totals.turns):9} {visible_line(task.created.prompt, 100)}",
        )
        for task in found[:MAX_SESSIONS]
    ]
    title = f"Conversations of this folder · times in {local_zone()}"
    return PickList(title, "resume", lines, chat.session or "")


async def _rewind(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    if chat.session is None:
        raise UserMistake("Nothing to rewind: this conversation is empty.")
    if chat.running:
        raise UserMistake(STILL_RUNNING)
    return ShowView("rewind", chat.session)


async def _new(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    chat.start_new()
    return ShowView("new")


async def _agents(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    from gencode.interfaces.chat.agent_info import agent_page, lint_page, new_agent_page
    from gencode.interfaces.chat.folder_review import trust_page

    words = typed.words()
    match words:
        case []:
            return PickList("Available agents", "agents", _agent_lines(chat))
        case ["lint", *paths]:
            return Page("gen agents lint", await asyncio.to_thread(lint_page, chat.gen, paths))
        case ["trust"]:
            return ShowView("trust", await asyncio.to_thread(trust_page, chat.gen.workspace.root))
        case ["new", name, first, *more]:
            description = " ".join((first, *more))
            return Page("gen agents new", new_agent_page(chat.gen, name, description))
        case ["new", *_]:
            raise UserMistake("Give a name and a description: /agents new tester Runs the tests.")
        case ["edit", name]:
            return ShowView("edit", _editable_file(chat, name))
        case [name]:
            return Page(f"gen agents show {name}", agent_page(chat.gen, name))
        case _:
            raise UserMistake("Usage: /agents [NAME | lint | new NAME DESCRIPTION | edit NAME | trust]")


def _agent_lines(chat: ChatSession) -> list[tuple[str, str]]:
    found = chat.gen.agents.spawnable()
    width = max((len(spec.name) for spec in found), default=0)
    return [
        (
            spec.name,
            f"{spec.name:{width}}  {spec.mode or 'inherited'!s:12} {visible_line(_described(spec), 120)}",
        )
        for spec in found
    ]


def _described(spec: AgentSpec) -> str:
    return f"{spec.display_name}: {spec.description}" if spec.display_name else spec.description


def _editable_file(chat: ChatSession, name: str) -> str:
    spec = chat.gen.agents.find(name)
    if spec.builtin:
        raise UserMistake(f"{spec.name} is built in. Create your own agent with /agents new.")
    return spec.source


async def _model(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    if not typed.rest:
        from gencode.interfaces.chat.model_info import model_lines

        now = chat.chosen_model or chat.gen.model
        return PickList(f"Model for the next turns (now {now.name})", "model", model_lines(chat.gen))
    chat.chosen_model = chat.gen.models.use(typed.rest)
    return StatusMessage(f"Model from the next turn on: {visible_line(chat.chosen_model.name)}")


async def _mode(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    gen = chat.gen
    if not typed.rest:
        lines = [(mode.value, f"{mode:12} {says}") for mode, says in MODES.items()]
        return PickList("Permission mode of all agents", "mode", lines, gen.policy.mode.value)
    gen.switch_mode(parse_mode(typed.rest))
    return StatusMessage(f"All agents of this session now run in {gen.policy.mode} mode.")


async def _permissions(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    tool, rest = typed.first()
    if not tool:
        return Page("Permissions", rules_page(chat.gen))
    words = typed.words()[1:]
    given = words[0] if len(words) == 1 else rest
    from gencode.interfaces.chat.permission_info import explanation_page

    return Page("gen permissions explain", explanation_page(chat.gen, tool, given or "{}"))


async def _budget(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    words = typed.words()
    if words and {*words[0].lower()} <= {*hexdigits}:
        return await _budget_of(chat, words[0], words[1:])
    if words == ["none"]:
        await chat.gen.budgets.set_all(Budget(), chat.session)
    elif len(words) == 2 and words[0] in _KINDS:
        now = await chat.gen.budgets.of_conversation(chat.session)
        await chat.gen.budgets.set_all(changed_budget(now, words), chat.session)
    elif words:
        raise UserMistake("Usage: /budget tokens 200000, /budget usd 2.5, /budget spawns 8 or /budget none")
    budget = await chat.gen.budgets.of_conversation(chat.session)
    return Page("Budget", budget_page(budget, await _stored_view(chat), chat.session))


async def _budget_of(chat: ChatSession, task: str, words: Sequence[str]) -> CommandResult:
    """Show or set the budget of one agent and its subagents."""
    found = await chat.gen.find(task)
    now = await chat.gen.budgets.of_task(found)
    now = await chat.gen.set_budget(found.id, changed_budget(now, words)) if words else now
    page = budget_usage_page(now, await chat.gen.history.spent(found.id))
    return Page(f"Budget of {visible_line(found.agent)} {found.id}", page)


async def _cost(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    if chat.session is None:
        return StatusMessage("No cost yet: this conversation is empty.")
    return Page("Cost", cost_page(await _stored_view(chat), chat.session))


async def _stored_view(chat: ChatSession) -> View:
    """The agents of the conversation from the journals, with what they spent in other processes."""
    if chat.session is None:
        return chat.view
    top = await chat.gen.find(chat.session)
    return View({each.id: seen(each) for each in (top, *await chat.gen.history.below(top.id))})


async def _compact(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    if chat.session is None:
        raise UserMistake("Nothing to summarise: this conversation is empty.")
    if chat.running:
        raise UserMistake("The agent is working. Wait, or interrupt it with Esc, then try again.")
    done = await chat.compact()
    return StatusMessage(
        "Conversation summarised. The full journal is kept." if done else "There is too little to summarise."
    )


async def _skills(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    from gencode.interfaces.chat.agent_info import skill_lines, skills_text

    return Page("gen skills list", skills_text(skill_lines(chat.gen), WIDE))


async def _servers(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    return Page("MCP servers", servers_page(chat.gen))


async def _init(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    await chat.send(WRITE_INSTRUCTIONS)
    return StatusMessage()


async def _copy(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    task = here or chat.session
    text = (await chat.gen.get(task)).result if task else ""
    if not text.strip():
        raise UserMistake("Nothing to copy: there is no reply yet.")
    return ShowView("copy", text)


async def _export(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    task = here or chat.session
    if task is None:
        raise UserMistake("Nothing to export: this conversation is empty.")
    path = _write_new_file(
        chat.gen.workspace.cwd, typed.rest or f"gencode-{task}.jsonl", await chat.gen.export(task)
    )
    return StatusMessage(f"Wrote {path}. Import it with: gen task import {path}")


def _write_new_file(folder: Path, name: str, text: str) -> Path:
    """Write a new file; never replace one."""
    path = folder / Path(name).expanduser()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserMistake(f"{path} already exists. Name another file: /export FILE") from None
    except OSError as error:
        raise UserMistake(f"Cannot write {path}: {error.strerror}. Name another file: /export FILE") from None
    return path


async def _theme(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    return ShowView("theme", typed.rest)


async def _quit(chat: ChatSession, typed: ParsedCommand, here: str) -> CommandResult:
    return ShowView("quit")


def _required_task(typed: ParsedCommand, here: str) -> str:
    """The id that was typed, or the agent that is open."""
    word = typed.first()[0] or here
    if not word:
        raise UserMistake(f"Name an agent: /{typed.name} ID (/tasks lists them all)")
    return word


_COMMANDS: dict[str, Callable[[ChatSession, ParsedCommand, str], Awaitable[CommandResult]]] = {
    "help": _help,
    "tasks": _tree,
    "task-status": _status,
    "open": _open,
    "background": _background,
    "steer": _steer,
    "resume": _resume,
    "fork": _fork,
    "sessions": _sessions,
    "rewind": _rewind,
    "new": _new,
    "agents": _agents,
    "model": _model,
    "mode": _mode,
    "permissions": _permissions,
    "budget": _budget,
    "cost": _cost,
    "compact": _compact,
    "skills": _skills,
    "mcp": _servers,
    "init": _init,
    "copy": _copy,
    "export": _export,
    "theme": _theme,
    "quit": _quit,
}
