"""Slash commands in an editor, with their results as Markdown."""

from collections.abc import Awaitable, Callable, Iterator

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    UnstructuredCommandInput,
)

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.text import visible, visible_line
from gencode.interfaces.acp.tool_call_updates import clipped, fenced
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.slash_commands import COMMANDS, Confirm, Page, Show, Word, act, parse
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
    "sessions": BUILT_INTO_EDITOR["sessions"],
}
"""What to do where the terminal app would open a screen."""
MOST_AGENTS = 100


def available_commands() -> AvailableCommandsUpdate:
    """The commands, for the editor's completion."""
    listed = [
        AvailableCommand(name=each.name, description=each.says, input=_input(each.words)) for each in OFFERED
    ]
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=listed)


async def run_command(talk: Talk, text: str, sure: Callable[[str], Awaitable[bool]]) -> str:
    """Run a command; its result as Markdown. `sure` asks the user before anything is stopped."""
    typed = parse(text)
    if typed.name in BUILT_INTO_EDITOR:
        raise UserMistake(BUILT_INTO_EDITOR[typed.name])
    if typed.name == "help":
        return _help()
    if typed.name == "resume":
        await _check_resume(talk, typed.first()[0])
    deed = await act(talk, typed, talk.session or "")
    match deed:
        case Page(title, said):
            return f"**{visible_line(title)}**\n\n{fenced(clipped(visible(said)))}"
        case Word(said):
            return visible(said) or "Done."
        case Confirm():
            if not await sure(deed.text):
                return "Cancelled."
            await talk.apply_action(deed.task, deed.verb, deed.message)
            return ""
        case Show():
            return await _shown(talk, deed)


async def _shown(talk: Talk, deed: Show) -> str:
    match deed.place:
        case "tree":
            return fenced("\n".join(_tree(talk)) or "No subagents yet.")
        case "agent":
            return fenced(clipped(visible(await transcript_text(talk.gen, deed.what))))
        case "agents":
            found = talk.gen.agents.spawnable()
            lines = [f"{each.name}: {visible_line(each.description, 120)}" for each in found[:MOST_AGENTS]]
            return fenced("\n".join(lines))
        case "edit":
            return f"{INSTEAD['edit']}{visible_line(deed.what)}"
        case _:
            return INSTEAD.get(deed.place, "This command needs the terminal app: gen")


async def _check_resume(talk: Talk, task: str) -> None:
    """UserMistake for another conversation: an editor opens it as a session of its own."""
    if not task or (await talk.gen.find(task)).conversation:
        there = await talk.gen.history.tasks(TaskQuery(parent=talk.session)) if talk.session else []
        ids = ", ".join(each.id for each in there[-10:]) or "none yet"
        raise UserMistake(
            f"Open other conversations from the editor's list of sessions. Agents to resume here: {ids}."
        )


def _help() -> str:
    width = max(len(each.usage) for each in OFFERED if len(each.usage) < 30)
    return fenced("\n".join(f"{each.usage:{width}}  {each.says}" for each in OFFERED))


def _tree(talk: Talk) -> Iterator[str]:
    now = stamp()
    for row in rows(talk.view, talk.session):
        agent = row.agent
        yield f"{row.lead}{name_of(agent)} ({agent.id}) · {state(agent)} · {figures(agent, now)}"


def _input(words: str) -> AvailableCommandInput | None:
    return AvailableCommandInput(UnstructuredCommandInput(hint=words)) if words else None
