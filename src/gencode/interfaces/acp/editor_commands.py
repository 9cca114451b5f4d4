"""Slash commands in an editor, with their results as Markdown."""

from collections.abc import Awaitable, Callable, Iterator

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    UnstructuredCommandInput,
)

from gencode.app import CommandFiles
from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.text import visible, visible_line
from gencode.interfaces.acp.tool_call_updates import clipped, fenced
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.slash_commands import (
    COMMANDS,
    ConfirmAction,
    Page,
    PickList,
    ShowView,
    StatusMessage,
    from_files,
    help_text,
    parse_command,
    run_slash_command,
)
from gencode.interfaces.render.agent_view import figures, name_of, rows, state
from gencode.interfaces.render.transcript import transcript_text
from gencode.journal.store import TaskQuery

BUILT_INTO_EDITOR = {
    "theme": "Themes belong to the editor; choose one in its settings.",
    "quit": "Close the session in the editor; the conversation is saved.",
    "new": "Start a new session in the editor.",
    "sessions": "Open the list of sessions in the editor, or run: gen sessions list",
}
"""The commands that an editor has itself, and the reply to a user who types one."""
OFFERED = tuple(each for each in COMMANDS if each.name not in BUILT_INTO_EDITOR)
INSTEAD = {
    "edit": "Open the agent's file in the editor: ",
    "trust": "To trust the folder, run in a terminal: gen trust",
}
"""What to do where the terminal app would open a screen."""


def available_commands(files: CommandFiles) -> AvailableCommandsUpdate:
    """The commands, those from files too, for the editor's completion."""
    listed = [
        AvailableCommand(name=each.name, description=each.says, input=_input(each.words))
        for each in (*OFFERED, *from_files(files))
    ]
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=listed)


async def run_command(chat: ChatSession, text: str, sure: Callable[[str], Awaitable[bool]]) -> str:
    """Run a command; its result as Markdown. `sure` asks the user before anything is stopped."""
    typed = parse_command(text)
    if typed.name in BUILT_INTO_EDITOR:
        raise UserMistake(BUILT_INTO_EDITOR[typed.name])
    if typed.name == "help":
        return _help(chat.gen.commands)
    if typed.name == "resume":
        await _check_resume(chat, typed.first()[0])
    result = await run_slash_command(chat, typed, chat.session or "")
    match result:
        case Page(title, said):
            return f"**{visible_line(title)}**\n\n{fenced(clipped(visible(said)))}"
        case PickList():
            return f"**{visible_line(result.title)}**\n\n{fenced(clipped(result.text))}"
        case StatusMessage(said):
            return visible(said) or "Done."
        case ConfirmAction():
            if not await sure(result.text):
                return "Cancelled."
            await chat.apply_action(result.task, result.verb, result.message)
            return ""
        case ShowView():
            return await _shown(chat, result)


async def _shown(chat: ChatSession, result: ShowView) -> str:
    match result.place:
        case "tree":
            return fenced("\n".join(_tree(chat)) or "No subagents yet.")
        case "agent":
            return fenced(clipped(visible(await transcript_text(chat.gen, result.what))))
        case "edit":
            return f"{INSTEAD['edit']}{visible_line(result.what)}"
        case _:
            return INSTEAD.get(result.place, "This command needs the terminal app: gen")


async def _check_resume(chat: ChatSession, task: str) -> None:
    """UserMistake for another conversation: an editor opens it as a session of its own."""
    if not task or (await chat.gen.find(task)).conversation:
        there = await chat.gen.history.tasks(TaskQuery(parent=chat.session)) if chat.session else []
        ids = ", ".join(each.id for each in there[-10:]) or "none yet"
        raise UserMistake(
            f"Open other conversations from the editor's list of sessions. Agents to resume here: {ids}."
        )


def _help(files: CommandFiles) -> str:
    return fenced(help_text((*OFFERED, *from_files(files))))


def _tree(chat: ChatSession) -> Iterator[str]:
    now = stamp()
    for row in rows(chat.view, chat.session):
        agent = row.agent
        yield f"{row.lead}{name_of(agent)} ({agent.id}) · {state(agent)} · {figures(agent, now)}"


def _input(words: str) -> AvailableCommandInput | None:
    return AvailableCommandInput(UnstructuredCommandInput(hint=words)) if words else None
