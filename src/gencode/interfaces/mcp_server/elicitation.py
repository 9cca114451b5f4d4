"""Elicitation: asks the user of an MCP client for permissions and answers.

Clients before 2026-07-28 are asked while their call runs. Later ones get the questions as the result of the
call, and make it again with the answers. If a client cannot ask its user, what needs approval is refused.
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
from pydantic import ValidationError

from gencode.core.questions import Answer, Inquiry, Question, silence
from gencode.core.rules import DecidedBy
from gencode.core.structs import replace
from gencode.core.text import exact_line, visible
from gencode.interfaces.chat.question_text import (
    INSTEAD_ASKS,
    NOT_ANSWERED,
    Choice,
    answer_from_words,
    asker_path,
    call_text,
    choices,
    deadline_line,
    headline,
    inquiry_choices,
    preview_lines,
    reason,
    rules_text,
)

PATIENCE = 600.0
"""Seconds after which a question without an answer is declined."""
LONGEST = 100_000
"""Characters of a question; a longer one cannot be shown completely, so it cannot be approved."""
NOBODY = Answer(False, why="This client cannot ask its user", by=DecidedBy.NOBODY)
TOO_LONG = Answer(False, why="The call is too long to show to the user", by=DecidedBy.NOBODY)
TOO_LATE = silence(PATIENCE)
NOT_OFFERED = ("always", "session")
"""Answers that a client is not offered: they would apply to other clients, or outlive this one."""


class Elicitor(Protocol):
    """Asks the user of a client."""

    async def ask(self, question: Question) -> Answer:
        """The user's answer."""
        ...


ELICITOR: ContextVar[Elicitor | None] = ContextVar("ELICITOR", default=None)
"""Asks the client whose call is being handled; the agents that it starts inherit this."""


class ClientAsker:
    """Asks the client whose call has started the agent."""

    async def ask(self, question: Question) -> Answer:
        """The user's answer; `NOBODY` where the client cannot ask."""
        elicitor = ELICITOR.get()
        question = replace(question, until=time.time() + min(question.patience.in_all(PATIENCE), PATIENCE))
        return NOBODY if elicitor is None else await elicitor.ask(question)


class DirectElicitor:
    """Asks a client by requests to it, one question at a time."""

    def __init__(self, session: ServerSession, request: types.RequestId | None, lock: asyncio.Lock) -> None:
        self._session = session
        self._to = ServerMessageMetadata(related_request_id=request)
        self._lock = lock

    async def ask(self, question: Question) -> Answer:
        """The user's answer."""
        asked = elicitation(question)
        if asked is None:
            return TOO_LONG
        async with self._lock:
            try:
                said = await self._session.send_request(asked, types.ElicitResult, PATIENCE, self._to)
            except (MCPError, ValidationError) as trouble:
                why = trouble.message if isinstance(trouble, MCPError) else "its response is not valid"
                why = f"The client could not ask its user: {exact_line(why)[:200]}"
                return Answer(False, why=why, by=DecidedBy.NOBODY)
        return answer_from(question, said)


class RoundElicitor:
    """Keeps questions until the client makes its call again with the answers; `news` is set for a new one."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._numbers = count(1)
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    async def ask(self, question: Question) -> Answer:
        """The user's answer, from one of the next rounds."""
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
        """The requests for all questions without an answer."""
        self.news.clear()
        waiting = {
            key: elicitation(question) for key, (question, said) in self._open.items() if not said.done()
        }
        return {key: asked for key, asked in waiting.items() if asked is not None}

    def answer(self, responses: Mapping[str, types.InputResponse]) -> None:
        """Handle the client's answers; questions that it did not answer still wait."""
        for key, said in responses.items():
            if key in self._open and isinstance(said, types.ElicitResult):
                question, given = self._open[key]
                if not given.done():
                    given.set_result(answer_from(question, said))
        if self._open:
            self.news.set()


def can_elicit(able: types.ClientCapabilities | None) -> bool:
    """Whether a client can show a form to its user."""
    if able is None or able.elicitation is None:
        return False
    return able.elicitation.form is not None or able.elicitation.url is None


def elicitation(question: Question) -> types.ElicitRequest | None:
    """A question as a form; None for one that is too long to show completely."""
    if question.inquiries:
        ends = (deadline_line(question, inquiry) for inquiry in question.inquiries)
        message = "\n".join((f"{asker_path(question)} asks", *dict.fromkeys(end for end in ends if end)))
        fields = {name: field for pair in _fields(question.inquiries) for name, field in pair.items()}
        needed: list[str] = []
    else:
        parts = [headline(question), call_text(question), *preview_lines(question), reason(question)]
        more = (
            f"An approval for more than this call would allow: {rules_text(question)}"
            if question.rules
            else ""
        )
        message = "\n".join(part for part in (*parts, more) if part)
        says = [choice.says for choice in _choices(question)]
        fields = {
            "answer": {"type": "string", "title": "Allow it?", "enum": says},
            "instead": {"type": "string", "title": INSTEAD_ASKS, "description": "Only if you decline"},
        }
        needed = ["answer"]
    if len(message) + sum(len(str(field)) for field in fields.values()) > LONGEST:
        return None
    schema = {"type": "object", "properties": fields, "required": needed}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def answer_from(question: Question, said: types.ElicitResult) -> Answer:
    """The answer in a filled form; anything but a clear approval declines."""
    content: Mapping[str, Any] = said.content or {}
    if said.action != "accept":
        return Answer(False, why=NOT_ANSWERED if question.inquiries else "")
    if question.inquiries:
        return answer_from_words([_text_of(content, number) for number in range(len(question.inquiries))])
    chosen = content.get("answer")
    found = [choice.answer for choice in _choices(question) if choice.says == chosen]
    if found and found[0].allow:
        return found[0]
    instead = content.get("instead")
    return Answer(False, why=instead.strip()[:LONGEST] if isinstance(instead, str) else "")


def _choices(question: Question) -> list[Choice]:
    return [each for each in choices(question) if each.answer.reach not in NOT_OFFERED]


def _fields(inquiries: Sequence[Inquiry]) -> list[dict[str, Any]]:
    """The fields of a form for an agent's questions: one with the options, and one for another answer."""
    found: list[dict[str, Any]] = []
    for number, inquiry in enumerate(inquiries):
        offered = inquiry_choices(inquiry)
        title = visible(inquiry.question)
        explained = "; ".join(f"{label}: {says}" for label, says in offered if says)
        if not offered or inquiry.many:
            named = "; ".join(f"{label}: {says}" if says else label for label, says in offered)
            hint = f"One or more of these, separated by commas: {named}" if named else "Your answer"
            found.append({f"other_{number}": {"type": "string", "title": title, "description": hint}})
            continue
        choice = {"type": "string", "title": title, "enum": [label for label, _ in offered]}
        other = {"type": "string", "title": "Other", "description": "Another answer, or empty"}
        found.append(
            {
                f"answer_{number}": {**choice, "description": explained} if explained else choice,
                f"other_{number}": other,
            }
        )
    return found


def _text_of(content: Mapping[str, Any], number: int) -> str:
    for name in (f"other_{number}", f"answer_{number}"):
        value = content.get(name)
        if isinstance(value, list):
            value = ", ".join(str(each) for each in cast("list[object]", value))
        if isinstance(value, str) and value.strip():
            return value.strip()[:LONGEST]
    return ""
