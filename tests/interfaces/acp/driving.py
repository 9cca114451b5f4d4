"""`gen acp` as a real process, and an editor made of the protocol's own client."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.helpers import text_block
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    FileSystemCapabilities,
    InitializeResponse,
    PermissionOption,
    PromptResponse,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
    WriteTextFileResponse,
)

from tests.interfaces.cli.running import Turn, script, send

SECONDS = 120
GEN = (sys.executable, "-m", "gencode", "acp")
WAIT = "sh wait.sh"
"""A command that needs no question; `waiting` writes it, and it ends once there is a file `go`."""
Update = dict[str, Any]


class Asked(NamedTuple):
    """A permission request that reached the editor."""

    session: str
    call: ToolCallUpdate
    options: list[PermissionOption]


class Editor:
    """What an editor keeps: the updates of every session, its buffers, and the questions it was asked.

    `answer` chooses an option by its id, `form` is what a form is filled in with; None leaves a question open
    until it is withdrawn.
    """

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.updates: dict[str, list[Update]] = {}
        self.asked: list[Asked] = []
        self.forms: list[Any] = []
        self.buffers: dict[str, str] = {}
        self.read: list[str] = []
        self.written: dict[str, str] = {}
        self.trouble: RequestError | None = None
        self.answer: Callable[[Asked], str | None] = lambda _: "y"
        self.form: Any = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        told = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.setdefault(session_id, []).append(told)
        self._tell()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        question = Asked(session_id, tool_call, options)
        self.asked.append(question)
        self._tell()
        chosen = self.answer(question)
        if chosen is None:
            await asyncio.Event().wait()
        if chosen:
            return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode))
        if self.form is None:
            await asyncio.Event().wait()
        return self.form

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        self.read.append(path)
        if self.trouble is not None:
            raise self.trouble
        content = self.buffers.get(path)
        return ReadTextFileResponse(content=on_disk(path) if content is None else content)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        self.written[path] = self.buffers[path] = content
        save(path, content)
        return WriteTextFileResponse()

    def on_connect(self, conn: Any) -> None:
        """Nothing is kept of it."""

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until something that was told makes it so."""
        async with asyncio.timeout(SECONDS):
            while not so():
                self._news.clear()
                await self._news.wait()

    def text(self, session: str, kind: str = "agent_message_chunk") -> str:
        """Everything that was said in a session."""
        return "".join(
            each["content"]["text"] for each in self.updates.get(session, ()) if each["sessionUpdate"] == kind
        )

    def kinds(self, session: str) -> list[str]:
        """What kinds of updates came, in order, each run of the same kind once."""
        found = [each["sessionUpdate"] for each in self.updates.get(session, ())]
        return [kind for at, kind in enumerate(found) if at == 0 or found[at - 1] != kind]

    def calls(self, session: str) -> dict[str, Update]:
        """The tool calls as they stand, by id."""
        found: dict[str, Update] = {}
        for each in self.updates.get(session, ()):
            if each["sessionUpdate"] in ("tool_call", "tool_call_update"):
                found.setdefault(each["toolCallId"], {}).update(each)
        return found

    def call(self, session: str, title: str) -> Update:
        """The tool call whose title begins so."""
        found = [each for each in self.calls(session).values() if each["title"].startswith(title)]
        assert len(found) == 1, (title, [each["title"] for each in self.calls(session).values()])
        return found[0]

    def _tell(self) -> None:
        self._news.set()


def waiting(folder: Path, title: str) -> dict[str, Any]:
    """A call that sends an agent to the background, where it waits."""
    (folder / "wait.sh").write_text("while [ ! -e go ]; do sleep 0.05; done\n")
    return {"name": "Task", "input": {**send(title, agent="Bash")[0]["input"], "run_in_background": True}}


def on_disk(path: str) -> str:
    """A file as it was saved last; an editor that has none says so."""
    if not Path(path).exists():
        raise RequestError.resource_not_found(path)
    return Path(path).read_text()


def save(path: str, content: str) -> None:
    """Save a file as an editor does."""
    Path(path).write_text(content)


class Wired(NamedTuple):
    """A running `gen acp` with its editor."""

    editor: Editor
    agent: ClientSideConnection
    process: asyncio.subprocess.Process

    async def introduce(self, *, fs: bool = True, forms: bool = False) -> InitializeResponse:
        """Say what the editor can do: show and write its buffers, and forms."""
        can = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=fs, write_text_file=fs),
            elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()) if forms else None,
        )
        return await self.agent.initialize(protocol_version=1, client_capabilities=can)

    async def new(self, folder: Path, **agents: Sequence[Turn]) -> str:
        """A new session in a folder, in which a script answers."""
        session = (await self.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        if agents:
            model = script(folder, **agents)
            await self.agent.set_config_option(config_id="model", session_id=session, value=model)
        return session

    async def say(self, session: str, *words: str) -> PromptResponse:
        """Say something and wait for the answer."""
        async with asyncio.timeout(SECONDS):
            return await self.agent.prompt(session_id=session, prompt=[text_block(word) for word in words])


@asynccontextmanager
async def wired(folder: Path, *words: str, **env: str) -> AsyncGenerator[Wired, None]:
    """Start `gen acp` and introduce an editor to it; it is ended by closing its stdin."""
    process = await begun(folder, *words, **env)
    assert process.stdin is not None
    assert process.stdout is not None
    editor = Editor()
    agent = ClientSideConnection(
        cast("Client", editor), process.stdin, process.stdout, use_unstable_protocol=True
    )
    wire = Wired(editor, agent, process)
    try:
        async with asyncio.timeout(SECONDS):
            await wire.introduce()
        yield wire
    finally:
        await ended(process)
        await agent.close()


async def begun(folder: Path, *words: str, **env: str) -> asyncio.subprocess.Process:
    """`gen acp` with pipes."""
    return await asyncio.create_subprocess_exec(
        *(*GEN, *words),
        cwd=folder,
        env={"PYTHONWARNINGS": "error", **os.environ, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )


async def ended(process: asyncio.subprocess.Process) -> int:
    """Close its stdin and wait until it has ended."""
    assert process.stdin is not None
    if not process.stdin.is_closing():
        process.stdin.close()
    try:
        async with asyncio.timeout(SECONDS):
            return await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
