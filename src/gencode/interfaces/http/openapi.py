"""The OpenAPI 3.1 document, made from the table of endpoints."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gencode import __version__
from gencode.channels.address import LONGEST_CHAT
from gencode.core import events
from gencode.core.events import AnyFact
from gencode.interfaces.http.endpoints import Endpoint, Nothing, many_valued
from gencode.interfaces.http.event_stream import EventStream
from gencode.interfaces.http.task_states import TaskState

_REFERENCE = "#/components/schemas/{name}"
_SPELLED = ("Created", "StatusChanged", "Progress", "Completed", "Failed", "Cancelled")
REFUSALS = {
    "400": "The request is not valid, or not possible here",
    "401": "The token is missing or not valid",
    "403": "The token does not have the right, or the request comes from another origin",
    "404": "Not found",
    "409": "Conflict: the task is running or has finished, or several ids begin like this",
    "default": "The request failed",
}


_IN_PATHS: dict[str, dict[str, Any]] = {
    "channel": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"},
    "chat": {"maxLength": LONGEST_CHAT, "pattern": "\\S"},
}
"""The constraints on path parameters."""


class Error(Struct, frozen=True):
    """Why a request failed, in one sentence."""

    error: str


class StreamEvent(Struct, frozen=True):
    """One event of a stream, as `data`; its `type` is the name of the frame.

    A durable event has a number in its task, and the id `task:seq`; a passing one has neither.
    """

    type: str
    task: str
    seq: int | None
    at: str


class StateEvent(Struct, frozen=True):
    """The event `TaskState` of a stream with `states=true`: what a task is now."""

    type: Literal["TaskState"]
    task: str
    seq: None
    at: str
    state: TaskState


def event_types() -> list[str]:
    """The names of all events of streams."""
    facts: tuple[type, ...] = AnyFact.__args__
    told = {fact.__name__ for fact in facts} - {"TaskCreated", "TaskStarted", "TaskEnded"}
    told -= {each.__name__ for each in (events.TextArrived, events.ThinkingArrived, events.ProgressMade)}
    told -= {each.__name__ for each in (events.CallStarted, events.CallFinished, events.ReplyRestarted)}
    told.discard(events.OutputArrived.__name__)
    own = {"StreamOpened", "StreamReset", "TaskState", "QuestionsChanged", "ChatMessage"}
    return sorted({f"{kind}{name}" for kind in ("Session", "SubSession") for name in _SPELLED} | told | own)


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    answers = [each.answer for each in endpoints if each.answer is not EventStream]
    bodies = [each.body for each in endpoints if each.body is not None]
    kinds = list(dict.fromkeys([Error, StreamEvent, StateEvent, *answers, *bodies]))
    schemas, parts = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    known = dict(zip(kinds, schemas, strict=True))
    parts["StreamEvent"]["properties"]["type"]["enum"] = event_types()
    paths: dict[str, Any] = {}
    for each in endpoints:
        operation = _operation(each, known)
        paths.setdefault(re.sub(r":\w+}", "}", each.path), {})[each.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GenCode",
            "version": __version__,
            "description": "Start, watch, steer, approve and stop agents.",
        },
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "gen_PORT"},
            },
        },
    }


def _operation(endpoint: Endpoint, known: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    refused = {"application/json": {"schema": known[Error]}}
    if endpoint.answer is EventStream:
        given = {"text/event-stream": {"schema": {"type": "string"}}}
    else:
        given = {"application/json": {"schema": known[endpoint.answer]}}
    responses = {str(endpoint.status): {"description": "Done", "content": given}}
    responses |= {code: {"description": why, "content": refused} for code, why in REFUSALS.items()}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.says,
        "x-right": endpoint.right,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": responses,
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": known[endpoint.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)", endpoint.path)
    text = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": {**text, **_IN_PATHS.get(name, {})}}
        for name in names
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is Nothing:
        return []
    schema = msgspec.json.schema(endpoint.query, ref_template=_REFERENCE)
    several = many_valued(endpoint.query)
    fields: dict[str, Any] = schema["$defs"][endpoint.query.__name__]["properties"]
    found: list[dict[str, Any]] = []
    for name, field in fields.items():
        parameter: dict[str, Any] = {"name": name, "in": "query", "schema": _without_null(field)}
        if name in several:
            parameter |= {"style": "form", "explode": True}
        found.append(parameter)
    if endpoint.answer is EventStream:
        id_ = {"type": "string", "pattern": "^(0|[0-9a-f]{8}:[0-9]{1,15})$"}
        found.append({"name": "Last-Event-ID", "in": "header", "schema": id_})
    return found


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a query parameter, which is left out instead of null."""
    kinds = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    rest = {name: value for name, value in field.items() if name != "anyOf" and value is not None}
    return {**rest, **kinds[0]} if len(kinds) == 1 else rest if not kinds else {**rest, "anyOf": kinds}
