"""Endpoints for pending questions and their answers."""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.questions import RUNS_COMMANDS, Answer, Inquiry, Reach, check_answer, reaches_of
from gencode.core.rules import Decision
from gencode.interfaces.http.endpoints import ApiRequest, Name, Nothing, ServerContext, Text, endpoint
from gencode.interfaces.http.guard import HttpRefusal
from gencode.questions.question_desk import PendingQuestion

GONE = (
    "This question is no longer pending: it was answered, or its agent has finished. The answer was not "
    "used. GET /api/questions lists pending questions."
)


class OpenQuestion(Struct, frozen=True):
    """A question without an answer: who wants to do exactly what, why a person is asked, what would change.

    `number` is drawn by lot and says nothing about the order; it never comes again, also after a restart.
    `path` are the agents from the main one down. `reaches` are what a yes may stand for, `rules` what it
    allows when it stands for more than this call. With `inquiries` an agent wants to know something. `cwd` is
    the folder in which the call would run, `place` the machine of another process that asks. It was asked at
    the moment `since`. At the moment `until` it counts as unanswered: a no, or the `default` of what an agent
    wants to know.
    """

    number: int
    task: str
    agent: str
    path: list[str]
    tool: str
    input: dict[str, Any]
    decision: Decision
    preview: str
    rules: list[str]
    reaches: list[Reach]
    network: bool
    inquiries: list[Inquiry]
    cwd: str
    place: str
    since: str
    until: str


class QuestionsPage(Struct, frozen=True):
    """The pending questions, the oldest first."""

    questions: list[OpenQuestion]


class NewAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """Approve or decline, for how long, with or without the network; `words` answer inquiries."""

    allow: bool
    reach: Reach = "call"
    why: Name = ""
    network: bool = False
    words: list[Text] = []


class AnsweredQuestion(Struct, frozen=True):
    """The question that was answered."""

    number: int


@endpoint("GET /api/questions", "view", "List pending questions", answer=QuestionsPage)
async def list_questions(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> QuestionsPage:
    return QuestionsPage([_open(each) for each in await _waiting(context, request)])


@endpoint(
    "POST /api/questions/{number}", "answer", "Answer a question", body=NewAnswer, answer=AnsweredQuestion
)
async def answer_question(
    context: ServerContext, request: ApiRequest[Nothing, NewAnswer]
) -> AnsweredQuestion:
    said = request.body
    pending = {str(each.number): each for each in await _waiting(context, request)}
    waiting = pending.get(request.path["number"])
    if waiting is None:
        raise HttpRefusal(404, GONE)
    words = tuple(said.words)
    answer = Answer(said.allow, said.reach, said.why, network=said.network, words=words)
    check_answer(waiting.question, answer)
    try:
        await context.desk.answer(waiting.number, answer)
    except UserMistake:
        raise HttpRefusal(404, GONE) from None  # somebody else was quicker, here or in another process
    return AnsweredQuestion(waiting.number)


def _open(waiting: PendingQuestion) -> OpenQuestion:
    question = waiting.question
    return OpenQuestion(
        number=waiting.number,
        task=question.task,
        agent=question.agent,
        path=list(question.path),
        tool=question.call.name,
        input=question.call.input,
        decision=question.decision,
        preview=question.preview,
        rules=list(question.rules),
        reaches=list(reaches_of(question)),
        network=question.call.name in RUNS_COMMANDS,
        inquiries=list(question.inquiries),
        cwd=question.cwd,
        place=question.away.place if question.away else "",
        since=_stamped(waiting.since),
        until="" if question.until is None else _stamped(question.until),
    )


def _stamped(moment: float) -> str:
    return stamp(datetime.fromtimestamp(moment, UTC))


async def _waiting(context: ServerContext, request: ApiRequest[Any, Any]) -> list[PendingQuestion]:
    """The pending questions of the tasks that the token reaches."""
    pending = context.desk.waiting()
    if request.everywhere:
        return [*pending]
    return [each for each in pending if await context.hub.places.is_here(each.question.task)]


ENDPOINTS = (list_questions, answer_question)
