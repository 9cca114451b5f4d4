"""The tasks that an MCP client may see and control, as a delegate for the delegation tools."""

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
NOT_FOR_CLIENTS = "This tool is not available to clients."
FILES = ("scripted:", "local/")
"""Models that are files of this machine."""


class ClientDelegate:
    """Gives the delegation tools the tasks of a client, which have no parent.

    `outcome` is that of the task which the call has started and waited for.
    """

    def __init__(self, gen: GenCode, outcome: Outcome | None = None) -> None:
        self._gen = gen
        self._outcome = outcome

    @property
    def approves_foreground_only(self) -> bool:
        """The client is told by its own calls what is refused."""
        return False

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """The outcome of the task that the call has started."""
        if self._outcome is None:
            raise UserMistake("This call has started no task.")
        return self._outcome

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task of this folder as it is now; the handler has waited for it already."""
        found = await visible_task(self._gen, task)
        return await self._gen.history.outcome(await self._gen.history.current(found.id))

    async def affected(self, task: str, verb: StopAction) -> Sequence[StartedTask]:
        """The tasks that an action would affect now, the task itself first."""
        found = await visible_task(self._gen, task)
        return [_started(each) for each in await self._gen.affected(found.id, verb)]

    async def apply_action(self, task: str, verb: StopAction) -> ControlResult:
        """Interrupt or stop a task that runs here, and the subagents it waits for."""
        found = await controllable_task(self._gen, task)
        if verb == "tree":
            await self._check_all_here(found)
        if verb == "interrupt":
            result = await self._gen.interrupt(found.id, why=INTERRUPTED)
        else:
            result = await self._gen.stop(found.id, keep=verb == "keep", tree=verb == "tree", why=STOPPED)
        over = {found.id, *(each.agent_id for each in result.affected)}
        left = [each for each in await self._gen.affected(found.id, "tree") if each.agent_id not in over]
        return ControlResult(result, tuple(map(_started, result.affected)), tuple(map(_started, left)))

    async def _check_all_here(self, task: Task) -> None:
        """UserMistake if another process runs a subagent of a task that was not started from here."""
        here: set[str | None] = set()
        for each in await self._gen.affected(task.id, "tree"):
            if each.agent_id not in self._gen.running and each.parent_id not in here:
                raise runs_elsewhere(each.agent_id)
            here.add(each.agent_id)

    async def own(self) -> Sequence[Outcome]:
        """The last tasks of this folder without a parent, oldest first."""
        tasks = await own_tasks(self._gen, MOST_LISTED)
        return [await self._gen.history.past_outcome(each) for each in tasks]

    async def listed(self) -> Sequence[Outcome]:
        """The same: a client has no session above it."""
        return await self.own()

    def sent(self) -> Sequence[StartedTask]:
        """None: a client is not an agent."""
        return ()

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be started."""
        return [(each.name, each.description) for each in self._gen.agents.spawnable()]

    def result_cap(self, agent: str) -> int:
        """The limit of the result of an agent."""
        return self._gen.agents.find(agent).result_cap

    async def author(self, path: str, sha256: str) -> str:
        """Unknown: a client changes no files."""
        return ""

    async def replay(self, task: str) -> Outcome:
        """Refused: a client reads results, not transcripts."""
        raise UserMistake(NOT_FOR_CLIENTS)

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Refused: the handler sends the messages of a client."""
        raise UserMistake(NOT_FOR_CLIENTS)

    async def ask_questions(self, inquiries: Sequence[Inquiry], call: ToolCall) -> InquiryResult:
        """Refused: a client asks its own user."""
        raise UserMistake(NOT_FOR_CLIENTS)


def _started(task: Outcome) -> StartedTask:
    """A task as the delegation tools see it."""
    return StartedTask(task.agent_id, task.agent, task.status, task.error, task.background)


async def own_tasks(gen: GenCode, most: int, before: str | None = None) -> list[Task]:
    """The last tasks of this folder without a parent or a conversation, before one of them; oldest first."""
    here = str(gen.workspace.cwd)
    query = TaskQuery(cwd=here, conversations=False, limit=most, roots=True, before=before)
    return await gen.history.tasks(query)


async def visible_task(gen: GenCode, name: str) -> Task:
    """A task that a client may see: of this folder, and not of a conversation. Subagents included."""
    missing = UserMistake(f"There is no task {name[:40]!r} in this folder. To list the tasks: task_list")
    try:
        found = await gen.find(name)
    except UnknownName:
        raise missing from None
    top, passed = found, {found.id}
    while top.parent is not None and top.parent not in passed:
        passed.add(top.parent)
        above = await gen.history.task(top.parent)
        if above is None:
            break
        top = above
    if top.conversation or top.cwd != str(gen.workspace.cwd):
        raise missing
    return found


async def controllable_task(gen: GenCode, name: str) -> Task:
    """A task that a client may message or stop: one that has ended, or runs in this process.

    Another process may have given its agents more permissions than this server.
    """
    found = await gen.history.current((await visible_task(gen, name)).id)
    if not found.status.ended and gen.running.find(found.id) is None:
        raise runs_elsewhere(found.id)
    return found


def runs_elsewhere(task: str) -> UserMistake:
    """The error for a task that another process runs."""
    return UserMistake(f"Task {task} runs in another process; from here it can only be read.")


def checked_request(request: TaskRequest) -> TaskRequest:
    """A request of a client; UserMistake for a model that is a file of this machine."""
    if request.model.strip().casefold().startswith(FILES):
        raise UserMistake("Clients cannot use a model that is a file. Start gen mcp with --model instead.")
    return request
