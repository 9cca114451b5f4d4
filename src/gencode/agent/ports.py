"""The ports of an agent to the rooms above it: a provider, subagents, an inbox, a source of agents."""

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
    """The request for one turn; a limit, temperature or effort of None is the provider's.

    `sums_up` asks for a summary of a conversation; a provider that cannot write one raises a ProviderError.
    `sent`: the request is from a subagent. `may_call`: whether the reply may call tools; they are sent in
    either case, because a prompt cache holds only as long as they are the same.
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
    may_call: bool = True


class Provider(Protocol):
    """A provider of models."""

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the parts of one reply in order, EndPart last; raise ProviderError and nothing else."""
        ...


class StartedTask(Struct, frozen=True):
    """A subagent as it is now."""

    task: str
    agent: str
    status: Status
    error: str | None = None
    background: bool = False


StopAction = Literal["interrupt", "keep", "stop", "tree"]
"""Interrupt the current step; stop it after a last turn; stop it; stop it and all its subagents."""


class ControlResult(Struct, frozen=True):
    """The result of an action: the task as it is now, the affected tasks, and the subagents that continue."""

    outcome: Outcome
    affected: tuple[StartedTask, ...] = ()
    left: tuple[StartedTask, ...] = ()


class Delegate(Protocol):
    """Lets a tool start subagents without knowing how that is done."""

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run the task to its end and give its outcome; UserMistake if it cannot start.

        A task in the background, or moved there meanwhile, gives its outcome at that moment.
        """
        ...

    @property
    def approves_foreground_only(self) -> bool:
        """Whether a person can approve the calls of subagents, but not of those in the background."""
        ...

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after waiting at most so many seconds for its end."""
        ...

    async def apply_action(self, task: str, verb: StopAction) -> ControlResult:
        """Interrupt or stop a task in the background, and the subagents it waits for."""
        ...

    async def affected(self, task: str, verb: StopAction) -> Sequence[StartedTask]:
        """The tasks that an action would affect at this moment, the task itself first."""
        ...

    async def author(self, path: str, sha256: str) -> str:
        """Which agent of any process brought a file of the workspace into this state; empty if none did."""
        ...

    async def own(self) -> Sequence[Outcome]:
        """The subagents of this agent from all its runs, oldest first."""
        ...

    async def listed(self) -> Sequence[Outcome]:
        """The subagents of this agent's session, oldest first."""
        ...

    async def replay(self, task: str) -> Outcome:
        """One of those, or the agent's own task, with its transcript; UserMistake for any other."""
        ...

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Send a message to a related task; its outcome at that moment, and when it reads the message."""
        ...

    async def ask_questions(self, inquiries: Sequence[Inquiry], call: ToolCall) -> InquiryResult:
        """Ask the parent first, then a person; without either nobody answers."""
        ...

    def sent(self) -> Sequence[StartedTask]:
        """The subagents that were started in this run, in order."""
        ...

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be started."""
        ...

    def result_cap(self, agent: str) -> int:
        """How many characters of its result a subagent returns to its parent's context."""
        ...


class Inbox(Protocol):
    """What comes to an agent while it runs: messages, and the results of its background tasks."""

    @property
    def expecting(self) -> bool:
        """Whether a result is still to come, or something has come and was not taken."""
        ...

    @property
    def only_commands_run(self) -> bool:
        """Whether nothing has come, and only running background commands are waited for."""
        ...

    def take(self) -> Sequence[UserMessage]:
        """Everything that has come since the last time; it counts as delivered once it is in the journal."""
        ...

    async def more(self) -> bool:
        """Wait until there is something to take; False if nothing is still to come."""
        ...

    def put(self, posted: PostedMessage) -> None:
        """Add a message, which the agent reads before its next reply."""
        ...


class AgentSource(Protocol):
    """A source of agents."""

    def find(self, name: str) -> AgentSpec:
        """An agent by name, without case and separators; UnknownName suggests the nearest."""
        ...

    def main(self, also: tuple[str, ...]) -> AgentSpec:
        """The agent that leads conversations, with `also` these tools."""
        ...

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be started, by name."""
        ...
