"""The app in a test: real GenCode, scripted models, keys pressed by a pilot, the screen read as text."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import events
from textual._context import visible_screen_stack
from textual.pilot import Pilot

from gencode.app import GenCode
from gencode.core.questions import Asker
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.tui.app import TerminalApp
from gencode.journal.store import Store
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore

SECONDS = 120.0
Turn = Mapping[str, Any]


def screen_text(app: TerminalApp) -> str:
    """What a person sees, line by line, without empty lines. A picture of it would cost ten times as much."""
    visible_screen_stack.set(app._background_screens)  # pyright: ignore
    compositor = app.screen._compositor  # pyright: ignore[reportPrivateUsage]
    lines = [strip.text.replace("\xa0", " ").rstrip() for strip in compositor.render_strips()]
    return "\n".join(line for line in lines if line)


@dataclass
class Seat:
    """The app, its keys, and waiting for what must come."""

    app: TerminalApp
    pilot: "Pilot[None]"

    @property
    def chat(self) -> ChatSession:
        """The conversation, which is open by now."""
        assert self.app.chat is not None
        return self.app.chat

    @property
    def screen(self) -> str:
        """What is seen now."""
        return screen_text(self.app)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self.pilot.press(*keys)

    async def burst(self, *keys: str) -> None:
        """Keys that come faster than anything can be done about the first of them."""
        for key in keys:
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await self.pilot.pause(0.1)

    async def type(self, text: str, *then: str) -> None:
        """Type a text as it is, then press keys."""
        self.app.top_transcript.composer.set_text("")
        self.app.top_transcript.composer.editor.focus()
        self.app.top_transcript.composer.editor.insert(text)
        await self.pilot.pause()
        self.app.top_transcript.composer.hide()
        await self.pilot.press(*(then or ("enter",)))

    async def until(self, what: Callable[[], object], why: str = "") -> None:
        """Wait until something is so."""
        try:
            async with asyncio.timeout(SECONDS):
                while not what():
                    await self.pilot.pause(0.02)
        except TimeoutError:
            raise AssertionError(f"{why or 'it'} did not come; the screen was:\n{self.screen}") from None

    async def assert_sees(self, text: str) -> None:
        """Wait until a text is on the screen."""
        await self.until(lambda: text in self.screen, repr(text))

    async def ready(self) -> None:
        """Wait until GenCode is open."""
        await self.until(lambda: self.app.chat is not None, "GenCode")

    async def rests(self) -> None:
        """Wait until the turn has ended and everything of it is on the screen."""
        await self.until(lambda: self.chat.session and not self.chat.running, "the end of the turn")
        await self.until(
            lambda: self.chat.main_agent and self.chat.main_agent.status.ended, "word of the end"
        )
        self.app.top_transcript.dirty = True
        await self.until(lambda: not self.app.top_transcript.dirty, "the screen")
        await self.pilot.pause(0.1)


def turns(main: Sequence[Turn], explore: Sequence[Turn] = ()) -> dict[str, Sequence[Turn]]:
    """A script for the main agent and for Explore."""
    return {"main": main, "Explore": explore}


@asynccontextmanager
async def seated(
    folder: Path,
    *,
    size: tuple[int, int] = (100, 30),
    settings: Mapping[str, Any] | None = None,
    store: Store | None = None,
    begin: Callable[[ChatSession], Awaitable[None]] | None = None,
    also: Mapping[str, Any] = {},
    script: Mapping[str, Sequence[Turn]],
) -> AsyncGenerator[Seat, None]:
    """The app on a scripted model: turns by agent. `also` is handed to the app as it is."""

    @asynccontextmanager
    async def opener(asker: Asker) -> AsyncGenerator[GenCode, None]:
        provider = ScriptedProvider.of(script)
        kept = store or MemoryStore()
        async with GenCode.open(folder, model=provider, settings=settings, store=kept, asker=asker) as gen:
            yield gen

    async def begun(chat: ChatSession) -> None:
        if begin is not None:
            await begin(chat)

    app = TerminalApp(opener, folder=folder, begin=begun, **also)
    async with app.run_test(size=size) as pilot:
        setup = Seat(app, pilot)
        await setup.ready()
        try:
            yield setup
        finally:
            await app.wait_closed()
    if app.failure is not None:
        raise app.failure
