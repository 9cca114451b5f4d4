"""Questions of agents and their answers: the records, their port in a store, and who can be asked."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.rules import DecidedBy, Decision
from gencode.core.structs import replace


class Option(Struct, frozen=True):
    """One option of a question."""

    label: str
    description: str = ""


RUNS_COMMANDS = frozenset({"Bash"})
LONGEST_WORDS = 20_000
"""The longest answer in words, in characters."""
FOR_EVER = 86_400.0
"""For how many seconds a question without a time limit is shown to other processes."""
ALL = "*"
"""Every conversation of a folder."""
SILENCE = "Nobody answered"
LEFT_EMPTY = "The user left the answer empty"
"""The answer to an agent whose question was left empty: it goes on as if nobody had answered."""

Hearing = Literal["woken", "soon", "heard", "later"]
"""When the recipient reads a message: resumed by it, before its next reply, already, or at its next resume.
"""


class Inquiry(Struct, frozen=True):
    """One thing an agent wants to know; with `many`, several options may be chosen.

    `default` is the answer if nobody gives one; without it there is none then.
    """

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    many: bool = False
    default: str = ""


class InquiryResult(Struct, frozen=True):
    """The result of inquiries: an answer to each, or none, and who gave them or why nobody did.

    With `later` the answer comes as a separate message. `silent`: nobody was there, or nobody answered.
    """

    by: str
    words: tuple[str, ...] = ()
    later: bool = False
    silent: bool = False


class QuestionOrigin(Struct, frozen=True):
    """Where a question of another process comes from: the folder of its conversation, and the machine.

    `background`: nobody waits for the agent. `left` are the seconds until it expires (None: never). `since`
    is when it was asked (in seconds since 1970), if that is known.
    """

    folder: str
    place: str
    background: bool
    left: float | None
    since: float | None = None


class AnswerTimeout(Struct, frozen=True):
    """How long a question may wait: `seconds` once it is shown (None: the usual time), and longer while
    somebody types an answer.

    Never longer than `most` after it was asked (None: no limit): the agent needs the rest of its time to use
    the answer.
    """

    seconds: float | None = None
    most: float | None = None

    def in_all(self, usual: float) -> float:
        """The longest wait of a question that is shown at once and nobody types an answer to."""
        seconds = usual if self.seconds is None else self.seconds
        return seconds if self.most is None else min(seconds, self.most)


class Question(Struct, frozen=True):
    """A question to a person: whether a call may run, or what an agent wants to know (`inquiries`).

    `path` are the agents from the main one down to the one that asks, `preview` shows what would change,
    `rules` are what an approval of more than this call would allow (none: only this call can be approved),
    `prefixes` the same for any further arguments, where the command is one that is run again and again.
    `cwd` is the folder in which the call would run, `away` says where a question of another process comes
    from. `waited`: somebody waited for the agent when it asked, so it is not in the background. `until` is
    when it expires (in seconds since 1970), once that is known.
    """

    task: str
    agent: str
    call: ToolCall
    decision: Decision
    path: tuple[str, ...] = ()
    preview: str = ""
    rules: tuple[str, ...] = ()
    inquiries: tuple[Inquiry, ...] = ()
    cwd: str = ""
    away: QuestionOrigin | None = None
    waited: bool = False
    patience: AnswerTimeout = AnswerTimeout()
    until: float | None = None
    prefixes: tuple[str, ...] = ()

    def rules_of(self, answer: "Answer") -> tuple[str, ...]:
        """The rules that an approval adds where it covers more than this call."""
        return self.prefixes if answer.prefix else self.rules


Reach = Literal["call", "agent", "subtree", "session", "always"]
"""What an approval covers: this call; this agent; it and its subagents; this session; all later sessions."""


class Answer(Struct, frozen=True):
    """The answer of a person; `words` answer the inquiries of the question, one each.

    `by` says who gave it. For a person `why` is their reason, otherwise it is why nobody answered. `network`
    lets this one command reach the network from inside its sandbox.
    """

    allow: bool
    reach: Reach = "call"
    why: str = ""
    network: bool = False
    words: tuple[str, ...] = ()
    by: DecidedBy = DecidedBy.USER
    prefix: bool = False
    """Whether it covers the command with any further arguments."""

    @property
    def silent(self) -> bool:
        """Whether nobody answered: if others are asked as well, they still may."""
        return self.by is DecidedBy.SILENCE


NOBODY = Answer(False, why=SILENCE, by=DecidedBy.SILENCE)


def silence(seconds: float) -> Answer:
    """The answer that stands for nobody answering within this time."""
    return Answer(False, why=f"{SILENCE} within {seconds:.4g} s", by=DecidedBy.SILENCE)


class CannotAsk(UserMistake):
    """A question that cannot be shown to anybody; the message says why."""


class NobodyAvailable(CannotAsk):
    """A question that nobody can answer at this moment."""

    def __init__(self) -> None:
        super().__init__("Nobody can be asked here")


class Asker(Protocol):
    """Asks people."""

    async def ask(self, question: Question) -> Answer:
        """The answer to exactly this call; NobodyAvailable without a person."""
        ...


@runtime_checkable
class TimedAsker(Asker, Protocol):
    """An asker that keeps the deadlines of questions itself, and counts the agents that wait for it."""

    def parking(self) -> AbstractContextManager[None]:
        """Marks that an agent waits for an answer, so that others may run in its place."""
        ...


class Presence(Struct, frozen=True):
    """A person who can be asked: `name` is the owner of the tasks of their process, `cwd` their folder.

    With `background` they also get the questions of background agents of that folder. `follows` is the
    conversation they look at, whoever leads it: they may answer its questions, too.
    """

    name: str
    cwd: str
    background: bool
    follows: str = ""


class NewQuestion(Struct, frozen=True):
    """A question to be stored by the owner of its task, and shown for `seconds` (`FOR_EVER`: without a
    limit).

    One that is asked at `home` is already shown to somebody there: others may answer it, too. If it is not
    known whether it was stored, storing it again with the same `mark` stores it once.
    """

    question: Question
    owner: str
    background: bool
    seconds: float
    home: bool = False
    mark: str = ""


class QuestionRow(Struct, frozen=True):
    """A question without an answer, how many seconds ago it was asked, and how many are left.

    `left` is None if it never expires. `folder` is that of its conversation, `place` the machine on which it
    was asked.
    """

    number: int
    question: Question
    asked: float
    left: float | None
    background: bool
    folder: str = ""
    place: str = ""


class QuestionStore(Protocol):
    """The questions of a store: rows that wait for an answer, each answered at most once."""

    async def put(self, new: NewQuestion) -> int:
        """Store a question; its number. NobodyAvailable or CannotAsk if it cannot be asked."""
        ...

    async def answers(self, numbers: Sequence[int]) -> Mapping[int, Answer | None]:
        """The answers to questions, None for one without; removed questions are left out."""
        ...

    async def withdraw(self, number: int) -> Answer | None:
        """Withdraw a question; the answer, if one was given before."""
        ...

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Record an answer that was given where the question was asked; an earlier answer, if there is one.

        CannotAsk if its task no longer runs there.
        """
        ...

    async def who(self, task: str, call: ToolCall) -> str:
        """Who answered the last question about this very call; empty if that is not known."""
        ...

    async def here(self, presence: Presence, seconds: float) -> None:
        """Announce that a person is there, for so many seconds."""
        ...

    async def gone(self, name: str) -> None:
        """Announce that a person has left."""
        ...

    async def news(self, presence: Presence) -> Sequence[QuestionRow]:
        """The open questions for a person, without those of their own process."""
        ...

    async def waiting(self, cwd: str) -> Sequence[QuestionRow]:
        """All open questions, of one folder or (empty) of every one."""
        ...

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake if it was answered or is no longer open."""
        ...


def check_answer(question: Question, answer: Answer) -> None:
    """UserMistake for an answer that covers more than was asked."""
    reaches = reaches_of(question)
    if answer.allow and answer.reach not in reaches:
        raise UserMistake(f"This can only be approved for: {', '.join(reaches)}.")
    if answer.prefix and not (answer.allow and answer.reach != "call" and question.prefixes):
        raise UserMistake("This cannot be approved for any further arguments.")
    if answer.network and (not answer.allow or question.call.name not in RUNS_COMMANDS):
        raise UserMistake("Only a command that may run can be given the network.")
    if answer.allow and len(answer.words) != len(question.inquiries):
        raise UserMistake(_as_many(len(question.inquiries), len(answer.words)))
    if any(len(word) > LONGEST_WORDS for word in answer.words):
        raise UserMistake(f"An answer has at most {LONGEST_WORDS:,} characters.")


def _as_many(asked: int, given: int) -> str:
    """The message that there are too few or too many answers in words."""
    if not asked:
        return "This question takes an approval, not an answer in words."
    words = "1 answer in words is" if asked == 1 else f"{asked} answers in words are"
    return f"{words} asked for, not {given or 'none'}; an empty one counts as no answer."


def reaches_of(question: Question) -> tuple[Reach, ...]:
    """The reaches that an approval of this question may have."""
    return ("call", "agent", "subtree", "session", "always") if question.rules else ("call",)


def kept_there(answer: Answer) -> Answer:
    """An answer as it applies in another process: to no more than the agent that asked and its subagents.

    That process may have many sessions open, and "this session" must not mean all of them.
    """
    return replace(answer, reach="subtree") if answer.reach in ("session", "always") else answer
