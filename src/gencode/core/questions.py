"""Questions of agents and their answers: the records, their port in a store, and who can be asked."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.rules import DecidedBy, Decision


class Option(Struct, frozen=True):
    """One answer to choose."""

    label: str
    description: str = ""


RUNS_COMMANDS = frozenset({"Bash"})
LONGEST_WORDS = 20_000
"""So long an answer in words may be."""
FOR_EVER = 86_400.0
"""A question that waits until it is answered is shown elsewhere for so many seconds."""
ALL = "*"
"""Every conversation of a folder."""
SILENCE = "Nobody answered"
LEFT_EMPTY = "The user left the answer empty"
"""What an agent hears that asked, and goes on as if nobody had answered."""

Hearing = Literal["woken", "soon", "heard", "later"]
"""When somebody hears what was said: woken by it, before the next reply, already, or once they go on."""


class Inquiry(Struct, frozen=True):
    """Something that an agent wants to know; with `many`, more than one option may be chosen.

    `default` is what the agent goes on with when nobody answers; without one nothing is decided then.
    """

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    many: bool = False
    default: str = ""


class InquiryResult(Struct, frozen=True):
    """What came of inquiries: the answer to each, or none, and who gave them or why nobody did.

    With `later` the answer comes as a message of its own. `silent`: nobody was there, or said anything.
    """

    by: str
    words: tuple[str, ...] = ()
    later: bool = False
    silent: bool = False


class QuestionOrigin(Struct, frozen=True):
    """Where a question of another process comes from: the folder of its conversation, and the machine.

    `background`: nobody waits for who asks. `left` are the seconds it waits (None: until it is answered).
    `since` is the moment (in seconds since 1970) at which it was asked, where that is known.
    """

    folder: str
    place: str
    background: bool
    left: float | None
    since: float | None = None


class AnswerTimeout(Struct, frozen=True):
    """How long a question may wait: for `seconds` once it is shown (None: as long as is usual there), and
    longer while an answer is typed.

    Never longer than `most`, from when it is asked (None: no end): the agent needs the rest of its time to go
    on with what it is told.
    """

    seconds: float | None = None
    most: float | None = None

    def in_all(self, usual: float) -> float:
        """So long it waits at most where it is shown at once and nobody sees who types."""
        seconds = usual if self.seconds is None else self.seconds
        return seconds if self.most is None else min(seconds, self.most)


class Question(Struct, frozen=True):
    """What a person is asked: whether a call may run, or what an agent wants to know (`inquiries`).

    `path` are the agents from the main one down to the one that asks, `preview` shows what would change,
    `rules` are what an approval for more than this call would allow (none: only this call can be approved).
    `cwd` is the folder in which the call would run, `away` says where it comes from when that is another
    process. `waited`: somebody waited for the agent when it began to ask, so that it asks from no background.
    `until` is the moment (in seconds since 1970) at which it is asked no more, once that is known.
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


Reach = Literal["call", "agent", "subtree", "session", "always"]
"""What an approval covers: this call; this agent; it and its subagents; this session; all later sessions."""


class Answer(Struct, frozen=True):
    """What a person said; `words` answer the inquiries of the question, one each.

    `by` says who gave it: a person, and then `why` is the reason they gave, or nobody, and then it is why
    nobody did. `network` lets this one command reach the network from inside its sandbox.
    """

    allow: bool
    reach: Reach = "call"
    why: str = ""
    network: bool = False
    words: tuple[str, ...] = ()
    by: DecidedBy = DecidedBy.USER

    @property
    def silent(self) -> bool:
        """Whether it stands for no answer: where others are asked as well, they still may give one."""
        return self.by is DecidedBy.SILENCE


NOBODY = Answer(False, why=SILENCE, by=DecidedBy.SILENCE)


def silence(seconds: float) -> Answer:
    """What stands for an answer that nobody gave within so many seconds."""
    return Answer(False, why=f"{SILENCE} within {seconds:.4g} s", by=DecidedBy.SILENCE)


class CannotAsk(UserMistake):
    """A question that could not be put to anybody; the sentence says why."""


class NobodyAvailable(CannotAsk):
    """A question for which there is nobody at this moment."""

    def __init__(self) -> None:
        super().__init__("Nobody can be asked here")


class Asker(Protocol):
    """Who can be asked."""

    async def ask(self, question: Question) -> Answer:
        """What a person says to exactly this call; NobodyAvailable where there is none."""
        ...


@runtime_checkable
class TimedAsker(Asker, Protocol):
    """An asker that keeps the deadlines of questions itself, and counts the agents that wait for it."""

    def parking(self) -> AbstractContextManager[None]:
        """While an agent waits for an answer, so that others may work in its place."""
        ...


class Presence(Struct, frozen=True):
    """A person who can be asked: `name` is the owner of the tasks of their process, `cwd` their folder.

    With `background` they also take the questions of agents in the background of that folder. `follows` is
    the conversation they look at, whoever leads it: they may answer what is asked there, too.
    """

    name: str
    cwd: str
    background: bool
    follows: str = ""


class NewQuestion(Struct, frozen=True):
    """A question to be written down by the owner of its task, to be shown for `seconds` (`FOR_EVER`: no end).

    One that is asked at `home` has somebody there already: others may answer it, too. Where it is not known
    whether it was written, that is tried again with the same `mark`, and it is written once.
    """

    question: Question
    owner: str
    background: bool
    seconds: float
    home: bool = False
    mark: str = ""


class QuestionRow(Struct, frozen=True):
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


class QuestionStore(Protocol):
    """The questions of a store: rows that wait until somebody answers them, each at most once."""

    async def put(self, new: NewQuestion) -> int:
        """Write a question down; its number. NobodyAvailable or CannotAsk when it cannot be asked."""
        ...

    async def answers(self, numbers: Sequence[int]) -> Mapping[int, Answer | None]:
        """The answers to questions, None where there is none yet; those that are gone are left out."""
        ...

    async def withdraw(self, number: int) -> Answer | None:
        """Take a question back; the answer, if one came before that."""
        ...

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Answer a question where it was asked, so that others learn who did; what came before it, if any.

        CannotAsk when its task is not run there any more.
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

    async def news(self, presence: Presence) -> Sequence[QuestionRow]:
        """The questions for a person that wait; what their own process asks is not among them."""
        ...

    async def waiting(self, cwd: str) -> Sequence[QuestionRow]:
        """All questions that wait, of one folder or (empty) of every one."""
        ...

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake when it was answered, or waits no more."""
        ...


def check_answer(question: Question, answer: Answer) -> None:
    """UserMistake for an answer that says more than was asked."""
    reaches = reaches_of(question)
    if answer.allow and answer.reach not in reaches:
        raise UserMistake(f"This can only be approved for: {', '.join(reaches)}.")
    if answer.network and (not answer.allow or question.call.name not in RUNS_COMMANDS):
        raise UserMistake("Only a command that may run can be given the network.")
    if answer.allow and len(answer.words) != len(question.inquiries):
        raise UserMistake(_as_many(len(question.inquiries), len(answer.words)))
    if any(len(word) > LONGEST_WORDS for word in answer.words):
        raise UserMistake(f"An answer has at most {LONGEST_WORDS:,} characters.")


def _as_many(asked: int, given: int) -> str:
    """That there are too few or too many answers in words."""
    if not asked:
        return "This question takes an approval, not an answer in words."
    words = "1 answer in words is" if asked == 1 else f"{asked} answers in words are"
    return f"{words} asked for, not {given or 'none'}; an empty one counts as no answer."


def reaches_of(question: Question) -> tuple[Reach, ...]:
    """What an approval may cover."""
    return ("call", "agent", "subtree", "session", "always") if question.rules else ("call",)


def kept_there(answer: Answer) -> Answer:
    """An answer as it counts in another process: for no more than the agent that asked and all below it.

    What is open there may belong to many sessions, so "this session" must not reach all of it.
    """
    return replace(answer, reach="subtree") if answer.reach in ("session", "always") else answer
