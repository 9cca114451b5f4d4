"""What an agent needs from the rooms above it: a provider, subagents, an inbox, a source of agents."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from gencode.core.messages import Message, Part, ToolCall, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.questions import Hearing, Inquiry, InquiryResult
from gencode.core.spec import AgentSpec, Effort, TaskRequest
from gencode.core.status import Status
from gencode.journal.store import PostedMessage


class ToolSchema(Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True, gc=False):
    """Everything a model is told for one turn; a limit, temperature or effort of None is the provider's.

    One that `sums_up` asks for a summary of a conversation; who cannot write one raises a ProviderError. Who
    asks was `sent` by an agent, which asks again when it has its result.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    agent: str = "main"
    task: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    effort: Effort | None = None
    sums_up: bool = False
    sent: bool = False


class Provider(Protocol):
    """Who answers."""

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the parts of one reply in order, EndPart last; raise ProviderError and nothing else."""
        ...


class StartedTask(Struct, frozen=True):
    """A task that an agent sent, as it is now."""

    task: str
    agent: str
    status: Status
    error: str | None = None
    background: bool = False


StopAction = Literal["interrupt", "keep", "stop", "tree"]
"""Cut what it does now; stop it after a last word; stop it; stop it and everything below it."""


class ControlResult(Struct, frozen=True):
    """What a verb came to: the task as it is now, all that was hit, and what goes on below the task."""

    outcome: Outcome
    hit: tuple[StartedTask, ...] = ()
    left: tuple[StartedTask, ...] = ()


class Delegate(Protocol):
    """How a tool hands work to an agent without knowing who starts it."""

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run the work to its end and give its outcome; UserMistake when it cannot even start.

        Work in the background, and work that is sent there meanwhile, gives its outcome as it is then.
        """
        ...

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        ...

    async def apply_action(self, task: str, verb: StopAction) -> ControlResult:
        """Cut or stop a task in the background, and the work it waits for."""
        ...

    async def hits(self, task: str, verb: StopAction) -> Sequence[StartedTask]:
        """What a verb would hit at this moment, the task itself first."""
        ...

    async def author(self, path: str, sha256: str) -> str:
        """Which agent brought a file of the workspace into this state, in any process; empty if none did."""
        ...

    async def own(self) -> Sequence[Outcome]:
        """The tasks that this agent has sent in all its runs, oldest first."""
        ...

    async def replay(self, task: str) -> Outcome:
        """One of those, or the agent's own, with its transcript; UserMistake for anybody else's."""
        ...

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Say something to a task of the same family; its outcome as it is, and when it hears that."""
        ...

    async def ask_questions(self, inquiries: Sequence[Inquiry], call: ToolCall) -> InquiryResult:
        """Ask whoever can answer; the agent above first, then a person, and in the end nobody."""
        ...

    def sent(self) -> Sequence[StartedTask]:
        """The tasks that were sent in this run, in the order they were launched."""
        ...

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be sent."""
        ...

    def result_cap(self, agent: str) -> int:
        """How many characters of its result an agent hands to its sender's context."""
        ...


class Inbox(Protocol):
    """What comes to an agent while it works: letters, and the results of its background tasks."""

    @property
    def expecting(self) -> bool:
        """Whether anything is out, or has come and was not taken."""
        ...

    def take(self) -> Sequence[UserMessage]:
        """Everything that has come since; it counts as taken once it is in the journal."""
        ...

    async def more(self) -> bool:
        """Wait until there is something to take; False when nothing is out any more."""
        ...

    def put(self, letter: PostedMessage) -> None:
        """Something was said to the agent; it hears it before its next reply."""
        ...


class AgentSource(Protocol):
    """Where agents come from."""

    def find(self, name: str) -> AgentSpec:
        """An agent by name, without regard to case and separators; UnknownName offers the nearest."""
        ...

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be sent, by name."""
        ...
