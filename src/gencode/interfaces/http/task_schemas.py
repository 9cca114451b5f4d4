"""What is said and answered about tasks, as types: they read requests, write answers and are the document."""

from typing import Annotated, Any, Literal, TypeVar

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

Number = Annotated[int, Meta(ge=0, le=2**53)]
Limit = Annotated[int, Meta(ge=1, le=500)]
Turns = Annotated[int, Meta(ge=1, le=1_000_000)]
Amount = Annotated[int, Meta(ge=1, le=MOST_WHOLE)]
Money = Annotated[float, Meta(gt=0, le=MOST)]
Kind = TypeVar("Kind", bound=Outcome)
FILES = ("scripted:", "local/")
PASSED_ON = frozenset(field.name for field in structs.fields(TaskRequest))
"""What of a wish is part of a TaskRequest under the same name."""


class Bounds(Struct, frozen=True, forbid_unknown_fields=True):
    """How much work may cost, with everything below it."""

    turns: Amount | None = None
    tokens: Amount | None = None
    usd: Money | None = None
    seconds: Money | None = None
    spawns: Number | None = None

    def budget(self) -> Budget:
        """The same as a TaskRequest."""
        return Budget(**structs.asdict(self))


class Wishes(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What an agent is to do, on which model, in how many turns, for how much."""

    prompt: Text
    model: Name = ""
    max_turns: Turns | None = None
    budget: Bounds = Bounds()

    def request(self, **more: Any) -> TaskRequest:
        """The same as a TaskRequest; a model that would be a file of this machine cannot be named."""
        if self.model.strip().casefold().startswith(FILES):
            raise UserMistake("A model that is a file cannot be named over HTTP; start gen serve with it.")
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name in PASSED_ON}
        said: dict[str, Any] = {"agent": "", **own, "budget": self.budget.budget(), **more}
        return TaskRequest(**said)


class More(Wishes, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What an earlier task is to do now, and what its result has to fit from now on."""

    output_schema: dict[str, Any] | None = None


class NewTask(Wishes, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """One agent to be sent. Its permissions are those of the server: nobody widens them over HTTP.

    With `background` it works as one that nobody waits for; `detached` it has a process of its own, which
    outlives the server.
    """

    agent: Name
    description: Name = ""
    isolation: Literal["", "process", "worktree"] = ""
    output_schema: dict[str, Any] | None = None
    background: bool = False
    detached: bool = False


class Copy(Wishes, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What a copy of a task, that begins after the fact number `at`, is to do instead."""

    at: Number | None = None
    description: Name = ""
    isolation: Literal["", "worktree"] = ""
    output_schema: dict[str, Any] | None = None


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """A word to a task."""

    message: Text


class Cut(Struct, frozen=True, forbid_unknown_fields=True):
    """What a task should know when it goes on after it was interrupted."""

    message: Text = ""


class End(Struct, frozen=True, forbid_unknown_fields=True):
    """How a task ends: at once (`stop` is `abort`), after a last word, or with everything below it."""

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
    """What tasks did when."""

    tasks: list[TaskTimes]


class AsOf(Struct, frozen=True, forbid_unknown_fields=True):
    """After which of its facts a task is shown; without a number, as it is now."""

    at: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class Family(Struct, frozen=True):
    """A task and everything below it, parents before children; `more` are not shown."""

    tasks: list[Outcome]
    more: int


class OutputWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether to wait for the end, for how many milliseconds, and which page of a long result."""

    block: bool = False
    timeout: Annotated[int, Meta(ge=0, le=60_000)] = 30_000
    page: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class TaskOutput(Outcome, frozen=True, rename="camel"):
    """A task whose result is one page of it, or all."""

    page: int = 1
    pages: int = 1


class StoppedTask(Outcome, frozen=True, rename="camel"):
    """A task after a stop, and every task that the stop ended."""

    stopped: tuple[str, ...] = ()


class InterruptedTask(Outcome, frozen=True, rename="camel"):
    """A task after it was cut, and every task that this hit."""

    interrupted: tuple[str, ...] = ()


class SteeredTask(Outcome, frozen=True, rename="camel"):
    """A task that was spoken to, and whether that woke it."""

    woken: bool = False


class Budgeted(Struct, frozen=True, rename="camel"):
    """What a task may spend with everything below it, and what it has spent."""

    agent_id: str
    budget: Budget
    spent: Spent


class Window(Struct, frozen=True, forbid_unknown_fields=True):
    """Facts after a number, or the last ones before one."""

    after: Number | None = None
    before: Number | None = None
    limit: Limit = 100


class Facts(Struct, frozen=True):
    """Facts in order, in the shape of the stream; `last` is the number of the task's newest fact."""

    events: list[dict[str, Any]]
    last: int


class AllWindow(Struct, frozen=True, forbid_unknown_fields=True):
    """Facts of all tasks after an id of the stream; without one, the newest id and no facts."""

    after: Name | None = None
    limit: Limit = 100


class AllFacts(Struct, frozen=True):
    """Facts of all tasks in the order of the commits; `cursor` is where the next page begins."""

    events: list[dict[str, Any]]
    cursor: str
    more: bool


class Excerpt(Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages: `limit` of them from number `start`, counted from 0; without it the last ones."""

    start: Number | None = None
    limit: Limit = 200


class TaskTranscript(Outcome, frozen=True, rename="camel"):
    """A task with its messages from number `start` on, of `total`, and the gate's decisions about them."""

    start: int = 0
    total: int = 0


class Replaying(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the events; `against` is another task to compare with."""

    start: Number = 0
    limit: Limit = 500
    against: Name | None = None


class Compared(Struct, frozen=True):
    """Another run beside this one: whether they are alike, and where they went apart."""

    other: str
    same: bool
    comparison: Comparison


class Replay(Struct, frozen=True):
    """A task played again from the journal: `same` when its facts tell exactly the stored state."""

    task: Outcome
    events: list[dict[str, Any]]
    total: int
    same: bool
    compared: Compared | None = None


class StopAction(Struct, frozen=True, forbid_unknown_fields=True):
    """What would be done; `abort` is `stop`."""

    verb: Literal["interrupt", "steer", "keep", "stop", "abort", "tree"] = "stop"


class Hits(Struct, frozen=True):
    """The tasks that a verb would hit at this moment, the task itself first."""

    tasks: list[Outcome]


class StreamWish(Struct, frozen=True, forbid_unknown_fields=True):
    """After which id the stream begins (Last-Event-ID wins), whether texts are cut, and states are told."""

    after: Name | None = None
    brief: bool = False
    states: bool = False


def widened(kind: type[Kind], outcome: Outcome, **more: Any) -> Kind:
    """A task in its public shape, with more fields."""
    own = {name: getattr(outcome, name) for name in Outcome.__struct_fields__}
    return kind(**own, **more)
