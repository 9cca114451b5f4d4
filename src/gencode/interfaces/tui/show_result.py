"""Shows the results of slash commands in the app: pages, lists, dialogs, an editor, quitting."""

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from gencode.core.errors import UserMistake
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.slash_commands import CommandResult, ConfirmAction, Page, ShowView, StatusMessage
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

MAX_SESSIONS = 200


async def show_result(app: "TerminalApp", chat: ChatSession, result: CommandResult) -> None:
    """Show the result of a command."""
    match result:
        case Page(title, text):
            app.push_screen(PageScreen(title, text))
        case StatusMessage(text):
            if text:
                app.show_notice(Notice(text))
        case ConfirmAction():
            await _confirm_action(app, chat, result)
        case ShowView():
            await _show_view(app, chat, result)


async def _confirm_action(app: "TerminalApp", chat: ChatSession, result: ConfirmAction) -> None:
    """Apply an action once the user has seen what it affects."""
    if await app.ask(ConfirmScreen(result.text)):
        await chat.apply_action(result.task, result.verb, result.message)


async def confirm_background(app: "TerminalApp", chat: ChatSession, task: str) -> None:
    """Move an agent to the background once the user has confirmed it."""
    agent = chat.view.agents.get(task)
    if agent is None or task == chat.session or agent.background or agent.status.ended:
        raise UserMistake("Only a running foreground agent can move to the background.")
    text = f"{name_of(agent)} ({task}) will continue in the background."
    if await app.ask(ConfirmScreen(text)):
        await chat.move_to_background(task)


async def _show_view(app: "TerminalApp", chat: ChatSession, result: ShowView) -> None:
    match result.place:
        case "tree":
            app.show_tree()
        case "agent":
            app.open_agent(result.what)
        case "sessions":
            await _pick_session(app, chat)
        case "agents":
            await _pick_agent(app, chat)
        case "new" | "opened":
            await app.show_session()
        case "edit":
            _edit(app, result.what)
        case "trust":
            await _trust(app, chat, result.what)
        case "theme":
            app.use_theme(result.what)
        case "quit":
            await app.quit()


async def _pick_session(app: "TerminalApp", chat: ChatSession) -> None:
    query = TaskQuery(cwd=str(chat.gen.workspace.cwd), conversations=True)
    found = sorted(await chat.gen.history.tasks(query), key=lambda task: task.touched_at, reverse=True)
    if not found:
        raise UserMistake("No earlier conversation in this folder.")
    lines = [
        (
            task.id,
            f"{task.id}  {task.touched_at[:16].replace('T', ' ')}  {task.status:13} "
            f"{turns(task.totals.turns):9} {visible_line(task.created.prompt, 100)}",
        )
        for task in found[:MAX_SESSIONS]
    ]
    if chosen := await app.ask(PickScreen("Conversations of this folder", lines)):
        await chat.open(chosen)
        await app.show_session()


async def _pick_agent(app: "TerminalApp", chat: ChatSession) -> None:
    lines = [
        (spec.name, f"{spec.name:18} {spec.mode or 'inherited'!s:12} {visible_line(spec.description, 120)}")
        for spec in chat.gen.agents.spawnable()
    ]
    if chosen := await app.ask(PickScreen("Available agents", lines)):
        app.submit(f"/agents {shlex.quote(chosen)}", app.main.task_id)


def _edit(app: "TerminalApp", path: str) -> None:
    """Open a file in the person's own editor."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        with app.suspend():
            subprocess.run([*editor, path], check=False)
    except SuspendNotSupported:
        raise UserMistake(f"Cannot open an editor here. Edit {path} yourself.") from None
    except OSError as error:
        raise UserMistake(
            f"Cannot start the editor {editor[0]}: {error.strerror}. Set EDITOR to another one."
        ) from None


async def _trust(app: "TerminalApp", chat: ChatSession, shown: str) -> None:
    """Trust the folder as it was shown, if a person says so and nothing changed meanwhile."""
    folder = chat.gen.workspace.root
    project = standing(folder, gen_home())
    if project.state in ("nothing", "trusted"):
        app.push_screen(PageScreen("gen trust", shown))
        return
    if PROCESS_MARK in os.environ:
        raise UserMistake("Only a person can trust a folder, and an agent started this gen.")
    from gencode.app import started_if_trusted  # the first frame does not wait for it

    started = digests(started_if_trusted(project).files, folder)
    if not await app.ask(ConfirmScreen(shown, "trust this folder as it is now")):
        return
    now = standing(folder, gen_home())
    if now.brought.files != project.brought.files or digests(started, folder) != started:
        raise UserMistake("The folder changed while you were reviewing it. Review it again.")
    trust(project, gen_home(), started)
    app.show_notice(Notice("Folder trusted. Restart gen to apply its settings."))
