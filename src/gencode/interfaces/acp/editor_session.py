"""One ACP session: an open GenCode with its conversation, its id in the editor, and its modes and models.

An editor has an id for a session before the first prompt, and keeps it. The conversation gets this id with
the first prompt; until then only a file knows it. Earlier versions gave out other ids, which that file maps.
Full autonomy has to be typed: an editor cycles through the modes it is offered, so `dontAsk` is offered only
where it is in use already.
"""

import argparse
import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp.schema import (
    ConfigOptionUpdate,
    CurrentModeUpdate,
    PromptResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionMode,
    SessionModeState,
)
from msgspec import Struct

from gencode.agent.models import TIERS
from gencode.app import CLOSING, SCREEN_WAIT, TOOLS, GenCode
from gencode.channels.address import Address
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.events import Event
from gencode.core.ids import stamp
from gencode.core.rules import Mode, parse_mode
from gencode.core.text import visible_line
from gencode.interfaces.acp import editor_commands
from gencode.interfaces.acp.editor_client import EditorClient, UpdateQueue
from gencode.interfaces.acp.editor_files import EditorFiles
from gencode.interfaces.acp.permission_prompts import EditorPerson
from gencode.interfaces.acp.prompts import (
    NO_AUDIO,
    Block,
    PendingPrompts,
    command_in,
    has_audio,
    prompt_pictures,
    prompt_text,
)
from gencode.interfaces.acp.session_updates import FileDiffs, SessionUpdates, replay
from gencode.interfaces.chat.chat_addresses import ChatAddresses
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.info_pages import CYCLE, MODES
from gencode.interfaces.chat.notices import Notice, report_errors
from gencode.interfaces.cli.open_session import check, flags
from gencode.interfaces.render.agent_view import busy
from gencode.places import workspace_at
from gencode.questions.question_desk import QuestionDesk
from gencode.settings import gen_home, remember

log = logging.getLogger(__name__)

TITLE_ROOM = 80


class SessionRequest(Struct, frozen=True):
    """How to open a session: its folder, options, the editor's MCP servers, and notices for the user."""

    folder: Path
    args: argparse.Namespace
    servers: dict[str, Any] = {}
    notes: Sequence[str] = ()


class UnknownSession(UserMistake):
    """A session does not exist, or is not open."""


class EditorSession:
    """One session. Its GenCode is open in a task of its own until the session is closed."""

    def __init__(self, name: str, request: SessionRequest, editor: EditorClient, *, held: bool) -> None:
        self.id = name
        self.folder = workspace_at(request.folder).cwd
        self.out = UpdateQueue(
            lambda update: editor.client.session_update(session_id=name, update=update), held=held
        )
        self._request = request
        self._changes: FileDiffs = {}
        self._files = EditorFiles(editor, name, self.folder, self._changes)
        self._updates = SessionUpdates(self.out, self.folder, self._changes, self._context)
        self._person = EditorPerson(editor, name, self._updates)
        self._prompts = PendingPrompts()
        self._cancelling = asyncio.Lock()
        self._closing = asyncio.Event()
        self._chat: ChatSession | None = None
        self._unsent_notices: list[Notice] | None = []
        self._chosen = ("", "")
        self._offered: frozenset[str] = frozenset()
        """The modes that the editor was offered; it is not told of others."""
        self._model = ""
        self._titled = False
        self._addresses = SessionNames(gen_home(), self.folder)
        self._living: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open GenCode in the session's folder, or raise why that fails."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._living = asyncio.create_task(self._live(ready))
        await asyncio.wait([ready, self._living], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await self._living

    def reserve_id(self) -> None:
        """Give the conversation the id of the session; it is created with the first prompt."""
        self.chat.reserve_id(self.id)
        try:
            self._addresses.bind(self.id, self.id)
        except UserMistake as mistake:  # it works all the same, and can be loaded after the first prompt
            log.warning("session %s cannot be loaded before its first prompt: %s", self.id, mistake)

    def send_commands(self) -> None:
        """Send the slash commands, and the notices about the folder and the model."""
        self.out.add(editor_commands.available_commands(self.chat.gen.commands))
        late, self._unsent_notices = self._unsent_notices, None
        for notice in late or ():
            self._updates.add_notice(notice)

    async def open(self, session: str, *, replayed: bool) -> None:
        """Continue an earlier conversation of this folder, or a session without prompts so far."""
        chat = self.chat
        try:
            found = await chat.gen.find(self._addresses.session(session), conversation=True)
        except UnknownName as unknown:
            if not self._addresses.is_known(session):
                raise UnknownSession(str(unknown)) from None
            chat.reserve_id(session)
            return
        if found.cwd != str(self.folder):
            raise UserMistake(f"The conversation {session} belongs to {found.cwd}; open it there.")
        await chat.open(found.id)
        self._titled = True
        if replayed:
            await replay(chat, self._updates)
        else:
            self._updates.follow(chat, await chat.transcript(found.id))

    async def replay(self) -> None:
        """Send the conversation so far once more."""
        await replay(self.chat, self._updates)

    @property
    def chat(self) -> ChatSession:
        """The conversation."""
        if self._chat is None:
            raise UserMistake("The session is closed.")
        return self._chat

    @property
    def gen(self) -> GenCode:
        """The GenCode of this session."""
        return self.chat.gen

    @property
    def modes(self) -> SessionModeState:
        """The permission modes that the editor may offer."""
        found = session_modes(self.gen)
        self._offered = frozenset(each.id for each in found.available_modes)
        return found

    @property
    def options(self) -> list[SessionConfigOptionSelect]:
        """The settings that the editor may offer: mode and model."""
        return config_options(self.gen, self._model)

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Send a prompt, and wait until the main agent has answered."""
        text = prompt_text(blocks, self.folder).strip()
        if command := command_in(blocks, text, self.chat.gen.commands):
            return await self._command(command)
        images = prompt_pictures(blocks)
        prompt = self._prompts.begin()
        try:
            await self.chat.send(text, images)
            if has_audio(blocks):
                self._notify(Notice(NO_AUDIO, "warning"))
            self._bind(text)
            if prompt.cancelled:
                await self.chat.interrupt()
            reason = await prompt.reason
            async with self._cancelling:  # so that the updates of a cancelled turn come first
                pass
        finally:
            self._prompts.forget(prompt)
            await self.out.flush()
        return PromptResponse(stop_reason=reason)

    async def cancel(self) -> None:
        """Interrupt the turn and the subagents it waits for; background tasks continue."""
        async with self._cancelling:
            self._prompts.cancel()
            await self.chat.interrupt()

    def switch(self, mode: str) -> None:
        """Change the permission mode, for all agents at once."""
        switch_mode(self.gen, mode)
        self._send_choices()

    def use(self, model: str) -> None:
        """Change the model, from the next turn on."""
        self.gen.models.use(model)
        self._model = model
        self._send_choices()

    async def close(self) -> None:
        """Stop what is running here; the conversation is kept."""
        self._closing.set()
        self._prompts.end()
        if self._living is not None:
            await asyncio.wait([self._living])
            if not self._living.cancelled() and (trouble := self._living.exception()):
                log.error("session %s failed", self.id, exc_info=trouble)

    async def _live(self, ready: "asyncio.Future[None]") -> None:
        request = self._request
        settings = flags(request.args)
        if request.servers:
            settings["mcp_servers"] = request.servers
        # An editor shows only the questions of its own sessions, so the desk needs no audience.
        asker = QuestionDesk(self._person, audience=None, always=remember)
        tools = self._files.wrap(TOOLS)
        async with GenCode.open(self.folder, settings=settings, tools=tools, asker=asker) as gen:
            gen.mcp_servers.wait_at_most(SCREEN_WAIT)
            told = check(gen, request.args)
            self._model = gen.settings.model or gen.models.usual[0]
            self._chosen = (str(gen.policy.mode), self._model)
            chat = ChatSession(gen, on_event=self._add_event, on_notice=self._notify, relays_questions=False)
            self._updates.follow(chat)
            self._chat = chat
            work = [asyncio.create_task(chat.listen()), asyncio.create_task(self.out.send_all())]
            work[0].add_done_callback(self._listening_ended)
            work[1].add_done_callback(self._sending_ended)
            work.append(asyncio.create_task(report_errors(self._try_servers(gen), self._notify)))
            for line in (*told.splitlines(), *request.notes):
                self._notify(Notice(line, "warning"))
            await asyncio.sleep(0)  # so that it listens before anything is said
            ready.set_result(None)
            try:
                await self._closing.wait()
                gen.running.stop(CLOSING)
                await gen.running.settle()
            finally:
                self._chat = None
                for each in work:
                    each.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                await chat.close()

    async def _try_servers(self, gen: GenCode) -> None:
        """Warn about the editor's MCP servers that do not work, once each was tried."""
        if not self._request.servers:
            return
        await gen.mcp_servers.ready()
        for each in gen.mcp_servers.status():
            if each.name in self._request.servers and each.state not in ("ready", "off"):
                state = "has not answered yet" if each.state == "starting" else "could not be started"
                why = f": {each.why}" if each.why else ""
                self._notify(Notice(f"The MCP server {each.name} {state}{why}", "warning"))

    def _listening_ended(self, listening: "asyncio.Task[None]") -> None:
        """Answer the prompts with an error: without events nothing else would ever answer them."""
        if not listening.cancelled() and (trouble := listening.exception()):
            log.error("session %s receives no events any more", self.id, exc_info=trouble)
            self._prompts.fail(f"The journal cannot be followed any more: {trouble}")

    def _sending_ended(self, sending: "asyncio.Task[None]") -> None:
        if not sending.cancelled() and (trouble := sending.exception()):
            log.error("session %s cannot send updates any more", self.id, exc_info=trouble)
            self._prompts.fail(f"The updates of this session cannot be sent any more: {trouble}")

    def _notify(self, notice: Notice) -> None:
        """Send a notice, or keep it until the session has its commands."""
        if self._unsent_notices is None:
            self._updates.add_notice(notice)
        else:
            self._unsent_notices.append(notice)

    def _add_event(self, event: Event) -> None:
        self._updates.add_event(event)
        chat = self._chat
        if chat is None or chat.session is None or event.task != chat.session:
            return
        lead = chat.main_agent
        working = bool(busy(chat.view, chat.session))
        self._prompts.add_event(event, idle=lead is not None and lead.resting, busy=working)

    async def _command(self, text: str) -> PromptResponse:
        typed = text.split(maxsplit=1)
        try:
            said = await editor_commands.run_command(self.chat, text, self._person.confirm)
            if typed[0] == "/model" and len(typed) > 1:
                self._model = typed[1]
        except UserMistake as mistake:
            said = str(mistake)
        if said:
            self.out.add_text("agent_message_chunk", said)
            self.out.end_message()
        self._send_choices()
        await self.out.flush()
        return PromptResponse(stop_reason="end_turn")

    def _bind(self, text: str) -> None:
        """Map the editor's id of this session to the conversation, now that there is one."""
        session = self.chat.session
        if session is None or self._titled:
            return
        self._titled = True
        if session != self.id:  # the id was taken meanwhile
            try:
                self._addresses.bind(self.id, session)
            except UserMistake as mistake:
                self.out.add_note(f"{mistake} To load this session again, use its id {session}.")
        title = visible_line(text, TITLE_ROOM)
        self.out.add(SessionInfoUpdate(session_update="session_info_update", title=title, updated_at=stamp()))

    def _send_choices(self) -> None:
        """Send the current mode and model if they have changed."""
        chosen = (str(self.gen.policy.mode), self._model)
        if chosen == self._chosen:
            return
        self._chosen = chosen
        if chosen[0] in self._offered:
            self.out.add(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=chosen[0]))
        self.out.add(
            ConfigOptionUpdate(session_update="config_option_update", config_options=[*self.options])
        )

    def _context(self, model: str) -> int | None:
        """The context window of a model in tokens, where it is known."""
        return self.gen.settings.context_tokens or self.gen.models.price(model).context


FILE = "acp_sessions.jsonl"
CHANNEL = "acp"


class SessionNames:
    """The editors' ids of the sessions of one folder, in a file that only grows."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self._chats = ChatAddresses(home / FILE, cwd)

    def session(self, name: str) -> str:
        """The conversation of a session id."""
        return self._chats.find(Address(CHANNEL, name)) or name

    def is_known(self, name: str) -> bool:
        """Whether a session id was given out, also before the first prompt."""
        return self._chats.find(Address(CHANNEL, name)) is not None

    def name(self, session: str) -> str:
        """The session id of a conversation."""
        line = self._chats.of(session)
        return line.address.removeprefix(f"{CHANNEL}:") if line else session

    def bind(self, name: str, session: str) -> None:
        """Map a session id to a conversation."""
        self._chats.bind(Address(CHANNEL, name), session)


MODE, MODEL = "mode", "model"
OFFERED = (*CYCLE, Mode.UNATTENDED)
NOT_OFFERED = "dontAsk never asks for approval, so it has to be typed: /mode dontAsk"


def session_modes(gen: GenCode) -> SessionModeState:
    """The permission modes to choose from, and the current one."""
    now = gen.policy.mode
    listed = [SessionMode(id=str(mode), name=str(mode), description=MODES[mode]) for mode in _offered(now)]
    return SessionModeState(current_mode_id=str(now), available_modes=listed)


def config_options(gen: GenCode, model: str) -> list[SessionConfigOptionSelect]:
    """Mode and model as settings; `model` is the name that was chosen."""
    now = gen.policy.mode
    of_mode = [_option(str(mode), MODES[mode]) for mode in _offered(now)]
    of_model = [_option(name, said) for name, said in model_choices(gen, model)]
    return [
        SessionConfigOptionSelect(
            id=MODE,
            name="Permission mode",
            description="What agents may do without approval",
            category="mode",
            type="select",
            current_value=str(now),
            options=of_mode,
        ),
        SessionConfigOptionSelect(
            id=MODEL,
            name="Model",
            description="The model, from the next turn on",
            category="model",
            type="select",
            current_value=model,
            options=of_model,
        ),
    ]


def model_choices(gen: GenCode, chosen: str) -> list[tuple[str, str]]:
    """The chosen model and the tiers, each with the model it stands for."""
    found = {chosen: _resolved(gen, chosen)}
    for tier in TIERS:
        if name := _resolved(gen, tier):
            found.setdefault(tier, name)
    return list(found.items())


def switch_mode(gen: GenCode, mode: str) -> Mode:
    """Change the permission mode; UserMistake for one that is not offered."""
    wanted = parse_mode(mode)
    if wanted not in _offered(gen.policy.mode):
        raise UserMistake(NOT_OFFERED)
    gen.switch_mode(wanted)
    return wanted


def _offered(now: Mode) -> tuple[Mode, ...]:
    return OFFERED if now in OFFERED else (*OFFERED, now)


def _resolved(gen: GenCode, name: str) -> str:
    try:
        return gen.models.resolve(name).name
    except UserMistake:
        return ""


def _option(value: str, said: str) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(
        value=value, name=visible_line(value, 80), description=visible_line(said)
    )
