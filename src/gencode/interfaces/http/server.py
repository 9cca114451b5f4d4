"""The life of a server: a socket, a door, what runs beside it, and an orderly end (surfaces, server)."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gencode.app import GenCode
from gencode.core.questions import ALL
from gencode.core.text import visible_line
from gencode.interfaces.chat.schedule_runner import scheduler_of
from gencode.interfaces.cli.foreground_run import tell_stopped
from gencode.interfaces.http.application import web_app
from gencode.interfaces.http.conversations import WEB, Chats, Inbox, WebChannel, unreachable
from gencode.interfaces.http.endpoints import Site
from gencode.interfaces.http.guard import Guard
from gencode.interfaces.http.hub import Hub
from gencode.interfaces.http.listener import Wish, listening, server_of
from gencode.interfaces.http.restart import go_on, lock_of, shut_down
from gencode.interfaces.http.task_states import TimesReader
from gencode.interfaces.render.plain_text import answer, answer_json, note
from gencode.questions.question_desk import Audience, PendingQuestion, QuestionDesk
from gencode.settings import gen_home, remember

PATIENCE = 3600.0
"""Seconds after which a question that nobody answers is a no."""
GOODBYE_SECONDS = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_WAY = "The channel {name} of your settings sends nothing: {why}. Messages go to public addresses only."


class Bell:
    """Tells the hub when the questions that wait have changed; there is no hub yet when it is hung up."""

    hub: Hub | None = None

    def ring(self, waiting: Sequence[PendingQuestion]) -> None:
        """The questions that wait now."""
        if self.hub is not None:
            self.hub.say("QuestionsChanged", {"waiting": [each.number for each in waiting]})


def new_desk(bell: Bell) -> QuestionDesk:
    """Where questions wait for whoever answers them over HTTP."""
    audience = Audience(follows=lambda: ALL)
    return QuestionDesk(audience=audience, seconds=PATIENCE, always=remember, changed=bell.ring)


class Serving:
    """One server from its first line to its end."""

    def __init__(
        self,
        gen: GenCode,
        desk: QuestionDesk,
        bell: Bell,
        wish: Wish,
        *,
        flags: Mapping[str, Any] | None = None,
        json: bool = False,
    ) -> None:
        """`flags` are settings that were typed; with `json` the addresses are told as one line of it."""
        self._gen = gen
        self._wish = wish
        self._flags = {**(flags or {})}
        self._json = json
        self._hub = bell.hub = Hub(gen)
        chats = Chats(gen_home() / "chats.jsonl", gen.workspace.cwd)
        outbox = gen.outbox
        outbox.register(WEB, WebChannel(self._hub))
        self._inbox = Inbox(gen, self._hub, chats, outbox)
        times = TimesReader(gen.history.log)
        self.site = Site(gen, desk, self._hub, chats, self._inbox, times)
        self._ended = asyncio.Event()
        self._signal = 0
        self.ready = asyncio.Event()
        """Set once it serves, at `port`."""
        self.port = 0

    async def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        with listening(self._wish.host, self._wish.port) as sock, _signals(self._heed):
            self.port = sock.getsockname()[1]
            site = Guard(web_app(self.site), self._wish.keys, self._wish.hosts(self.port), f"gen_{self.port}")
            server = server_of(site, GOODBYE_SECONDS)
            await self._hub.start()
            beside = [
                asyncio.create_task(self._hub.run()),
                asyncio.create_task(self._inbox.run(lock_of("inbox", self._gen.workspace.cwd))),
                asyncio.create_task(scheduler_of(self._gen, note, self._flags).run()),
                asyncio.create_task(self._gen.recover(self._hub.pass_on)),
            ]
            serving = asyncio.create_task(server.serve(sockets=[sock]))
            ended = asyncio.create_task(self._ended.wait())
            try:
                self._tell()
                await self._take_up()
                self.ready.set()
                await asyncio.wait([*beside, serving, ended], return_when=asyncio.FIRST_COMPLETED)
                await self._stop()
            finally:
                server.should_exit = True
                ended.cancel()
                for each in beside:
                    each.cancel()
                ends = await asyncio.gather(*beside, serving, return_exceptions=True)
            for end in ends:
                if isinstance(end, Exception):
                    raise end
        return 128 + self._signal if self._signal else 0

    def end(self) -> None:
        """Let it end in an orderly way."""
        self._ended.set()

    def _tell(self) -> None:
        """The address with the token is the first line, so that programs can read it."""
        url = self._wish.url(self.port)
        keys = self._wish.keys
        if self._json:
            shared = [{"right": role, "token": token} for role, token in keys.shared]
            answer_json({"url": url, "token": keys.owner, "shared": shared}, line=True)
        else:
            answer(f"{url}/?token={keys.owner}")
            for role, token in keys.shared:
                answer(f"{role}: {url}/?token={token}")
        for name, why in unreachable(self._gen.settings.channels).items():
            note(NO_WAY.format(name=name, why=why))
        self._wish.warn()

    async def _take_up(self) -> None:
        going = await go_on(self._gen, lock_of("resume", self._gen.workspace.cwd))
        if going:
            names = ", ".join(f"{task.id} ({visible_line(task.agent)})" for task in going[:10])
            note(f"Going on with what was cut by the last shutdown: {names}{' …' if going[10:] else ''}")

    def _heed(self, number: int) -> None:
        if self._signal:
            os._exit(128 + number)  # whoever asks twice does not want to wait
        self._signal = number
        self.end()

    async def _stop(self) -> None:
        """Say what is stopped, stop it, let everybody hear of it, and say goodbye."""
        tell_stopped(self._gen, conversations=True)
        shut_down(self._gen)
        await self._gen.running.settle()
        await self._hub.settle()
        self._hub.close()


@contextmanager
def _signals(heed: Callable[[int], None]) -> Generator[None, None, None]:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, heed, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
