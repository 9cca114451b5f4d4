"""Which conversation an editor's name of a session leads to: a file that only grows (surfaces, ACP).

An editor has a name for a session before anything is said, and keeps it. It is the id that the conversation
gets with the first prompt; until then the file alone knows of it. Earlier versions gave out names of another
kind, which lead to a conversation by this file.
"""

from pathlib import Path

from gencode.core.address import Address
from gencode.interfaces.http.chat_addresses import Chats

FILE = "acp_sessions.jsonl"
CHANNEL = "acp"


class Addresses:
    """The names of the sessions of one folder."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self._chats = Chats(home / FILE, cwd)

    def session(self, name: str) -> str:
        """The conversation that a name leads to, or that it is."""
        return self._chats.find(Address(CHANNEL, name)) or name

    def is_known(self, name: str) -> bool:
        """Whether a name was given out, whether or not anything was said."""
        return self._chats.find(Address(CHANNEL, name)) is not None

    def name(self, session: str) -> str:
        """What an editor calls a conversation."""
        line = self._chats.of(session)
        return line.address.removeprefix(f"{CHANNEL}:") if line else session

    def bind(self, name: str, session: str) -> None:
        """Let a name lead to a conversation."""
        self._chats.bind(Address(CHANNEL, name), session)
