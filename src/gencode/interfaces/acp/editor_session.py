"""One session of an editor: an open GenCode, its conversation, and what is told of it (surfaces, ACP)."""

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
    SessionInfoUpdate,
    SessionModeState,
)
from msgspec import Struct

from gencode.app import SCREEN_WAIT, TOOLS, GenCode
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.events import Event
from gencode.core.ids import stamp
from gencode.core.visible import visible_line
from gencode.interfaces.acp import editor_commands, session_options
from gencode.interfaces.acp.editor import Editor
from gencode.interfaces.acp.editor_files import Buffers
from gencode.interfaces.acp.permission_prompts import EditorPerson
from gencode.interfaces.acp.prompt_results import Prompts
from gencode.interfaces.acp.prompts import (
    NO_SOUNDS,
    Block,
    command_in,
    has_sounds,
    prompt_pictures,
    prompt_text,
)
from gencode.interfaces.acp.session_addresses import Addresses
from gencode.interfaces.acp.session_replay import replay
from gencode.interfaces.acp.session_updates import Changes, Narrator
from gencode.interfaces.acp.update_queue import Outbox
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice, report_errors
from gencode.interfaces.cli.open_session import check, flags
from gencode.interfaces.render.agent_tree import busy
from gencode.places import workspace_at
from gencode.questions.question_desk import QuestionDesk
from gencode.settings import gen_home, remember
from gencode.tasks.supervisor import CLOSING

log = logging.getLogger(__name__)

TITLE_ROOM = 80


class Wish(Struct, frozen=True):
    """What a session is opened with: its folder, the settings that were typed, and what is said of it."""

    folder: Path
    args: argparse.Namespace
    servers: dict[str, Any] = {}
    notes: Sequence[str] = ()


class SessionMissing(UserMistake):
    """A session that is not there, or not open."""


class Conversation:
    """One session. It lives in a task of its own until it is closed."""

    def __init__(self, name: str, wish: Wish, editor: Editor, *, held: bool) -> None:
        self.id = name
        self.folder = workspace_at(wish.folder).cwd
        self.out = Outbox(
            lambda update: editor.client.session_update(session_id=name, update=update), held=held
        )
        self._wish = wish
        self._changes: Changes = {}
        self._buffers = Buffers(editor, name, self.folder, self._changes)
        self._narrator = Narrator(self.out, self.folder, self._changes, self._context)
        self._person = EditorPerson(editor, name, self._narrator)
        self._prompts = Prompts()
        self._cutting = asyncio.Lock()
        self._closing = asyncio.Event()
        self._chat: ChatSession | None = None
        self._late: list[Notice] | None = []
        self._chosen = ("", "")
        self._offered: frozenset[str] = frozenset()
        """The modes that the editor was offered; it knows no others."""
        self._model = ""
        self._titled = False
        self._addresses = Addresses(gen_home(), self.folder)
        self._living: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open GenCode in the session's folder; what is wrong with that is raised."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._living = asyncio.create_task(self._live(ready))
        await asyncio.wait([ready, self._living], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await self._living

    def begin(self) -> None:
        """Give its name out, which the conversation gets as its id once something is said."""
        self.chat.reserved_id = self.id
        try:
            self._addresses.bind(self.id, self.id)
        except UserMistake as mistake:  # it can be used all the same, and loaded once something was said
            log.warning("the session %s cannot be loaded before anything is said: %s", self.id, mistake)

    def greet(self) -> None:
        """Say what can be typed here, and what should be known of the folder and the model."""
        self.out.show(editor_commands.available())
        late, self._late = self._late, None
        for notice in late or ():
            self._narrator.tell(notice)

    async def open(self, session: str, *, retold: bool) -> None:
        """Go on with an earlier conversation of this folder, or with one in which nothing was said yet."""
        chat = self.chat
        try:
            found = await chat.gen.records.find(self._addresses.session(session), conversation=True)
        except UnknownName as unknown:
            if not self._addresses.is_known(session):
                raise SessionMissing(str(unknown)) from None
            chat.reserved_id = session
            return
        if found.cwd != str(self.folder):
            raise UserMistake(f"{session} is a conversation in {found.cwd}; open it there.")
        await chat.open(found.id)
        self._titled = True
        if retold:
            await replay(chat, self._narrator)
        else:
            self._narrator.lead(chat, await chat.transcript(found.id))

    async def retell(self) -> None:
        """Tell once more what was said so far."""
        await replay(self.chat, self._narrator)

    @property
    def chat(self) -> ChatSession:
        """The conversation."""
        if self._chat is None:
            raise UserMistake("The session is closed.")
        return self._chat

    @property
    def gen(self) -> GenCode:
        """What runs it."""
        return self.chat.gen

    @property
    def modes(self) -> SessionModeState:
        """The permission modes to choose from, as the editor is offered them."""
        found = session_options.modes(self.gen)
        self._offered = frozenset(each.id for each in found.available_modes)
        return found

    @property
    def options(self) -> list[SessionConfigOptionSelect]:
        """Everything there is to choose."""
        return session_options.options(self.gen, self._model)

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """Say something, and wait until the leading agent has answered."""
        text = prompt_text(blocks, self.folder).strip()
        if command := command_in(blocks, text):
            return await self._command(command)
        images = prompt_pictures(blocks)
        prompt = self._prompts.begin()
        try:
            await self.chat.send(text, images)
            if has_sounds(blocks):
                self._tell(Notice(NO_SOUNDS, "warning"))
            self._bind(text)
            if prompt.cancelled:
                await self.chat.interrupt()
            reason = await prompt.over
            async with self._cutting:  # so that what was cut is told first
                pass
        finally:
            self._prompts.forget(prompt)
            await self.out.flush()
        return PromptResponse(stop_reason=reason)

    async def cancel(self) -> None:
        """Cut the turn and the agents it waits for; those in the background go on, and that is said."""
        async with self._cutting:
            self._prompts.cancel()
            await self.chat.interrupt()

    def switch(self, mode: str) -> None:
        """Go on in another permission mode, which reaches every agent at once."""
        session_options.switch(self.gen, mode)
        self._tell_choices()

    def use(self, model: str) -> None:
        """Let another model answer from the next turn on."""
        self.gen.session.model.use(model)
        self._model = model
        self._tell_choices()

    async def close(self) -> None:
        """Stop what still runs here; everything that was said is kept."""
        self._closing.set()
        self._prompts.end()
        if self._living is not None:
            await asyncio.wait([self._living])
            if not self._living.cancelled() and (trouble := self._living.exception()):
                log.error("the session %s ended by a fault", self.id, exc_info=trouble)

    async def _live(self, ready: "asyncio.Future[None]") -> None:
        wish = self._wish
        settings = flags(wish.args)
        if wish.servers:
            settings["mcp_servers"] = wish.servers
        # An editor asks its own user, and shows questions of what it runs itself.
        asker = QuestionDesk(self._person, audience=None, always=remember)
        tools = self._buffers.over(TOOLS)
        async with GenCode.open(self.folder, settings=settings, tools=tools, asker=asker) as gen:
            gen.servers.patience = SCREEN_WAIT
            told = check(gen, wish.args)
            self._model = gen.settings.model or gen.session.model.usual[0]
            self._chosen = (str(gen.root.policy.mode), self._model)
            chat = ChatSession(gen, on_event=self._hear, on_notice=self._tell, relays_questions=False)
            self._narrator.lead(chat)
            self._chat = chat
            work = [asyncio.create_task(chat.listen()), asyncio.create_task(self.out.pump())]
            work[0].add_done_callback(self._deaf)
            work.append(asyncio.create_task(report_errors(self._try_servers(gen), self._tell)))
            for line in (*told.splitlines(), *wish.notes):
                self._tell(Notice(line, "warning"))
            await asyncio.sleep(0)  # so that it listens before anything is said
            ready.set_result(None)
            try:
                await self._closing.wait()
                gen.supervisor.stop.stop(CLOSING)
                await gen.supervisor.settle()
            finally:
                self._chat = None
                for each in work:
                    each.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                await chat.close()

    async def _try_servers(self, gen: GenCode) -> None:
        """Say which servers of the editor do not work, once they were tried."""
        if not self._wish.servers:
            return
        await gen.servers.ready()
        for each in gen.servers.status():
            if each.name in self._wish.servers and each.state not in ("ready", "off"):
                state = "does not answer yet" if each.state == "starting" else "could not be started"
                why = f": {each.why}" if each.why else ""
                self._tell(Notice(f"The MCP server {each.name} {state}{why}", "warning"))

    def _deaf(self, listening: "asyncio.Task[None]") -> None:
        """The events of the session cannot be heard any more, so nothing would ever answer a prompt."""
        if not listening.cancelled() and (trouble := listening.exception()):
            log.error("the session %s hears nothing more", self.id, exc_info=trouble)
            self._prompts.fail(f"The journal cannot be followed any more: {trouble}")

    def _tell(self, notice: Notice) -> None:
        """A line for the person; what was said before comes first."""
        if self._late is None:
            self._narrator.tell(notice)
        else:
            self._late.append(notice)

    def _hear(self, event: Event) -> None:
        self._narrator.hear(event)
        chat = self._chat
        if chat is None or chat.session is None or event.task != chat.session:
            return
        lead = chat.main_agent
        working = bool(busy(chat.view, chat.session))
        self._prompts.hear(event, rests=lead is not None and lead.resting, busy=working)

    async def _command(self, text: str) -> PromptResponse:
        typed = text.split(maxsplit=1)
        try:
            said = await editor_commands.perform(self.chat, text, self._person.confirmed)
            if typed[0] == "/model" and len(typed) > 1:
                self._model = typed[1]
        except UserMistake as mistake:
            said = str(mistake)
        if said:
            self.out.say("agent_message_chunk", said)
            self.out.end()
        self._tell_choices()
        await self.out.flush()
        return PromptResponse(stop_reason="end_turn")

    def _bind(self, text: str) -> None:
        """Let the editor's name of this session lead to the conversation, now that there is one."""
        session = self.chat.session
        if session is None or self._titled:
            return
        self._titled = True
        if session != self.id:  # somebody took the id meanwhile
            try:
                self._addresses.bind(self.id, session)
            except UserMistake as mistake:
                self.out.note(f"{mistake} This session can be loaded as {session}.")
        title = visible_line(text, TITLE_ROOM)
        self.out.show(
            SessionInfoUpdate(session_update="session_info_update", title=title, updated_at=stamp())
        )

    def _tell_choices(self) -> None:
        """What is chosen now, if it is not what was told last."""
        chosen = (str(self.gen.root.policy.mode), self._model)
        if chosen == self._chosen:
            return
        self._chosen = chosen
        if chosen[0] in self._offered:
            self.out.show(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=chosen[0]))
        self.out.show(
            ConfigOptionUpdate(session_update="config_option_update", config_options=[*self.options])
        )

    def _context(self, model: str) -> int | None:
        """How many tokens a model holds, where that is known."""
        return self.gen.settings.context_tokens or self.gen.switchboard.price(model).context
