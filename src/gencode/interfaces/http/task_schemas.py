"""The types of requests and answers about tasks; they are also the schemas of the OpenAPI document."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from gencode.budgets.limits import Spent
from gencode.core.budget import MOST, MOST_WHOLE, Budget
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.interfaces.http.endpoints import Name, Text
from gencode.interfaces.http.task_states import TaskState, TaskTimes
from gencode.tasks.history import Comparison
from gencode.tasks.rewind import RewindPoint

Number = Annotated[int, Meta(ge=0, le=2**53)]
Limit = Annotated[int, Meta(ge=1, le=500)]
Turns = Annotated[int, Meta(ge=1, le=1_000_000)]
EventAt = Annotated[int, Meta(ge=1, le=2**53)]
Amount = Annotated[int, Meta(ge=1, le=MOST_WHOLE)]
Money = Annotated[float, Meta(gt=0, le=MOST)]
FILES = ("scripted:", "local/")
PASSED_ON = frozenset(field.name for field in structs.fields(TaskRequest))
"""The options that a TaskRequest has under the same name."""


def check_model(name: str) -> None:
    """Refuse a model that is a file of this machine."""
    if name.strip().casefold().startswith(FILES):
        raise UserMistake("A model that is a file cannot be chosen over HTTP. Start gen serve with it.")


class BudgetLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """A budget: what a task may use together with its subagents."""

    turns: Amount | None = None
    tokens: Amount | None = None
    usd: Money | None = None
    seconds: Money | None = None
    spawns: Number | None = None

    def budget(self) -> Budget:
        """The budget of these limits."""
        return Budget(**structs.asdict(self))


class RunOptions(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What an agent should do, on which model, in how many turns, with which budget."""

    prompt: Text
    model: Name = ""
    max_turns: Turns | None = None
    budget: BudgetLimits = BudgetLimits()

    def request(self, **more: Any) -> TaskRequest:
        """The options as a TaskRequest."""
        check_model(self.model)
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name in PASSED_ON}
        said: dict[str, Any] = {"agent": "", **own, "budget": self.budget.budget(), **more}
        return TaskRequest(**said)


class ResumeRequest(RunOptions, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What an earlier task should do now, and the schema of its result from now on."""

    output_schema: dict[str, Any] | None = None


class StartRequest(RunOptions, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A new task of an agent. Its permissions are those of the server; HTTP cannot widen them.

    With `background` nobody waits for it; with `detached` it has a process of its own, which outlives the
    server.
    """

    agent: Name
    description: Name = ""
    isolation: Literal["", "process", "worktree"] = ""
    output_schema: dict[str, Any] | None = None
    background: bool = False
    detached: bool = False


class ForkRequest(RunOptions, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What a fork of a task should do instead; it starts after the event with the number `at`."""

    at: Number | None = None
    description: Name = ""
    isolation: Literal["", "worktree"] = ""
    output_schema: dict[str, Any] | None = None


class MessageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A message to a task."""

    message: Text


class InterruptRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a task should know when it continues after an interrupt."""

    message: Text = ""


class StopRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """At once (`abort` or `stop`), after a last report (`keep`), or with all subagents (`tree`)."""

    how: Literal["abort", "stop", "keep", "tree"] = "abort"


class TaskFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks; without `all` those of the server's folder. `before` is the last id of the page before."""

    status: tuple[Status, ...] = ()
    parent: Name | None = None
    roots: bool = False
    agent: Name | None = None
    conversation: bool | None = None
    all: bool = False
    before: Name | None = None
    limit: Limit = 100


class TaskPage(Struct, frozen=True):
    """Tasks, the newest first. `next` is `before` of the next page, `cursor` where their stream begins."""

    tasks: list[Outcome]
    next: str | None
    cursor: str


class StateFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks: those with these ids, or those of the server's folder (with `all` of every folder)."""

    id: tuple[Name, ...] = ()
    all: bool = False
    before: Name | None = None
    limit: Limit = 500


class StatePage(Struct, frozen=True):
    """The states of tasks, the newest first; `next` and `cursor` as in a page of tasks."""

    states: list[TaskState]
    next: str | None
    cursor: str


class TimesFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """The ids of the tasks."""

    id: tuple[Name, ...] = ()


class TimesPage(Struct, frozen=True):
    """When tasks were queued, worked and waited."""

    tasks: list[TaskTimes]


class TaskAt(Struct, frozen=True, forbid_unknown_fields=True):
    """After which of its events a task is shown; without a number, as it is now."""

    at: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class TaskSubtree(Struct, frozen=True):
    """A task and its subagents, parents before children; `more` are left out."""

    tasks: list[Outcome]
    more: int


class OutputQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether to wait for the end, for how many milliseconds, and which page of a long result."""

    block: bool = False
    timeout: Annotated[int, Meta(ge=0, le=60_000)] = 30_000
    page: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class TaskOutput(Outcome, frozen=True, rename="camel"):
    """A task whose result is one page, or all of it."""

    page: int = 1
    pages: int = 1


class BudgetReport(Struct, frozen=True, rename="camel"):
    """The budget of a task with its subagents, and what they have used."""

    agent_id: str
    budget: Budget
    spent: Spent


class EventQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Events after a number, or the last ones before one."""

    after: Number | None = None
    before: Number | None = None
    limit: Limit = 100


class EventPage(Struct, frozen=True):
    """Events in order, in the shape of the stream; `last` is the number of the task's newest event."""

    events: list[dict[str, Any]]
    last: int


class AllEventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Events of all tasks after an id of the stream; without one, the newest id and no events."""

    after: Name | None = None
    limit: Limit = 100


class AllEventsPage(Struct, frozen=True):
    """Events of all tasks in the order of the commits; `cursor` is where the next page begins."""

    events: list[dict[str, Any]]
    cursor: str
    more: bool


class TranscriptQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages: `limit` of them from number `start` (the first is 0), or the last ones."""

    start: Number | None = None
    limit: Limit = 200


class TaskTranscript(Outcome, frozen=True, rename="camel"):
    """A task with its messages from number `start` on, of `total`, and the decisions about their calls."""

    start: int = 0
    total: int = 0


class ReplayQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the events; `against` is another task to compare with."""

    start: Number = 0
    limit: Limit = 500
    against: Name | None = None


class Compared(Struct, frozen=True):
    """A comparison with another task: whether both ran alike, and where they differ."""

    other: str
    same: bool
    comparison: Comparison


class ReplayedTask(Struct, frozen=True):
    """A task replayed from the journal: `same` when the replay matches the stored state."""

    task: Outcome
    events: list[dict[str, Any]]
    total: int
    same: bool
    compared: Compared | None = None


class ActionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with a task; `abort` is `stop`."""

    verb: Literal["interrupt", "steer", "keep", "stop", "abort", "tree"] = "stop"


class AffectedTasks(Struct, frozen=True):
    """The tasks that an action would affect now, the task itself first."""

    tasks: list[Outcome]


class StreamQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """After which id the stream starts (Last-Event-ID wins), whether texts are cut, and states are sent."""

    after: Name | None = None
    brief: bool = False
    states: bool = False


class PromptPage(Struct, frozen=True):
    """Where a conversation can go back to, the oldest first."""

    points: list[RewindPoint]


class RewindTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """Before which prompt, by the number of its event."""

    to: EventAt


class RewindRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What goes back to before a prompt; `overwrite`: files that somebody else changed since, too."""

    to: EventAt
    conversation: bool = True
    files: bool = True
    overwrite: bool = False
