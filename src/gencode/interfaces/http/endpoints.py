"""Endpoints: how an HTTP request becomes a call. Routes and OpenAPI are made from one table of them.

The types of an endpoint decode requests, encode answers and are the schemas of the OpenAPI document, so that
it cannot differ from what happens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gencode.app import GenCode
from gencode.core.errors import Conflict, GenCodeError, UnknownName
from gencode.core.task import Task
from gencode.interfaces.chat.chat_addresses import ChatAddresses
from gencode.interfaces.http.conversations import ChatInbox
from gencode.interfaces.http.guard import LARGEST_BODY, HttpRefusal, Right, refusal
from gencode.interfaces.http.hub import Hub
from gencode.interfaces.http.task_states import TimesReader
from gencode.interfaces.http.validation import body_mistake, query_mistake
from gencode.interfaces.log_file import logged_fault
from gencode.questions.question_desk import QuestionDesk

BODY_SECONDS = 10.0
CALL_SECONDS = 90.0
"""The timeout of a request; longer than any stop takes."""
MOST_VALUES = 100
LARGEST_EXACT = 2**53


Text = Annotated[str, msgspec.Meta(max_length=LARGEST_BODY)]
Name = Annotated[str, msgspec.Meta(max_length=200)]


@dataclass(frozen=True)
class ServerContext:
    """What every endpoint works with: one open GenCode and what the server keeps beside it."""

    gen: GenCode
    desk: QuestionDesk
    hub: Hub
    chats: ChatAddresses
    inbox: ChatInbox
    times: TimesReader


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty query or body."""


Q = TypeVar("Q", bound=Struct)
B = TypeVar("B", bound=Struct)
Method = Literal["GET", "POST", "PUT"]


@dataclass(frozen=True)
class ApiRequest(Generic[Q, B]):
    """A decoded and checked request."""

    path: Mapping[str, str]
    query: Q
    body: B
    rights: frozenset[Right]
    headers: Mapping[str, str]

    @property
    def everywhere(self) -> bool:
        """Whether the token reaches the tasks of all folders."""
        return "everywhere" in self.rights

    def needs(self, right: Right) -> None:
        """Refuse a token without a right."""
        _check_right(self.rights, right)

    def folder(self, context: ServerContext, *, every: bool) -> str | None:
        """The folder whose tasks are asked for; None for those of every folder, which is a right."""
        if every:
            self.needs("everywhere")
        return None if every else str(context.gen.workspace.cwd)

    async def find(self, context: ServerContext, task: str) -> Task:
        """The task with an id or the beginning of one, if the token reaches it."""
        if self.everywhere:
            return await context.gen.find(task)
        with suppress(UnknownName, Conflict):  # their messages name tasks of other folders
            return await self.reached(context, await context.gen.find(task))
        raise HttpRefusal(404, f"There is no task {task!r} in this folder.")

    async def reached(self, context: ServerContext, task: Task) -> Task:
        """The task, if the token reaches it; otherwise it is unknown."""
        if not (self.everywhere or await context.hub.places.is_here(task.id)):
            raise UnknownName("task", task.id, ())
        return task


@dataclass(frozen=True)
class Endpoint:
    """A method and path, its right, its types, and the function that handles it."""

    method: Method
    path: str
    right: Right
    says: str
    query: type[Struct]
    body: type[Struct] | None
    answer: Any
    status: int
    call: Callable[["ServerContext", Any], Awaitable[object]]

    @property
    def name(self) -> str:
        """Its operation id in the OpenAPI document."""
        return self.call.__name__

    async def respond(self, context: "ServerContext", request: Request) -> Response:
        """Decode a request, handle it, and encode the answer."""
        try:
            rights: frozenset[Right] = request.scope["rights"]
            _check_right(rights, self.right)
            query = read_query(request, self.query)
            body = await read_body(request, self.body) if self.body else Nothing()
            asked = ApiRequest(request.path_params, query, body, rights, request.headers)
            async with asyncio.timeout(CALL_SECONDS):
                answer = await self.call(context, asked)
        except TimeoutError:
            return HttpRefusal(503, f"The request took longer than {CALL_SECONDS:.0f} s.").response()
        except GenCodeError as trouble:
            return refusal(trouble).response()
        except Exception as bug:  # noqa: BLE001 (the border of a request; `logged_fault` logs it)
            return HttpRefusal(500, logged_fault(bug)).response()
        if isinstance(answer, Response):
            return answer
        return Response(msgspec.json.encode(answer), self.status, media_type="application/json")


def endpoint(
    what: str,
    right: Right,
    says: str,
    *,
    answer: Any,
    query: type[Q] = Nothing,
    body: type[B] | None = None,
    status: int = 200,
) -> Callable[[Callable[["ServerContext", ApiRequest[Q, B]], Awaitable[object]]], Endpoint]:
    """Make an endpoint of a function; `what` is its method and path."""
    method, _, path = what.partition(" ")
    spoken: dict[str, Method] = {"GET": "GET", "POST": "POST", "PUT": "PUT"}

    def made(call: Callable[["ServerContext", ApiRequest[Q, B]], Awaitable[object]]) -> Endpoint:
        return Endpoint(spoken[method], path, right, says, query, body, answer, status, call)

    return made


def _check_right(rights: frozenset[Right], right: Right) -> None:
    if right not in rights:
        raise HttpRefusal(403, f"This token does not have the right {right}.")


def read_query(request: Request, kind: type[Q]) -> Q:
    """The query parameters as a checked record."""
    several = many_valued(kind)
    found: dict[str, Any] = {}
    for number, (name, value) in enumerate(request.query_params.multi_items()):
        if number >= MOST_VALUES or (name in found and name not in several):
            raise HttpRefusal(400, f"{name[:40]!r} is given more than once.")
        if name in several:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HttpRefusal(400, query_mistake(error, kind, found)) from None


def many_valued(kind: type[Struct]) -> frozenset[str]:
    """The query parameters that may be repeated."""
    hints = get_type_hints(kind)
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(kind) if get_origin(hints[field.name]) is tuple
    )


async def read_body(request: Request, kind: type[B]) -> B:
    """The JSON body as a checked record; size and time are limited."""
    if request.headers.get("content-type", "").partition(";")[0].strip().casefold() != "application/json":
        raise HttpRefusal(415, "Send JSON with Content-Type: application/json.")
    pieces = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                pieces += piece
                if len(pieces) > LARGEST_BODY:
                    raise HttpRefusal(
                        413, f"The request is too large: at most {LARGEST_BODY:,} bytes are accepted."
                    )
    except TimeoutError:
        raise HttpRefusal(408, f"The request was not complete within {BODY_SECONDS:.0f} s.") from None
    except ClientDisconnect:
        raise HttpRefusal(400, "The client disconnected.") from None
    content = bytes(pieces)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            return msgspec.convert(_WITH_WHOLE_NUMBERS.decode(content), kind)
        raise HttpRefusal(400, body_mistake(error, kind, content)) from None


def _number(text: str) -> float | int:
    """A number with a point or an exponent; to JSON Schema `2.0` is an integer."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= LARGEST_EXACT else value


_WITH_WHOLE_NUMBERS = msgspec.json.Decoder(float_hook=_number)
