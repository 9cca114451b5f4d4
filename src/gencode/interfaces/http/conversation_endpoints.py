"""Endpoints for conversations: the list, and messages to an address."""

from msgspec import Struct

from gencode.channels.address import address
from gencode.core.outcome import Outcome
from gencode.interfaces.chat.chat_addresses import SESSION
from gencode.interfaces.http.endpoints import ApiRequest, Name, Nothing, ServerContext, Text, endpoint
from gencode.interfaces.http.task_endpoints import page_of
from gencode.interfaces.http.task_schemas import Limit
from gencode.journal.store import TaskQuery


class Chat(Struct, frozen=True):
    """A conversation and its address: `channel:chat`, or `session:ID` when it has no other."""

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
    """A message of a person; `agent` is for a new conversation (default: the main agent)."""

    text: Text
    agent: Name = ""


class MessageReceipt(Struct, frozen=True, rename="camel"):
    """The conversation of a message, and whether a turn begins with it or a running one reads it."""

    address: str
    session_id: str
    began: bool


@endpoint(
    "GET /api/conversations", "view", "List conversations, newest first", query=ChatFilter, answer=ChatPage
)
async def list_conversations(context: ServerContext, request: ApiRequest[ChatFilter, Nothing]) -> ChatPage:
    wanted = request.query
    query = TaskQuery(cwd=request.folder(context, every=wanted.all), conversations=True, before=wanted.before)
    sessions, following = await page_of(context, query, wanted.limit)
    return ChatPage([Chat(_address(context, session.agent_id), session) for session in sessions], following)


@endpoint("GET /api/conversations/{channel}/{chat:path}", "view", "Get a conversation", answer=Chat)
async def get_conversation(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> Chat:
    to = address(request.path["channel"], request.path["chat"])
    task = await request.reached(context, await context.inbox.session_of(to))
    return Chat(str(to), await context.gen.outcome_of(task))


@endpoint(
    "POST /api/conversations/{channel}/{chat:path}",
    "act",
    "Send a message to a conversation; the first message to an address begins one",
    body=NewMessage,
    answer=MessageReceipt,
    status=202,
)
async def say_in_conversation(
    context: ServerContext, request: ApiRequest[Nothing, NewMessage]
) -> MessageReceipt:
    to = address(request.path["channel"], request.path["chat"])
    if to.channel == SESSION:  # all others are bound to conversations of this folder
        await request.find(context, to.chat)
    session, began = await context.inbox.message(to, request.body.text, request.body.agent)
    return MessageReceipt(str(to), session, began)


def _address(context: ServerContext, session: str) -> str:
    line = context.chats.of(session)
    return line.address if line else f"session:{session}"


ENDPOINTS = (list_conversations, get_conversation, say_in_conversation)
