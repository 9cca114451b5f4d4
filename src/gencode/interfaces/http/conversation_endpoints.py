"""Endpoints of the server: conversations by their addresses, and messages to them."""

from msgspec import Struct

from gencode.channels.address import address
from gencode.core.outcome import Outcome
from gencode.interfaces.http.endpoints import Asked, Name, Nothing, Site, Text, endpoint
from gencode.interfaces.http.task_endpoints import page_of
from gencode.interfaces.http.task_schemas import Limit
from gencode.journal.store import TaskQuery


class Chat(Struct, frozen=True):
    """A conversation, and where it is spoken to: `channel:chat`, or `session:ID` when nobody named it."""

    address: str
    session: Outcome


class ChatFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Which conversations; without `all` those of the server's folder."""

    all: bool = False
    before: Name | None = None
    limit: Limit = 100


class ChatPage(Struct, frozen=True):
    """Conversations, the newest first; `next` is `before` of the next page."""

    conversations: list[Chat]
    next: str | None


class NewMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says; `agent` leads a conversation that begins with it (otherwise the main one)."""

    text: Text
    agent: Name = ""


class Taken(Struct, frozen=True, rename="camel"):
    """A message was taken: its conversation, and whether a turn begins with it or an open one hears it."""

    address: str
    session_id: str
    began: bool


@endpoint(
    "GET /api/conversations", "view", "The conversations, newest first", query=ChatFilter, answer=ChatPage
)
async def list_conversations(site: Site, asked: Asked[ChatFilter, Nothing]) -> ChatPage:
    wish = asked.query
    cwd = None if wish.all else str(site.gen.workspace.cwd)
    query = TaskQuery(cwd=cwd, conversations=True, before=wish.before)
    sessions, following = await page_of(site, query, wish.limit)
    return ChatPage([Chat(_address(site, session.agent_id), session) for session in sessions], following)


@endpoint("GET /api/conversations/{channel}/{chat:path}", "view", "One conversation", answer=Chat)
async def get_conversation(site: Site, asked: Asked[Nothing, Nothing]) -> Chat:
    to = address(asked.path["channel"], asked.path["chat"])
    task = await site.inbox.session_of(to)
    return Chat(str(to), await site.gen.outcome_of(task))


@endpoint(
    "POST /api/conversations/{channel}/{chat:path}",
    "act",
    "Say something in a conversation; the first message to an address begins one",
    body=NewMessage,
    answer=Taken,
    status=202,
)
async def say_in_conversation(site: Site, asked: Asked[Nothing, NewMessage]) -> Taken:
    to = address(asked.path["channel"], asked.path["chat"])
    session, began = await site.inbox.message(to, asked.body.text, asked.body.agent)
    return Taken(str(to), session, began)


def _address(site: Site, session: str) -> str:
    line = site.chats.of(session)
    return line.address if line else f"session:{session}"


ENDPOINTS = (list_conversations, get_conversation, say_in_conversation)
