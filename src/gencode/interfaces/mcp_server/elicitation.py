"""Questions of agents on their way to the person at a client: elicitation, at once or with the next round.

Clients before 2026-07-28 are asked while their call is answered. Later ones are told what is missing, and
make the call again with the answers. Where a client cannot ask anybody, whatever would be asked is refused.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol, cast

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from msgspec.structs import replace
from pydantic import ValidationError

from gencode.core.questions import Answer, Inquiry, Question, silence
from gencode.core.rules import DecidedBy
from gencode.core.text import exact_line, visible
from gencode.interfaces.chat.question_text import (
    NOT_ANSWERED,
    Choice,
    allows,
    answered,
    choices,
    due,
    exactly,
    headline,
    inquiry_choices,
    preview_lines,
    reason,
    who,
)

PATIENCE = 600.0
"""Seconds after which a question that nobody answers is a no."""
LONGEST = 100_000
"""Characters of a question; what is longer cannot be shown whole, so nobody can say yes to it."""
NOBODY = Answer(False, why="Nobody can be asked here", by=DecidedBy.NOBODY)
TOO_LONG = Answer(False, why="The call is too long to be shown to a person", by=DecidedBy.NOBODY)
TOO_LATE = silence(PATIENCE)
NEVER_HERE = ("always", "session")
"""What an answer through a client does not reach: it would count for others, or outlive the client."""


class Line(Protocol):
    """A way to the person who sits at a client."""

    async def ask(self, question: Question) -> Answer:
        """What that person says."""
        ...


LINE: ContextVar[Line | None] = ContextVar("LINE", default=None)
"""The way to the client that asked for the work at hand; agents inherit it from the call that sent them."""


class Carrier:
    """Asks whoever sent the agents that ask."""

    async def ask(self, question: Question) -> Answer:
        """What the person at the client says, or that there is none."""
        line = LINE.get()
        question = replace(question, until=time.time() + min(question.patience.in_all(PATIENCE), PATIENCE))
        return NOBODY if line is None else await line.ask(question)


class AtOnce:
    """Asks a client by a request to it, one question at a time."""

    def __init__(self, session: ServerSession, request: types.RequestId | None, turn: asyncio.Lock) -> None:
        self._session = session
        self._to = ServerMessageMetadata(related_request_id=request)
        self._turn = turn

    async def ask(self, question: Question) -> Answer:
        """What the person at the client says."""
        asked = elicitation(question)
        if asked is None:
            return TOO_LONG
        async with self._turn:
            try:
                said = await self._session.send_request(asked, types.ElicitResult, PATIENCE, self._to)
            except (MCPError, ValidationError) as trouble:
                why = trouble.message if isinstance(trouble, MCPError) else "its answer makes no sense"
                why = f"The client could not be asked: {exact_line(why)[:200]}"
                return Answer(False, why=why, by=DecidedBy.NOBODY)
        return understood(question, said)


class InRounds:
    """Keeps questions until the call is made again with the answers; `news` is set when one comes."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._numbers = count(1)
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    async def ask(self, question: Question) -> Answer:
        """What the person at the client says in one of the next rounds."""
        if elicitation(question) is None:
            return TOO_LONG
        key = f"question-{next(self._numbers)}"
        said: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = (question, said)
        self.news.set()
        try:
            async with asyncio.timeout(PATIENCE):
                return await said
        except TimeoutError:
            return TOO_LATE
        finally:
            del self._open[key]

    def requests(self) -> dict[str, types.InputRequest]:
        """Everything that waits for an answer."""
        self.news.clear()
        waiting = {
            key: elicitation(question) for key, (question, said) in self._open.items() if not said.done()
        }
        return {key: asked for key, asked in waiting.items() if asked is not None}

    def answer(self, responses: Mapping[str, types.InputResponse]) -> None:
        """Take in what the client says; what it does not speak of waits on."""
        for key, said in responses.items():
            if key in self._open and isinstance(said, types.ElicitResult):
                question, given = self._open[key]
                if not given.done():
                    given.set_result(understood(question, said))
        if self._open:
            self.news.set()


def can_elicit(able: types.ClientCapabilities | None) -> bool:
    """Whether a client can show a form to a person."""
    if able is None or able.elicitation is None:
        return False
    return able.elicitation.form is not None or able.elicitation.url is None


def elicitation(question: Question) -> types.ElicitRequest | None:
    """A question as a form; None for one that is too long to be shown whole."""
    if question.inquiries:
        ends = (due(question, inquiry) for inquiry in question.inquiries)
        message = "\n".join((f"{who(question)} asks", *dict.fromkeys(end for end in ends if end)))
        fields = {name: field for pair in _inquired(question.inquiries) for name, field in pair.items()}
        needed: list[str] = []
    else:
        parts = [headline(question), exactly(question), *preview_lines(question), reason(question)]
        more = f"More than this call would allow {allows(question)}." if question.rules else ""
        message = "\n".join(part for part in (*parts, more) if part)
        says = [choice.says for choice in _choices(question)]
        fields = {"answer": {"type": "string", "title": "May it?", "enum": says}}
        needed = ["answer"]
    if len(message) + sum(len(str(field)) for field in fields.values()) > LONGEST:
        return None
    schema = {"type": "object", "properties": fields, "required": needed}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def understood(question: Question, said: types.ElicitResult) -> Answer:
    """What a filled form says; anything that is no clear yes is a no."""
    content: Mapping[str, Any] = said.content or {}
    if said.action != "accept":
        return Answer(False, why=NOT_ANSWERED if question.inquiries else "")
    if question.inquiries:
        return answered([_word(content, number) for number in range(len(question.inquiries))])
    chosen = content.get("answer")
    found = [choice.answer for choice in _choices(question) if choice.says == chosen]
    return found[0] if found else Answer(False)


def _choices(question: Question) -> list[Choice]:
    return [each for each in choices(question) if each.answer.reach not in NEVER_HERE]


def _inquired(inquiries: Sequence[Inquiry]) -> list[dict[str, Any]]:
    """The fields of a form for what an agent wants to know: one to choose, and one for other words."""
    found: list[dict[str, Any]] = []
    for number, inquiry in enumerate(inquiries):
        offered = inquiry_choices(inquiry)
        title = visible(inquiry.question)
        meant = "; ".join(f"{label}: {says}" for label, says in offered if says)
        if not offered or inquiry.many:
            named = "; ".join(f"{label}: {says}" if says else label for label, says in offered)
            hint = f"One or more of, with commas between: {named}" if named else "Your answer"
            found.append({f"other_{number}": {"type": "string", "title": title, "description": hint}})
            continue
        choice = {"type": "string", "title": title, "enum": [label for label, _ in offered]}
        other = {"type": "string", "title": "Or in your own words", "description": "Leave it empty otherwise"}
        found.append(
            {
                f"answer_{number}": {**choice, "description": meant} if meant else choice,
                f"other_{number}": other,
            }
        )
    return found


def _word(content: Mapping[str, Any], number: int) -> str:
    for name in (f"other_{number}", f"answer_{number}"):
        value = content.get(name)
        if isinstance(value, list):
            value = ", ".join(str(each) for each in cast("list[object]", value))
        if isinstance(value, str) and value.strip():
            return value.strip()[:LONGEST]
    return ""
