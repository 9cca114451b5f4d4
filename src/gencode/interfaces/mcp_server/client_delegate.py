"""What an MCP client delegates with: the tasks of its folder as the delegation tools see them."""

from collections.abc import Sequence

from gencode.agent.ports import ControlResult, StartedTask, StopAction
from gencode.app import GenCode
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome
from gencode.core.questions import Hearing, Inquiry, InquiryResult
from gencode.core.spec import TaskRequest
from gencode.core.status import EndReason, StopCause, stop_cause
from gencode.core.task import Task
from gencode.journal.store import TaskQuery

INTERRUPTED = StopCause(EndReason.INTERRUPTED, "the client interrupted it")
STOPPED = stop_cause("the client stopped it")
MOST_LISTED = 1000
NOT_OFFERED = "This tool is not offered to clients."
FILES = ("scripted:", "local/")


class ClientDelegate:
    """What the delegation tools hold for a client, whose tasks are below no agent.

    `ended` is the outcome of the work that was asked for, which has been waited for already.
    """

    def __init__(self, gen: GenCode, ended: Outcome | None = None) -> None:
        self._gen = gen
        self._ended = ended

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """The outcome of the work that was asked for."""
        if self._ended is None:
            raise UserMistake("Nothing was asked for.")
        return self._ended

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task of this folder; whoever wants its end has waited for that already."""
        found = await reached(self._gen, task)
        return await self._gen.records.get(await self._gen.watch.task(found.id))

    async def hits(self, task: str, verb: StopAction) -> Sequence[StartedTask]:
        """What a verb would affect at this moment, the task itself first."""
        return await self._gen.delegation.hits((await reached(self._gen, task)).id, verb)

    async def strike(self, task: str, verb: StopAction) -> ControlResult:
        """Interrupt or stop a task that runs here, and the work it waits for."""
        found = await steerable(self._gen, task)
        if verb == "tree":
            await self._check_all_here(found)
        why = INTERRUPTED if verb == "interrupt" else STOPPED
        return await self._gen.delegation.strike(found.id, verb, why)

    async def _check_all_here(self, task: Task) -> None:
        """UserMistake where another process runs something below a task, and for nobody who runs here."""
        here: set[str | None] = set()
        for each in await self._gen.reach.hits(task.id, "tree"):
            if self._gen.supervisor.find(each.id) is None and each.parent not in here:
                raise elsewhere(each)
            here.add(each.id)

    async def own(self) -> Sequence[Outcome]:
        """The last tasks of this folder that no other task asked for, oldest first."""
        return [self._gen.watch.outcome(each) for each in await own_tasks(self._gen, MOST_LISTED)]

    def sent(self) -> Sequence[StartedTask]:
        """Nothing: a client has no run of an agent."""
        return ()

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be started."""
        return [(each.name, each.description) for each in self._gen.agents.spawnable()]

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands over at once."""
        return self._gen.agents.find(agent).result_cap

    async def author(self, path: str, sha256: str) -> str:
        """Nobody: a client changes no files."""
        return ""

    async def replay(self, task: str) -> Outcome:
        """Refused: a client reads results, not transcripts."""
        raise UserMistake(NOT_OFFERED)

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Refused: messages of a client come by its own tool."""
        raise UserMistake(NOT_OFFERED)

    async def inquire(self, inquiries: Sequence[Inquiry], call: ToolCall) -> InquiryResult:
        """Refused: a client asks its own user."""
        raise UserMistake(NOT_OFFERED)


async def own_tasks(gen: GenCode, most: int, before: str | None = None) -> list[Task]:
    """What was last asked for in this folder without a conversation, before one of them; oldest first."""
    here = str(gen.workspace.cwd)
    query = TaskQuery(cwd=here, conversations=False, limit=most, roots=True, before=before)
    return await gen.store.tasks(query)


async def reached(gen: GenCode, name: str) -> Task:
    """A task that a client may look at: one of this folder, or below one, and of no conversation."""
    missing = UserMistake(f"There is no task {name[:40]!r} of this folder; task_list shows those there are.")
    try:
        found = await gen.find(name)
    except UnknownName:
        raise missing from None
    top, passed = found, {found.id}
    while top.parent is not None and top.parent not in passed:
        passed.add(top.parent)
        above = await gen.store.task(top.parent)
        if above is None:
            break
        top = above
    if top.conversation or top.cwd != str(gen.workspace.cwd):
        raise missing
    return found


async def steerable(gen: GenCode, name: str) -> Task:
    """A task that a client may speak to or stop: one that nobody runs, or that runs here.

    Another process may have let its agents do more than this server does.
    """
    found = await gen.watch.task((await reached(gen, name)).id)
    if not found.status.ended and gen.supervisor.find(found.id) is None:
        raise elsewhere(found)
    return found


def elsewhere(task: Task) -> UserMistake:
    """Why a client may only look at a task."""
    return UserMistake(
        f"Task {task.id} is run by another process; it can be looked at here, and steered there."
    )


def checked(request: TaskRequest) -> TaskRequest:
    """A request of a client; none may name a model that is a file of this machine."""
    if request.model.strip().casefold().startswith(FILES):
        raise UserMistake("A model that is a file cannot be named by a client; start gen mcp with it.")
    return request
