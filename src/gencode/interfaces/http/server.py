"""The server of `gen serve`: starts listening, runs what belongs to it, and shuts down in order."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gencode.app import GenCode
from gencode.core.questions import ALL
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_addresses import ChatAddresses
from gencode.interfaces.chat.schedule_runner import scheduler_for
from gencode.interfaces.cli.foreground_run import tell_stopped
from gencode.interfaces.http.application import web_app
from gencode.interfaces.http.conversations import WEB, ChatInbox, WebChannel, unreachable
from gencode.interfaces.http.endpoints import ServerContext
from gencode.interfaces.http.guard import Guard
from gencode.interfaces.http.hub import Hub
from gencode.interfaces.http.listener import ListenOptions, listening, server_of
from gencode.interfaces.http.restart import lock_path, resume_all, shut_down
from gencode.interfaces.http.task_states import TimesReader
from gencode.interfaces.render.plain_text import answer, answer_json, note
from gencode.questions.question_desk import Audience, PendingQuestion, QuestionDesk
from gencode.settings import gen_home, remember

PATIENCE = 3600.0
"""Seconds after which a question without an answer is declined."""
SHUTDOWN_SECONDS = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_WAY = "The channel {name} in your settings cannot be used: {why}. Messages go to public addresses only."


class QuestionSignal:
    """Passes on which questions are pending, to whoever subscribed after the desk was opened."""

    def __init__(self) -> None:
        self._calls: list[Callable[[Sequence[PendingQuestion]], None]] = []

    def subscribe(self, call: Callable[[Sequence[PendingQuestion]], None]) -> None:
        """Call this with the pending questions whenever they have changed."""
        self._calls.append(call)

    def send(self, pending: Sequence[PendingQuestion]) -> None:
        """The questions that are pending now."""
        for call in self._calls:
            call(pending)


def new_desk(changed: QuestionSignal) -> QuestionDesk:
    """The questions that are answered over HTTP."""
    audience = Audience(follows=lambda: ALL)
    return QuestionDesk(audience=audience, seconds=PATIENCE, always=remember, changed=changed.send)


class HttpServer:
    """Serves one open GenCode until it is told to stop."""

    def __init__(
        self,
        gen: GenCode,
        desk: QuestionDesk,
        questions_changed: QuestionSignal,
        listen: ListenOptions,
        *,
        flags: Mapping[str, Any] | None = None,
        json: bool = False,
        opens: bool = False,
    ) -> None:
        """`flags` are settings of the command line; `json` prints the addresses as one line of JSON.

        `opens` shows the page in the browser of whoever started it.
        """
        self._gen = gen
        self._listen = listen
        self._flags = {**(flags or {})}
        self._json = json
        self._opens = opens
        self._hub = Hub(gen)
        questions_changed.subscribe(self._tell_questions)
        chats = ChatAddresses(gen_home() / "chats.jsonl", gen.workspace.cwd)
        outbox = gen.outbox
        outbox.register(WEB, WebChannel(self._hub))
        self._inbox = ChatInbox(gen, self._hub, chats, outbox)
        times = TimesReader(gen.history.log)
        self.context = ServerContext(gen, desk, self._hub, chats, self._inbox, times)
        self._ended = asyncio.Event()
        self._signal = 0
        self.ready = asyncio.Event()
        """Set once it serves, at `port`."""
        self.port = 0

    async def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        with listening(self._listen.host, self._listen.port) as sock, _signals(self._on_signal):
            self.port = sock.getsockname()[1]
            app = Guard(
                web_app(self.context), self._listen.keys, self._listen.hosts(self.port), f"gen_{self.port}"
            )
            server = server_of(app, SHUTDOWN_SECONDS)
            await self._hub.start()
            beside = [
                asyncio.create_task(self._hub.run()),
                asyncio.create_task(self._inbox.run(lock_path("inbox", self._gen.workspace.cwd))),
                asyncio.create_task(scheduler_for(self._gen, note, self._flags).run()),
                asyncio.create_task(self._gen.recover(self._hub.pass_on)),
            ]
            serving = asyncio.create_task(server.serve(sockets=[sock]))
            ended = asyncio.create_task(self._ended.wait())
            try:
                self._print_addresses()
                await self._resume()
                self.ready.set()
                if self._opens:
                    await self._open()
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

    def _tell_questions(self, pending: Sequence[PendingQuestion]) -> None:
        self._hub.say("QuestionsChanged", {"waiting": [each.number for each in pending]})

    def end(self) -> None:
        """Stop serving and shut down in order."""
        self._ended.set()

    def _print_addresses(self) -> None:
        """Print the address with the token as the first line, so that programs can read it."""
        url = self._listen.url(self.port)
        keys = self._listen.keys
        if self._json:
            shared = [{"right": role, "token": token} for role, token in keys.shared]
            answer_json({"url": url, "token": keys.owner, "shared": shared}, line=True)
        else:
            answer(f"{url}/?token={keys.owner}")
            for role, token in keys.shared:
                answer(f"{role}: {url}/?token={token}")
        for name, why in unreachable(self._gen.settings.channels).items():
            note(NO_WAY.format(name=name, why=why))
        self._listen.warn()

    async def _open(self) -> None:
        """Open the page in a browser; where there is none, the address was printed."""
        import webbrowser

        url = f"{self._listen.url(self.port)}/?token={self._listen.keys.owner}"
        if not await asyncio.to_thread(webbrowser.open, url):
            note("No browser was found. Open the address above.")

    async def _resume(self) -> None:
        resumed = await resume_all(self._gen, lock_path("resume", self._gen.workspace.cwd))
        if resumed:
            names = ", ".join(f"{task.id} ({visible_line(task.agent)})" for task in resumed[:10])
            rest = f" and {len(resumed) - 10} more" if resumed[10:] else ""
            note(f"Resuming what the last shutdown stopped: {names}{rest}")

    def _on_signal(self, number: int) -> None:
        if self._signal:
            os._exit(128 + number)  # a second signal means: do not wait
        self._signal = number
        self.end()

    async def _stop(self) -> None:
        """Stop all tasks, send what is still to be sent, and close the streams."""
        tell_stopped(self._gen, conversations=True)
        shut_down(self._gen)
        await self._gen.running.settle()
        await self._hub.settle()
        self._hub.close()


@contextmanager
def _signals(handle: Callable[[int], None]) -> Generator[None, None, None]:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
