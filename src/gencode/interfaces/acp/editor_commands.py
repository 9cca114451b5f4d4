"""What can be typed behind a slash in an editor, and what comes of it as text (surfaces, ACP)."""

from collections.abc import Awaitable, Callable, Iterator

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    UnstructuredCommandInput,
)

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.visible import visible, visible_line
from gencode.interfaces.acp.call_display import clipped, fenced
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.slash_commands import COMMANDS, Confirm, Page, Show, Word, act, parse
from gencode.interfaces.cli.task_transcript import transcript_text
from gencode.interfaces.render.agent_tree import rows
from gencode.interfaces.render.number_format import figures, name_of, state
from gencode.journal.store import TaskQuery

NOT_HERE = {
    "theme": "The editor has its own colours.",
    "quit": "Close the session in the editor; what was said is kept.",
    "new": "Begin a new session in the editor.",
    "sessions": "The editor lists the sessions of a folder; in a terminal: gen sessions list.",
}
"""The commands that an editor does itself, and what is said to whoever types one."""
OFFERED = tuple(each for each in COMMANDS if each.name not in NOT_HERE)
WAYS = {
    "edit": "Open the agent's file in the editor: ",
    "trust": "Trust the folder in a terminal, with: gen trust",
    "sessions": NOT_HERE["sessions"],
}
MOST_AGENTS = 100


def available() -> AvailableCommandsUpdate:
    """The commands, for an editor that completes them."""
    listed = [
        AvailableCommand(name=each.name, description=each.says, input=_input(each.words)) for each in OFFERED
    ]
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=listed)


async def perform(talk: Talk, text: str, sure: Callable[[str], Awaitable[bool]]) -> str:
    """Do what was typed; what came of it, as Markdown. `sure` is asked before anything is cut or ended."""
    typed = parse(text)
    if typed.name in NOT_HERE:
        raise UserMistake(NOT_HERE[typed.name])
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
                return "Nothing was done."
            await talk.strike(deed.task, deed.verb, deed.message)
            return ""
        case Show():
            return await _shown(talk, deed)


async def _shown(talk: Talk, deed: Show) -> str:
    match deed.place:
        case "tree":
            return fenced("\n".join(_tree(talk)) or "No agent was sent yet.")
        case "agent":
            return fenced(clipped(visible(await transcript_text(talk.gen, deed.what))))
        case "agents":
            found = talk.gen.agents.spawnable()
            lines = [f"{each.name}: {visible_line(each.description, 120)}" for each in found[:MOST_AGENTS]]
            return fenced("\n".join(lines))
        case "edit":
            return f"{WAYS['edit']}{visible_line(deed.what)}"
        case _:
            return WAYS.get(deed.place, "That needs the terminal app: gen.")


async def _check_resume(talk: Talk, task: str) -> None:
    """Another conversation is another session of the editor."""
    if not task or (await talk.gen.find(task)).conversation:
        there = await talk.gen.store.tasks(TaskQuery(parent=talk.session)) if talk.session else []
        ids = ", ".join(each.id for each in there[-10:]) or "none yet"
        raise UserMistake(
            f"Open another conversation in the editor's list of sessions; agents to resume here: {ids}."
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
