"""The app in a test: real GenCode, scripted models, keys pressed by a pilot, the screen read as text."""

import asyncio
import html
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot

from gencode.app import GenCode
from gencode.core.questions import Asker
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.tui.app import TerminalApp
from gencode.journal.store import Store
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore

SECONDS = 60.0
Turn = Mapping[str, Any]
_TEXT = re.compile(r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')
_CELL = 12.2


def screen_text(app: TerminalApp) -> str:
    """What a person sees, line by line, read from the picture of the screen."""
    lines: dict[float, list[tuple[int, str]]] = {}
    for x, y, text in _TEXT.findall(app.export_screenshot()):
        said = html.unescape(text).replace("\xa0", " ")
        lines.setdefault(float(y), []).append((round(float(x) / _CELL), said))
    drawn: list[str] = []
    for _, parts in sorted(lines.items()):
        line = ""
        for column, text in sorted(parts):
            line = line.ljust(column) + text
        drawn.append(line.rstrip())
    return "\n".join(drawn)


@dataclass
class Seat:
    """The app, its keys, and waiting for what must come."""

    app: TerminalApp
    pilot: "Pilot[None]"

    @property
    def talk(self) -> Talk:
        """The conversation, which is open by now."""
        assert self.app.talk is not None
        return self.app.talk

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
        self.app.top.composer.put("")
        self.app.top.composer.editor.focus()
        self.app.top.composer.editor.insert(text)
        await self.pilot.pause()
        self.app.top.composer.hide()
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
        await self.until(lambda: self.app.talk is not None, "GenCode")

    async def rests(self) -> None:
        """Wait until the turn has ended and everything of it is on the screen."""
        await self.until(lambda: self.talk.session and not self.talk.running, "the end of the turn")
        await self.until(lambda: self.talk.lead and self.talk.lead.status.ended, "word of the end")
        self.app.top.dirty = True
        await self.until(lambda: not self.app.top.dirty, "the screen")
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
    begin: Callable[[Talk], Awaitable[None]] | None = None,
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

    async def begun(talk: Talk) -> None:
        if begin is not None:
            await begin(talk)

    app = TerminalApp(opener, folder=folder, begin=begun, **also)
    async with app.run_test(size=size) as pilot:
        setup = Seat(app, pilot)
        await setup.ready()
        try:
            yield setup
        finally:
            await app.closed()
    if app.trouble is not None:
        raise app.trouble
