"""Handles tools/call: runs the delegation tools for a client, and keeps the tasks that a call waits for."""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import GenCodeError, ToolError, UnknownName, UserMistake
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.status import EndReason, StopCause
from gencode.core.task import Task
from gencode.interfaces.mcp_server.catalogue import OWN_NAMES, READ_ONLY_TASK, check_read_only, valid_unicode
from gencode.interfaces.mcp_server.client_delegate import (
    FILES,
    ClientDelegate,
    checked_request,
    controllable_task,
    visible_task,
)
from gencode.interfaces.mcp_server.elicitation import ELICITOR, PATIENCE, Elicitor, RoundElicitor
from gencode.interfaces.mcp_server.progress import report_progress
from gencode.tasks.running_task import RunningTask

log = logging.getLogger(__name__)

GIVEN_UP_SECONDS = 120.0
"""How long a task continues in the background after its client has stopped waiting for it."""
NO_RETRY = StopCause(EndReason.CALLER_GONE, "the MCP client did not come back; the task can be resumed")
UNKNOWN_STATE = "This requestState is unknown or has expired; make the call again without it."


class InputRequired(Exception):
    """The client must answer questions, and then make its call again."""

    def __init__(self, requests: dict[str, types.InputRequest], state: str | None = None) -> None:
        super().__init__("the client must answer questions first")
        self.requests = requests
        self.state = state


class AwaitedTask:
    """A task that a call waits for; `rounds` keeps its questions where the client answers in rounds."""

    def __init__(self, gen: GenCode, job: RunningTask, rounds: RoundElicitor | None) -> None:
        self.gen = gen
        self.job = job
        self.rounds = rounds

    async def finished(self) -> Outcome | None:
        """The outcome once it has finished; None when it was sent to the background, or has questions."""
        news = asyncio.ensure_future(self.rounds.news.wait()) if self.rounds else None
        try:
            ended = await self.job.in_foreground(news)
        finally:
            if news is not None:
                news.cancel()
        return await self.gen.outcome(self.job) if ended else None

    async def move_to_background(self) -> bool:
        """Let the task continue without its client; whether it does. It is stopped if that fails."""
        if self.job.task.status.ended:
            return False
        try:
            await self.gen.running.send_to_background(self.job)
        except GenCodeError as trouble:
            log.warning("task %s could not be sent to the background: %s", self.job.id, trouble)
            await self.job.halt(NO_RETRY)
            return False
        return True


class AwaitedTasks:
    """Tasks whose clients have to come back: with answers, or because they have stopped waiting.

    The former are found by an unguessable state, the latter by their id. MCP tells a timeout of the client
    from a cancel of its user only by prose, so both are treated alike: the task continues for a while, and is
    stopped unless the client asks for it.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[AwaitedTask, asyncio.TimerHandle]] = {}
        self._given_up: dict[str, asyncio.TimerHandle] = {}

    def keep(self, awaited: AwaitedTask) -> str:
        """Keep a task for the next round, for a limited time; returns the request state."""
        state = secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._abandon, state)
        self._waiting[state] = (awaited, timer)
        return state

    def take(self, state: str) -> AwaitedTask:
        """The task of a request state, which is valid once."""
        if state not in self._waiting:
            raise MCPError(types.INVALID_PARAMS, UNKNOWN_STATE)
        awaited, timer = self._waiting.pop(state)
        timer.cancel()
        return awaited

    async def give_up(self, awaited: AwaitedTask) -> None:
        """Let a task continue in the background, and stop it later if the client never asks for it."""
        with anyio.CancelScope(shield=True):
            if await awaited.move_to_background():
                loop, job = asyncio.get_running_loop(), awaited.job
                self._given_up[job.id] = loop.call_later(GIVEN_UP_SECONDS, self._stop, job)

    def claim(self, task: str) -> None:
        """Do not stop a task: the client asks for it."""
        if (timer := self._given_up.pop(task, None)) is not None:
            timer.cancel()

    def _abandon(self, state: str) -> None:
        awaited, _ = self._waiting.pop(state)
        awaited.job.stop.stop(NO_RETRY)

    def _stop(self, job: RunningTask) -> None:
        self._given_up.pop(job.id, None)
        job.stop.stop(NO_RETRY)


LONGEST_MS = 600_000
RequestContext = ServerRequestContext[Any, Any]


class ToolReply(Struct, frozen=True):
    """The result of a tool: its text, whether that is an error, and the task it is about."""

    text: str
    error: bool = False
    task: Task | None = None

    def result(self) -> types.CallToolResult:
        """The same in the protocol's form; the task's id is for programs, the text for models."""
        meta = (
            {"gencode/taskId": self.task.id, "gencode/status": str(self.task.status)} if self.task else None
        )
        content: list[types.ContentBlock] = [types.TextContent(text=valid_unicode(self.text))]
        return types.CallToolResult(content=content, is_error=self.error, _meta=meta)


class ToolHandlers:
    """Runs one call in one workspace."""

    def __init__(self, gen: GenCode, ctx: RequestContext, errands: AwaitedTasks) -> None:
        self._gen = gen
        self._ctx = ctx
        self._awaited = errands

    async def call(self, name: str, arguments: Mapping[str, Any], elicitor: Elicitor | None) -> ToolReply:
        """Run a tool. The agents that it starts ask their questions through `elicitor`."""
        if name == READ_ONLY_TASK:
            check_read_only(self._gen, arguments)
        tool = self._gen.toolbox.find(OWN_NAMES.get(name, name))
        call = ToolCall(str(self._ctx.request_id), tool.name, dict(arguments))
        given = tool.parse(call)
        self._awaited.claim(_text(given, "task_id") or _text(given, "resume"))
        match tool.name:
            case "Task":
                return await self._task(tool, call, given, elicitor)
            case "TaskOutput":
                await self._wait(given)
            case "SendMessage":
                return await self._send(given, elicitor)
            case _:
                pass
        return _reply(await tool.run(self._context(call), given), await self._named_task(given))

    async def resume(self, awaited: AwaitedTask) -> ToolReply:
        """Wait for a task whose client came back with answers."""
        tool = self._gen.toolbox.find("Task")
        call = ToolCall(str(self._ctx.request_id), tool.name, {"subagent_type": "", "prompt": ""})
        return await self._outcome(tool, call, awaited)

    async def _task(self, tool: Tool, call: ToolCall, given: Struct, elicitor: Elicitor | None) -> ToolReply:
        request = checked_request(_request(given))
        request = request.within(self._gen.agents.find(request.agent))
        token = ELICITOR.set(elicitor)  # what is started from here inherits it
        try:
            job = await self._started(request)
        except UnknownName as mistake:
            if mistake.name != request.model:
                raise
            known = [name for name in self._gen.models.names() if not name.startswith(FILES)]
            raise UnknownName("model", request.model, known) from None
        finally:
            ELICITOR.reset(token)
        if request.background:
            return ToolReply(started_text(await self._gen.outcome_of(job.task)), task=job.task)
        return await self._outcome(
            tool, call, AwaitedTask(self._gen, job, elicitor if isinstance(elicitor, RoundElicitor) else None)
        )

    async def _outcome(self, tool: Tool, call: ToolCall, awaited: AwaitedTask) -> ToolReply:
        """The result of a task, in the text that an agent gets for its subagent."""
        try:
            async with self._progress(awaited.job.task):
                outcome = await awaited.finished()
                while outcome is None:
                    if awaited.job.task.terms.background:
                        return ToolReply(
                            started_text(await self._gen.outcome_of(awaited.job.task)), task=awaited.job.task
                        )
                    if awaited.rounds and (requests := awaited.rounds.requests()):
                        raise InputRequired(requests, self._awaited.keep(awaited))
                    outcome = await awaited.finished()
        except asyncio.CancelledError:
            await self._awaited.give_up(awaited)
            raise
        output = await tool.run(self._context(call, outcome), tool.parse(call))
        return _reply(output, awaited.job.task)

    async def _started(self, request: TaskRequest) -> RunningTask:
        if not request.resume:
            return await self._gen.start_task(request)
        task = await controllable_task(self._gen, request.resume)
        if self._gen.agents.find(request.agent).name != task.agent:
            raise UserMistake(f"Task {task.id} belongs to {task.agent}; set subagent_type to that.")
        return await self._gen.start_resume(task.id, request)

    async def _wait(self, given: Struct) -> None:
        """Wait for a task to finish, as long as the client wants, and report its progress."""
        task = await self._gen.history.current((await visible_task(self._gen, _text(given, "task_id"))).id)
        wanted: int = getattr(given, "limit", 0)
        seconds = min(max(wanted, 0), LONGEST_MS) / 1000 if getattr(given, "block", True) else 0.0
        if seconds and task.terms.background and not task.status.ended:
            async with self._progress(task):
                await self._gen.history.ended(task.id, seconds)

    async def _send(self, given: Struct, elicitor: Elicitor | None) -> ToolReply:
        message = _text(given, "message")
        if not message.strip():
            raise ToolError("The message is empty; write what the agent should know or do.")
        task = await controllable_task(self._gen, _text(given, "task_id"))
        token = ELICITOR.set(elicitor)
        try:
            sent = await self._gen.send(task.id, message, here=True)
        finally:
            ELICITOR.reset(token)
        now = await self._gen.history.current(task.id)
        who = f"{now.agent} (task {now.id})"
        if not sent.resumed:
            return ToolReply(f"{who} will read the message before its next reply.", task=now)
        ask = f'TaskOutput(task_id="{now.id}")'
        text = f"{who} had finished; it continues in the background with your message. For its result: {ask}."
        return ToolReply(text, task=now)

    async def _named_task(self, given: Struct) -> Task | None:
        name = _text(given, "task_id")
        return await visible_task(self._gen, name) if name else None

    def _progress(self, task: Task) -> AbstractAsyncContextManager[None]:
        wanted = bool(self._ctx.meta) and "progress_token" in (self._ctx.meta or {})
        return report_progress(self._gen, task, self._ctx.session, wanted=wanted)

    def _context(self, call: ToolCall, outcome: Outcome | None = None) -> ToolContext:
        return ToolContext(
            task="",
            agent="client",
            call=call,
            workspace=self._gen.workspace,
            may_read=lambda _: False,
            progress=lambda _: None,
            place=_no_files,
            delegate=ClientDelegate(self._gen, outcome),
        )


def started_text(outcome: Outcome) -> str:
    """The result of a background call: a client is not notified when the task has finished."""
    name = outcome.agent_id
    return (
        f"{outcome.agent} is running in the background as task {name}. For its result or its progress: "
        f'TaskOutput(task_id="{name}"). To stop it: TaskStop(task_id="{name}").'
    )


def _request(given: Struct) -> TaskRequest:
    value: dict[str, Any] = {name: getattr(given, name) for name in given.__struct_fields__}
    return TaskRequest(
        agent=value["subagent_type"],
        prompt=value["prompt"],
        description=value["description"],
        model=value["model"],
        max_turns=value["max_turns"],
        background=value["run_in_background"],
        resume=value["resume"],
        isolation=value["isolation"],
        output_schema=value["output_schema"],
        budget=value["budget"] or Budget(),
    )


def _reply(output: ToolOutput, task: Task | None) -> ToolReply:
    return ToolReply(output.text, output.error, task)


def _text(given: Struct, name: str) -> str:
    return str(getattr(given, name, ""))


def _no_files(path: str) -> NoReturn:
    raise ToolError(f"{path} cannot be opened by a client.")
