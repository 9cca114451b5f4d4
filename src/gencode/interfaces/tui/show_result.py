"""What commands lead to on this screen: pages, lists, dialogs, an editor, and the way out."""

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from gencode.core.errors import UserMistake
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.slash_commands import Confirm, Deed, Page, Show, Word
from gencode.interfaces.render.agent_view import name_of
from gencode.interfaces.render.number_format import turns
from gencode.interfaces.tui.dialogs import ConfirmScreen, PageScreen, PickScreen
from gencode.journal.store import TaskQuery
from gencode.permissions.started_files import digests
from gencode.permissions.trust import standing, trust
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import gen_home

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

MOST_SESSIONS = 200


async def perform(app: "TerminalApp", talk: Talk, deed: Deed) -> None:
    """Show what came of a command."""
    match deed:
        case Page(title, text):
            app.push_screen(PageScreen(title, text))
        case Word(text):
            if text:
                app.tell(Notice(text))
        case Confirm():
            await _confirmed(app, talk, deed)
        case Show():
            await _shown(app, talk, deed)


async def _confirmed(app: "TerminalApp", talk: Talk, deed: Confirm) -> None:
    """Do what cuts or ends once a person has seen what it hits."""
    if await app.ask(ConfirmScreen(deed.text)):
        await talk.apply_action(deed.task, deed.verb, deed.message)


async def sent_back(app: "TerminalApp", talk: Talk, task: str) -> None:
    """Send an agent to the background once a person has seen which."""
    agent = talk.view.agents.get(task)
    if agent is None or task == talk.session or agent.background or agent.status.ended:
        raise UserMistake("Only an agent that somebody waits for can be sent to the background.")
    text = f"Background: {name_of(agent)} ({task}) goes on by itself; nobody waits for it any more."
    if await app.ask(ConfirmScreen(text)):
        await talk.move_to_background(task)


async def _shown(app: "TerminalApp", talk: Talk, deed: Show) -> None:
    match deed.place:
        case "tree":
            app.show_tree()
        case "agent":
            app.look_at(deed.what)
        case "sessions":
            await _pick_session(app, talk)
        case "agents":
            await _pick_agent(app, talk)
        case "new" | "opened":
            await app.show_session()
        case "edit":
            _edit(app, deed.what)
        case "trust":
            await _trust(app, talk, deed.what)
        case "theme":
            app.use_theme(deed.what)
        case "quit":
            await app.leave()


async def _pick_session(app: "TerminalApp", talk: Talk) -> None:
    query = TaskQuery(cwd=str(talk.gen.workspace.cwd), conversations=True)
    found = sorted(await talk.gen.history.tasks(query), key=lambda task: task.touched_at, reverse=True)
    if not found:
        raise UserMistake("There is no earlier conversation in this folder.")
    lines = [
        (
            task.id,
            f"{task.id}  {task.touched_at[:16].replace('T', ' ')}  {task.status:13} "
            f"{turns(task.totals.turns):9} {visible_line(task.created.prompt, 100)}",
        )
        for task in found[:MOST_SESSIONS]
    ]
    if chosen := await app.ask(PickScreen("Conversations of this folder", lines)):
        await talk.open(chosen)
        await app.show_session()


async def _pick_agent(app: "TerminalApp", talk: Talk) -> None:
    lines = [
        (spec.name, f"{spec.name:18} {spec.mode or 'inherited'!s:12} {visible_line(spec.description, 120)}")
        for spec in talk.gen.agents.spawnable()
    ]
    if chosen := await app.ask(PickScreen("Agents that can be sent", lines)):
        app.typed(f"/agents {shlex.quote(chosen)}", app.main.whose)


def _edit(app: "TerminalApp", path: str) -> None:
    """Open a file in the person's own editor."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        with app.suspend():
            subprocess.run([*editor, path], check=False)
    except SuspendNotSupported:
        raise UserMistake(f"No editor can be opened from here; edit {path} yourself.") from None
    except OSError as error:
        raise UserMistake(
            f"The editor {editor[0]} cannot be started: {error.strerror}; set EDITOR."
        ) from None


async def _trust(app: "TerminalApp", talk: Talk, shown: str) -> None:
    """Trust the folder as it was shown, if a person says so and nothing changed meanwhile."""
    folder = talk.gen.workspace.root
    project = standing(folder, gen_home())
    if project.state in ("nothing", "trusted"):
        app.push_screen(PageScreen("gen trust", shown))
        return
    if PROCESS_MARK in os.environ:
        raise UserMistake("Only a person trusts a folder, and this was run by an agent.")
    from gencode.app import started_if_trusted  # the first frame does not wait for it

    started = digests(started_if_trusted(project).files, folder)
    if not await app.ask(ConfirmScreen(shown, "trust it as it is now")):
        return
    now = standing(folder, gen_home())
    if now.brought.files != project.brought.files or digests(started, folder) != started:
        raise UserMistake("The folder has changed since it was shown; look at it again.")
    trust(project, gen_home(), started)
    app.tell(Notice("The folder is trusted as it is; its settings count when gen is started again."))
