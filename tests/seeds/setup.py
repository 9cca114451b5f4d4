"""Projects and databases that tests of the seeds begin with, and results read from messages."""

import itertools
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from gencode.core.messages import Message, ToolMessage, ToolResult, UserMessage
from gencode.permissions.trust import standing, trust
from gencode.places import database
from gencode.settings import gen_home
from gencode.stores.sqlite import SqliteStore
from gencode.testing import reported

EXAMPLES = Path(__file__).parents[2] / "examples"


@asynccontextmanager
async def on_disk() -> AsyncGenerator[SqliteStore, None]:
    """The database of this test's home; its tasks are called 00000001, 00000002 and so on."""
    numbers = itertools.count(1)
    store = await SqliteStore.open(database(), draw=lambda: f"{next(numbers):08x}")
    try:
        yield store
    finally:
        await store.close()


def results(messages: Sequence[Message]) -> list[ToolResult]:
    found = [message for message in messages if isinstance(message, ToolMessage)]
    return [result for message in found for result in message.results]


def posts(messages: Sequence[Message]) -> list[UserMessage]:
    found = [each for each in messages if isinstance(each, UserMessage) and each.sender == "system"]
    return [replace(each, text=reported(each.text)) for each in found]


def auth_project(folder: Path) -> None:
    """A small project in which authentication errors are handled in two places."""
    (folder / "src" / "auth").mkdir(parents=True)
    (folder / "src" / "middleware").mkdir()
    (folder / "src" / "auth" / "errors.py").write_text("class AuthError(Exception):\n    pass\n")
    (folder / "src" / "middleware" / "auth.py").write_text(
        "from auth.errors import AuthError\n\n\ndef handle(error: AuthError) -> int:\n    return 401\n"
    )


def take_examples(folder: Path) -> None:
    """Place the example types in a project that a person trusts."""
    shutil.copytree(EXAMPLES / "subagents", folder / "subagents")
    trust(standing(folder, gen_home()), gen_home())
