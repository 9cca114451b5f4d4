"""Shows the results of slash commands in the app: pages, lists, dialogs, an editor, quitting."""

import os
import shlex
from typing import TYPE_CHECKING

from gencode.core.errors import UserMistake
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.slash_commands import (
    CommandResult,
    ConfirmAction,
    Page,
    PickList,
    ShowView,
    StatusMessage,
    request_action,
)
from gencode.interfaces.chat.task_controls import TASK_ACTIONS
from gencode.interfaces.render.agent_view import busy, name_of
from gencode.interfaces.render.number_format import counted, local_time
from gencode.interfaces.render.rewind_text import file_line, point_text, preview_lines, result_lines
from gencode.interfaces.tui.dialogs import ChoiceScreen, ConfirmScreen, PageScreen, PickScreen
from gencode.interfaces.tui.external_editor import edit_file
from gencode.permissions.started_files import digests
from gencode.permissions.trust import standing, trust
from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.settings import gen_home

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp


async def show_result(app: "TerminalApp", chat: ChatSession, result: CommandResult) -> None:
    """Show the result of a command."""
    match result:
        case Page(title, text):
            app.push_screen(PageScreen(title, text))
        case StatusMessage(text):
            if text:
                app.show_notice(Notice(text))
        case PickList():
            await _pick(app, result)
        case ConfirmAction():
            await _confirm_action(app, chat, result)
        case ShowView():
            await _show_view(app, chat, result)


async def _confirm_action(app: "TerminalApp", chat: ChatSession, result: ConfirmAction) -> None:
    """Apply an action once the user has seen what it affects."""
    if await app.ask(ConfirmScreen(result.text)):
        await chat.apply_action(result.task, result.verb, result.message)


async def choose_action(app: "TerminalApp", chat: ChatSession, task: str) -> None:
    """Let the user choose what to do with an agent; what that affects is confirmed.

    Only what would do something is offered: a finished agent can be opened.
    """
    agent = chat.view.agents.get(task)
    if agent is None:
        return
    ended = agent.status.ended
    lines = [("open", "Open: show its transcript; what you type there is sent to it")]
    if not ended or busy(chat.view, task):
        lines += [(verb, says) for verb, says in TASK_ACTIONS.items() if not ended or verb == "tree"]
    if not (ended or agent.background or task == chat.session):
        lines.append(("background", "Background: let it continue there; you can keep typing"))
    if len(lines) == 1:
        app.open_agent(task)
        return
    match await app.ask(PickScreen(f"{name_of(agent)} ({task})", lines)):
        case None:
            pass
        case "open":
            app.open_agent(task)
        case "background":
            await _confirm_background(app, chat, task)
        case "interrupt" | "keep" | "stop" | "tree" as verb:
            await show_result(app, chat, await request_action(chat, task, verb))
        case _:
            pass


async def _confirm_background(app: "TerminalApp", chat: ChatSession, task: str) -> None:
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
        case "rewind":
            await _rewind(app, chat, result.what)
        case "new" | "opened":
            await app.show_session()
        case "edit":
            await edit_file(app, result.what)
        case "trust":
            await _trust(app, chat, result.what)
        case "theme":
            await _choose_theme(app, result.what)
        case "copy":
            await app.copy(result.what)
        case "quit":
            await app.quit()


async def _pick(app: "TerminalApp", found: PickList) -> None:
    """Run a command with what the user chooses, or let them finish it."""
    chosen = await app.ask(PickScreen(found.title, found.marked, found.now))
    if chosen is None:
        return
    if chosen.endswith("/"):
        app.top_transcript.composer.set_text(f"/{found.command} {chosen}")
    else:
        app.submit(f"/{found.command} {shlex.quote(chosen)}", app.top_transcript.task_id)


async def _choose_theme(app: "TerminalApp", name: str) -> None:
    """Use a theme; without a name the user chooses one."""
    lines = [(each, each) for each in sorted(app.available_themes)]
    if name or (name := await app.ask(PickScreen("Colours", lines, app.theme)) or ""):
        app.use_theme(name)
        app.show_notice(Notice(f'To keep these colours, write theme = "{name}" into your settings.toml.'))


async def _rewind(app: "TerminalApp", chat: ChatSession, session: str) -> None:
    """Go back to an earlier prompt, once the user has seen what that would change."""
    points = await chat.gen.rewind_points(session)
    lines = [
        (str(each.to), f"{local_time(each.at)}  {counted(each.files, 'file'):9} {point_text(each)}")
        for each in reversed(points)
    ]
    chosen = await app.ask(PickScreen("Rewind to before which prompt?", lines)) if lines else None
    if chosen is None:
        return
    folder = str(chat.gen.workspace.cwd)
    preview = await chat.gen.preview_rewind(session, int(chosen))
    files = any(each.state in ("ready", "changed") for each in preview.files)
    answers = [("both", "Conversation and files")] if files else []
    answers += [("conversation", "Conversation only")]
    answers += [("files", "Files only")] if files else []
    what = await app.ask(ChoiceScreen("\n".join(preview_lines(preview, folder)), [*answers, ("", "Cancel")]))
    if not what:
        return
    foreign = [each for each in preview.files if each.state == "changed"] if what != "conversation" else []
    also: str | None = "leave"
    if foreign:
        shown = "\n".join(file_line(each, folder) for each in foreign)
        text = f"These files were changed since by you or another program:\n{shown}"
        answers = [("leave", "Leave them as they are"), ("overwrite", "Restore them, too")]
        also = await app.ask(ChoiceScreen(text, answers))
    if also is None:
        return
    done = await chat.gen.rewind(
        session,
        preview.point.to,
        conversation=what != "files",
        files=what != "conversation",
        overwrite=also == "overwrite",
    )
    await chat.open(session)
    await app.show_session()
    if done.conversation:
        app.main.composer.set_text(preview.point.prompt)
    for line in result_lines(done, folder):
        app.show_notice(Notice(line))


async def _trust(app: "TerminalApp", chat: ChatSession, shown: str) -> None:
    """Trust the folder as it was shown, if a person says so and nothing changed meanwhile."""
    folder = chat.gen.workspace.root
    project = standing(folder, gen_home()).whole
    if project.state in ("nothing", "trusted"):
        app.push_screen(PageScreen("gen trust", shown))
        return
    if PROCESS_MARK in os.environ:
        raise UserMistake("Only a person can trust a folder, and an agent started this gen.")
    from gencode.app import started_if_trusted  # the first frame does not wait for it

    started = digests(started_if_trusted(project).files, folder)
    if not await app.ask(ConfirmScreen(shown, "trust this folder as it is now")):
        return
    now = standing(folder, gen_home()).whole
    if now.brought.files != project.brought.files or digests(started, folder) != started:
        raise UserMistake("The folder changed while you were reviewing it. Review it again.")
    trust(project, gen_home(), started)
    app.show_notice(Notice("Folder trusted. Restart gen to apply its settings."))
