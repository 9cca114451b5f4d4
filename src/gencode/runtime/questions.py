"""Questions that travel: asked by an agent of one process or machine, answered by a person at another."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.runtime.asking import Answer, Question, Reach

RUNS_COMMANDS = frozenset({"Bash"})
LONGEST_WORDS = 20_000
"""So long an answer in words may be."""
FOR_EVER = 86_400.0
"""A question that waits until it is answered is shown elsewhere for so many seconds."""
ALL = "*"
"""Every conversation of a folder."""


class Presence(Struct, frozen=True):
    """A person who can be asked: `name` is the owner of the tasks of their process, `cwd` their folder.

    With `background` they also take the questions of agents in the background of that folder. `follows` is
    the conversation they look at, whoever leads it: they may answer what is asked there, too.
    """

    name: str
    cwd: str
    background: bool
    follows: str = ""


class Travelling(Struct, frozen=True):
    """A question without an answer, and how many seconds ago it was asked and how many are left for it.

    `left` is None where it waits until it is answered. `folder` is that of its conversation, `place` the
    machine on which it was asked.
    """

    number: int
    question: Question
    asked: float
    left: float | None
    background: bool
    folder: str = ""
    place: str = ""


class Post(Struct, frozen=True):
    """A question on its way: who asks (the owner of the task), and for how long (`FOR_EVER`: no end is told).

    One that is asked at `home` has somebody there already: others may answer it, too.
    """

    question: Question
    owner: str
    background: bool
    seconds: float
    home: bool = False


class QuestionBox(Protocol):
    """Where questions lie until somebody answers them, each at most once."""

    async def put(self, post: Post) -> int:
        """Lay a question down; its number. NobodyThere or Unasked when it cannot be, and then it is gone."""
        ...

    async def answered(self, number: int, owner: str) -> Answer | None:
        """What was answered, once something was; Unasked when the question is gone.

        Nothing is looked up while nothing was heard.
        """
        ...

    async def withdraw(self, number: int) -> Answer | None:
        """Take a question back; the answer, if one came before that."""
        ...

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Answer a question where it was asked, so that others learn who did; what came before it, if any.

        Unasked when its task is not run there any more.
        """
        ...

    async def who(self, task: str, call: ToolCall) -> str:
        """Who answered what was last asked about this very call; empty where that is not known."""
        ...

    async def here(self, presence: Presence, seconds: float) -> None:
        """Say that a person is there, for so many seconds."""
        ...

    async def gone(self, name: str) -> None:
        """Say that a person is there no more."""
        ...

    async def news(self, presence: Presence) -> Sequence[Travelling] | None:
        """The questions for a person that wait; None while nothing was heard, not for long.

        What their own process asks is not among them.
        """
        ...

    async def waiting(self, cwd: str) -> Sequence[Travelling]:
        """All questions that wait, of one folder or (empty) of every one."""
        ...

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake when it was answered, or waits no more."""
        ...


@runtime_checkable
class Relaying(Protocol):
    """A journal through which questions travel."""

    @property
    def questions(self) -> QuestionBox:
        """Where they lie."""
        ...


def check_answer(question: Question, answer: Answer) -> None:
    """UserMistake for an answer that says more than was asked."""
    reaches = reaches_of(question)
    if answer.allow and answer.reach not in reaches:
        raise UserMistake(f"A yes to this can only stand for {', '.join(reaches)}.")
    if answer.network and (not answer.allow or question.call.name not in RUNS_COMMANDS):
        raise UserMistake("Only a command that may run can be given the network.")
    if answer.allow and len(answer.words) != len(question.inquiries):
        raise UserMistake(_as_many(len(question.inquiries), len(answer.words)))
    if any(len(word) > LONGEST_WORDS for word in answer.words):
        raise UserMistake(f"An answer has at most {LONGEST_WORDS:,} characters.")


def _as_many(asked: int, given: int) -> str:
    """That there are too few or too many answers in words."""
    if not asked:
        return "A yes or a no is asked for, and no answer in words."
    words = "1 answer in words is" if asked == 1 else f"{asked} answers in words are"
    return f"{words} asked for, not {given or 'none'}; an empty one counts as no answer."


def reaches_of(question: Question) -> tuple[Reach, ...]:
    """What a yes may stand for."""
    return ("call", "agent", "subtree", "session", "always") if question.rules else ("call",)


def kept_there(answer: Answer) -> Answer:
    """An answer as it counts in another process: for no more than the agent that asked and all below it.

    What is open there may belong to many sessions, so "this session" must not reach all of it.
    """
    return replace(answer, reach="subtree") if answer.reach in ("session", "always") else answer
