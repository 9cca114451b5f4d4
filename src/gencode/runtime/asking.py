"""Asking: what a person or another agent is asked, what they say, and who can be asked."""

from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.rules import DecidedBy, Decision


class Option(Struct, frozen=True):
    """One answer to choose."""

    label: str
    description: str = ""


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


class Reply(Struct, frozen=True):
    """What came of inquiries: the answer to each, or none, and who gave them or why nobody did.

    With `later` the answer comes as a message of its own. `silent`: nobody was there, or said anything.
    """

    by: str
    words: tuple[str, ...] = ()
    later: bool = False
    silent: bool = False


class Away(Struct, frozen=True):
    """Where a question of another process comes from: the folder of its conversation, and the machine.

    `background`: nobody waits for who asks. `left` are the seconds it waits (None: until it is answered).
    `since` is the moment (in seconds since 1970) at which it was asked, where that is known.
    """

    folder: str
    place: str
    background: bool
    left: float | None
    since: float | None = None


class Patience(Struct, frozen=True):
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
    `rules` are what a yes for more than this call would allow (none: it can only stand for this call). `cwd`
    is the folder in which the call would run, `away` says where it comes from when that is another process.
    `waited`: somebody waited for the agent when it began to ask, so that it asks from no background. `until`
    is the moment (in seconds since 1970) at which it is asked no more, once that is known.
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
    away: Away | None = None
    waited: bool = False
    patience: Patience = Patience()
    until: float | None = None


Reach = Literal["call", "agent", "subtree", "session", "always"]
"""What a yes stands for: this call; this agent; it and all below it; this session; every session to come."""


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


class Unasked(UserMistake):
    """A question that could not be put to anybody; the sentence says why."""


class NobodyThere(Unasked):
    """A question for which there is nobody at this moment."""

    def __init__(self) -> None:
        super().__init__("Nobody can be asked here")


class Asker(Protocol):
    """Who can be asked."""

    async def ask(self, question: Question) -> Answer:
        """What a person says to exactly this call; NobodyThere where there is none."""
        ...


@runtime_checkable
class Punctual(Protocol):
    """Who looks at the clock itself: a question may be shown late, and wait longer while somebody types."""

    def patience(self, question: Question) -> float | None:
        """So many seconds a question that is asked now may wait at most; None: for ever."""
        ...


@runtime_checkable
class Parking(Protocol):
    """Who counts the agents that wait for an answer, so that others may work in their place."""

    def parking(self) -> AbstractContextManager[None]:
        """While an agent waits."""
        ...
