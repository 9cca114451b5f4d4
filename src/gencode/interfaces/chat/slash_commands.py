"""What can be typed behind a slash in a conversation: names, what they mean, and how they are completed."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from string import hexdigits
from typing import Literal

from msgspec import Struct

from gencode.agent.ports import StopAction
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.rules import parse_mode
from gencode.core.spec import TaskRequest
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.info_pages import (
    budget_page,
    cost_page,
    modes_page,
    rules_page,
    servers_page,
    status_page,
)
from gencode.interfaces.chat.task_controls import bounded, bounds_page, would_hit
from gencode.interfaces.render.agent_view import View, seen
from gencode.tasks.fork import Fork

NEAR = 0.6
"""So much alike a name must be to be offered for another."""
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
GO_ON = "Go on where you were."
Place = Literal["tree", "agent", "sessions", "agents", "new", "edit", "trust", "theme", "quit", "opened"]
_VERBS: dict[str, StopAction] = {
    "interrupt": "interrupt",
    "keep": "keep",
    "stop": "stop",
    "stop-tree": "tree",
}
_KINDS = ("tokens", "usd", "spawns")


class SlashCommand(Struct, frozen=True):
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
    SlashCommand("help", "", "this list, and the keys", ("keys",)),
    SlashCommand("tasks", "", "all agents of this session, as a tree (Ctrl+T)", ("tree",)),
    SlashCommand("task-status", "ID", "how one agent stands, and what it has found", ("status",)),
    SlashCommand("open", "ID", "the live transcript of an agent; typing there steers it"),
    SlashCommand(
        "background", "[ID]", "send what runs in the foreground to the background (Ctrl+B)", ("bg",)
    ),
    SlashCommand("interrupt", "[ID] [TEXT]", "cut what an agent does now; it goes on from there"),
    SlashCommand(
        "steer", "ID TEXT", "say something to an agent, which hears it before its next reply", ("send",)
    ),
    SlashCommand("keep", "[ID]", "stop an agent after a last turn in which it says what it found"),
    SlashCommand("stop", "[ID]", "abort an agent and what it waits for, at once"),
    SlashCommand("stop-tree", "[ID]", "abort an agent and everything below it"),
    SlashCommand(
        "resume", "[ID] [TEXT]", "go on with an earlier conversation, or with an agent that has ended"
    ),
    SlashCommand(
        "fork", "ID TEXT", "a new agent that begins with what another one knew (ID@SEQ: at one fact)"
    ),
    SlashCommand("sessions", "", "the conversations of this folder; Enter opens one"),
    SlashCommand("new", "", "begin a new conversation", ("clear",)),
    SlashCommand("agents", "[NAME | lint | new NAME | edit NAME | trust]", "the agents that can be sent"),
    SlashCommand("model", "[NAME]", "which model answers, or another one from the next turn on"),
    SlashCommand("mode", "[MODE]", "the permission mode, or another one for all agents at once (Shift+Tab)"),
    SlashCommand("permissions", "[TOOL INPUT]", "the rules that count, or what is decided about one call"),
    SlashCommand("budget", "[ID] [KIND AMOUNT | none]", "what this conversation, or one agent, may spend"),
    SlashCommand("cost", "", "what this conversation has cost, agent by agent"),
    SlashCommand("compact", "", "sum up what was said so far, so that there is room for more"),
    SlashCommand("skills", "", "the skills there are"),
    SlashCommand("mcp", "", "the MCP servers and their tools"),
    SlashCommand("export", "[FILE]", "write the journal of this conversation as JSONL"),
    SlashCommand("theme", "[dark | light]", "colours for a dark or a light terminal"),
    SlashCommand(
        "quit", "", "leave; what runs in the background is stopped, what it said is kept", ("exit",)
    ),
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


def completions(text: str) -> list[SlashCommand]:
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


def keys_text() -> str:
    """Every key, one line each."""
    width = max(len(key) for key, _ in KEYS)
    return "\n".join(f"{key:{width}}  {says}" for key, says in KEYS)


class Page(Struct, frozen=True):
    """Something to read."""

    title: str
    text: str


class Show(Struct, frozen=True):
    """A place of the screen to go to, and what about."""

    place: Place
    what: str = ""


class Confirm(Struct, frozen=True):
    """A verb that hits something: what it would hit is shown before it does."""

    verb: StopAction
    task: str
    text: str
    message: str = ""


class Word(Struct, frozen=True):
    """A line for the person: it is done."""

    text: str = ""


Deed = Page | Show | Confirm | Word


async def act(talk: Talk, typed: Typed, here: str = "") -> Deed:
    """Do what was typed; `here` is the agent that is looked at, for commands that name none."""
    if typed.name in _VERBS:
        return await _verb(talk, typed, here or talk.session or "")
    return await _ACTS[typed.name](talk, typed, here)


async def apply_action(talk: Talk, task: str, verb: StopAction, message: str = "") -> Deed:
    """A verb at an agent is to be confirmed; one that would hit nothing says so at once."""
    hits = await talk.hits(task, verb)
    text = would_hit(verb, await talk.gen.find(task), hits)
    return Confirm(verb, task, text, message) if hits else Word(text)


async def _verb(talk: Talk, typed: Typed, here: str) -> Deed:
    verb = _VERBS[typed.name]
    word, rest = typed.first()
    if not word and not here:
        raise UserMistake(f"Nothing runs here; say which agent: /{typed.name} ID.")
    return await apply_action(talk, (await talk.gen.find(word or here)).id, verb, rest)


async def _help(talk: Talk, typed: Typed, here: str) -> Deed:
    return Page("Commands and keys", f"{help_text()}\n\n{keys_text()}")


async def _tree(talk: Talk, typed: Typed, here: str) -> Deed:
    return Show("tree")


async def _status(talk: Talk, typed: Typed, here: str) -> Deed:
    task = await talk.gen.find(_needed(typed, here))
    view = talk.view.agents.get(task.id)
    return Page(f"Task {task.id}", status_page(await talk.gen.get(task.id), view.place if view else 0))


async def _open(talk: Talk, typed: Typed, here: str) -> Deed:
    return Show("agent", (await talk.gen.find(_needed(typed, ""))).id)


async def _background(talk: Talk, typed: Typed, here: str) -> Deed:
    await talk.move_to_background(typed.first()[0] or (here if here != talk.session else ""))
    return Word()


async def _steer(talk: Talk, typed: Typed, here: str) -> Deed:
    task, text = typed.first()
    if not text:
        raise UserMistake("Say which agent and what it should hear: /steer ID TEXT.")
    await talk.steer(task, text)
    return Word()


async def _resume(talk: Talk, typed: Typed, here: str) -> Deed:
    task, text = typed.first()
    if not task:
        return Show("sessions")
    found = await talk.gen.find(task)
    if found.conversation:
        await talk.open(found.id)
        if text:
            await talk.say(text)
        return Show("opened", found.id)
    await talk.steer(found.id, text or GO_ON)
    return Show("agent", found.id)


async def _fork(talk: Talk, typed: Typed, here: str) -> Deed:
    word, text = typed.first()
    task, at, number = word.partition("@")
    if not text or (at and not number.isdecimal()):
        raise UserMistake("Say which agent, at which fact if not the last, and what to do: /fork ID@12 TEXT.")
    request = TaskRequest("", text, background=True)
    fork = Fork(int(number) if at else None)
    return Show("agent", (await talk.gen.fork_in_background(task, fork, request)).agent_id)


async def _sessions(talk: Talk, typed: Typed, here: str) -> Deed:
    return Show("sessions")


async def _new(talk: Talk, typed: Typed, here: str) -> Deed:
    talk.leave()
    return Show("new")


async def _agents(talk: Talk, typed: Typed, here: str) -> Deed:
    from gencode.interfaces.chat import record_pages as pages

    words = typed.words()
    match words:
        case []:
            return Show("agents")
        case ["lint", *paths]:
            return Page("gen agents lint", await asyncio.to_thread(pages.lint_page, talk.gen, paths))
        case ["trust"]:
            return Show("trust", await asyncio.to_thread(pages.trust_page, talk.gen))
        case ["new", name, first, *more]:
            description = " ".join((first, *more))
            return Page("gen agents new", pages.new_agent_page(talk.gen, name, description))
        case ["new", *_]:
            raise UserMistake("Say its name and when it should be sent: /agents new tester Runs the tests.")
        case ["edit", name]:
            return Show("edit", _own_file(talk, name))
        case [name]:
            return Page(f"gen agents show {name}", pages.agent_page(talk.gen, name))
        case _:
            raise UserMistake("Say a name, lint, new NAME DESCRIPTION, edit NAME or trust after /agents.")


def _own_file(talk: Talk, name: str) -> str:
    spec = talk.gen.agents.find(name)
    if spec.builtin:
        raise UserMistake(f"{spec.name} is built in; make one of your own with /agents new.")
    return spec.source


async def _model(talk: Talk, typed: Typed, here: str) -> Deed:
    if not typed.rest:
        from gencode.interfaces.chat.record_pages import models_page

        return Page("gen models", models_page(talk.gen, talk.chosen.name if talk.chosen else ""))
    talk.chosen = talk.gen.models.use(typed.rest)
    return Word(f"From the next turn on {visible_line(talk.chosen.name)} answers.")


async def _mode(talk: Talk, typed: Typed, here: str) -> Deed:
    gen = talk.gen
    if not typed.rest:
        return Page("Permission modes", modes_page(gen.policy.mode))
    gen.switch_mode(parse_mode(typed.rest))
    return Word(f"All agents of this session are in the mode {gen.policy.mode} from now on.")


async def _permissions(talk: Talk, typed: Typed, here: str) -> Deed:
    tool, rest = typed.first()
    if not tool:
        return Page("Permissions", rules_page(talk.gen))
    words = typed.words()[1:]
    given = words[0] if len(words) == 1 else rest
    from gencode.interfaces.chat.record_pages import explanation_page

    return Page("gen permissions explain", explanation_page(talk.gen, tool, given or "{}"))


async def _budget(talk: Talk, typed: Typed, here: str) -> Deed:
    words = typed.words()
    if words and {*words[0].lower()} <= {*hexdigits}:
        return await _budget_of(talk, words[0], words[1:])
    if words == ["none"]:
        await talk.gen.budgets.set_all(Budget(), talk.session)
    elif len(words) == 2 and words[0] in _KINDS:
        now = await talk.gen.budgets.of_conversation(talk.session)
        await talk.gen.budgets.set_all(bounded(now, words), talk.session)
    elif words:
        raise UserMistake("Say /budget tokens 200000, /budget usd 2.5, /budget spawns 8 or /budget none.")
    budget = await talk.gen.budgets.of_conversation(talk.session)
    return Page("Budget", budget_page(budget, await _as_written(talk), talk.session))


async def _budget_of(talk: Talk, task: str, words: Sequence[str]) -> Deed:
    """What one agent may spend, with everything below it, or another budget for it."""
    found = await talk.gen.find(task)
    now = await talk.gen.budgets.of_task(found)
    now = await talk.gen.set_budget(found.id, bounded(now, words)) if words else now
    page = bounds_page(now, await talk.gen.history.spent(found.id))
    return Page(f"Budget of {visible_line(found.agent)} {found.id}", page)


async def _cost(talk: Talk, typed: Typed, here: str) -> Deed:
    if talk.session is None:
        return Word("Nothing was asked yet, so nothing was spent.")
    return Page("Cost", cost_page(await _as_written(talk), talk.session))


async def _as_written(talk: Talk) -> View:
    """The agents of the conversation as the journals tell them, with what they spent in other processes."""
    if talk.session is None:
        return talk.view
    top = await talk.gen.find(talk.session)
    return View({each.id: seen(each) for each in (top, *await talk.gen.history.below(top.id))})


async def _compact(talk: Talk, typed: Typed, here: str) -> Deed:
    if talk.session is None:
        raise UserMistake("Nothing was asked yet, so there is nothing to sum up.")
    if talk.running:
        raise UserMistake("The agent is at work; interrupt it with Esc, or wait, then sum up.")
    done = await talk.compact()
    return Word(
        "What was said so far is summed up; nothing of it is lost." if done else "There is little to sum up."
    )


async def _skills(talk: Talk, typed: Typed, here: str) -> Deed:
    from gencode.interfaces.chat.record_pages import skills_page

    return Page("gen skills list", skills_page(talk.gen))


async def _servers(talk: Talk, typed: Typed, here: str) -> Deed:
    return Page("MCP servers", servers_page(talk.gen))


async def _export(talk: Talk, typed: Typed, here: str) -> Deed:
    task = here or talk.session
    if task is None:
        raise UserMistake("Nothing was asked yet, so there is nothing to export.")
    path = _written(
        talk.gen.workspace.cwd, typed.rest or f"gencode-{task}.jsonl", await talk.gen.export(task)
    )
    return Word(f"Wrote {path}; it can be read again with: gen task import {path}")


def _written(folder: Path, name: str, text: str) -> Path:
    """A new file; never one that is there already."""
    path = folder / Path(name).expanduser()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserMistake(f"{path} is there already; name another file: /export FILE.") from None
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}; name another file.") from None
    return path


async def _theme(talk: Talk, typed: Typed, here: str) -> Deed:
    if typed.rest not in ("", "dark", "light"):
        raise UserMistake("There are the themes dark and light.")
    return Show("theme", typed.rest)


async def _quit(talk: Talk, typed: Typed, here: str) -> Deed:
    return Show("quit")


def _needed(typed: Typed, here: str) -> str:
    """The id that was typed, or the agent that is looked at."""
    word = typed.first()[0] or here
    if not word:
        raise UserMistake(f"Say which agent: /{typed.name} ID. /tasks shows them all.")
    return word


_ACTS: dict[str, Callable[[Talk, Typed, str], Awaitable[Deed]]] = {
    "help": _help,
    "tasks": _tree,
    "task-status": _status,
    "open": _open,
    "background": _background,
    "steer": _steer,
    "resume": _resume,
    "fork": _fork,
    "sessions": _sessions,
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
    "export": _export,
    "theme": _theme,
    "quit": _quit,
}
