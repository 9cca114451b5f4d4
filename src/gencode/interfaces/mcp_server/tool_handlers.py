"""Verbs: what the tools do for a client, with the words and schemas that our own agents know (MCP server)."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn

import mcp_types as types
from mcp.server.context import ServerRequestContext
from msgspec import Struct

from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.task import Task
from gencode.interfaces.mcp_server.catalogue import OURS, READ_ONLY_TASK, check_read_only, sound
from gencode.interfaces.mcp_server.client_delegate import FILES, ClientDelegate, checked, reached, steerable
from gencode.interfaces.mcp_server.elicitation import LINE, InRounds, Line
from gencode.interfaces.mcp_server.pending_calls import Errand, Errands, MoreNeeded
from gencode.interfaces.mcp_server.progress import told
from gencode.tasks.running_task import RunningTask

LONGEST_MS = 600_000
Requested = ServerRequestContext[Any, Any]


class Said(Struct, frozen=True):
    """What a tool answers: its text, whether that is an error, and the task it speaks of."""

    text: str
    error: bool = False
    task: Task | None = None

    def result(self) -> types.CallToolResult:
        """The same as the protocol says it; the task's id is for programs, models read the text."""
        meta = (
            {"gencode/taskId": self.task.id, "gencode/status": str(self.task.status)} if self.task else None
        )
        content: list[types.ContentBlock] = [types.TextContent(text=sound(self.text))]
        return types.CallToolResult(content=content, is_error=self.error, _meta=meta)


class Verbs:
    """Everything that one call does in one folder."""

    def __init__(self, gen: GenCode, ctx: Requested, errands: Errands) -> None:
        self._gen = gen
        self._ctx = ctx
        self._errands = errands

    async def call(self, name: str, arguments: Mapping[str, Any], line: Line | None) -> Said:
        """Do what a tool is asked for. The questions of agents that it sends go over this line."""
        if name == READ_ONLY_TASK:
            check_read_only(self._gen, arguments)
        tool = self._gen.toolbox.find(OURS.get(name, name))
        call = ToolCall(str(self._ctx.request_id), tool.name, dict(arguments))
        given = tool.parse(call)
        self._errands.claim(_text(given, "task_id") or _text(given, "resume"))
        match tool.name:
            case "Task":
                return await self._task(tool, call, given, line)
            case "TaskOutput":
                await self._wait(given)
            case "SendMessage":
                return await self._send(given, line)
            case _:
                pass
        return _said(await tool.run(self._surroundings(call), given), await self._meant(given))

    async def go_on(self, errand: Errand) -> Said:
        """Wait for an errand whose client came back with answers."""
        tool = self._gen.toolbox.find("Task")
        call = ToolCall(str(self._ctx.request_id), tool.name, {"subagent_type": "", "prompt": ""})
        return await self._followed(tool, call, errand)

    async def _task(self, tool: Tool, call: ToolCall, given: Struct, line: Line | None) -> Said:
        request = checked(_request(given))
        request = request.within(self._gen.agents.find(request.agent))
        token = LINE.set(line)  # what is started from here inherits it
        try:
            job = await self._started(request)
        except UnknownName as mistake:
            if mistake.name != request.model:
                raise
            known = [name for name in self._gen.models.names() if not name.startswith(FILES)]
            raise UnknownName("model", request.model, known) from None
        finally:
            LINE.reset(token)
        if request.background:
            return Said(started(await self._gen.outcome_of(job.task)), task=job.task)
        return await self._followed(
            tool, call, Errand(self._gen, job, line if isinstance(line, InRounds) else None)
        )

    async def _followed(self, tool: Tool, call: ToolCall, errand: Errand) -> Said:
        """The result of an errand, in the words in which an agent gets the one of an agent it sent."""
        try:
            async with self._telling(errand.job.task):
                outcome = await errand.finished()
                while outcome is None:
                    if errand.job.task.terms.background:
                        return Said(
                            started(await self._gen.outcome_of(errand.job.task)), task=errand.job.task
                        )
                    if errand.rounds and (requests := errand.rounds.requests()):
                        raise MoreNeeded(requests, self._errands.keep(errand))
                    outcome = await errand.finished()
        except asyncio.CancelledError:
            await self._errands.give_up(errand)
            raise
        output = await tool.run(self._surroundings(call, outcome), tool.parse(call))
        return _said(output, errand.job.task)

    async def _started(self, request: TaskRequest) -> RunningTask:
        if not request.resume:
            return await self._gen.start_task(request)
        task = await steerable(self._gen, request.resume)
        if self._gen.agents.find(request.agent).name != task.agent:
            raise UserMistake(f"Task {task.id} belongs to {task.agent}; name that as subagent_type.")
        return await self._gen.start_resume(task.id, request)

    async def _wait(self, given: Struct) -> None:
        """Wait for the end of a task as long as the client wants to, and tell it what happens meanwhile."""
        task = await self._gen.history.current((await reached(self._gen, _text(given, "task_id"))).id)
        wanted: int = getattr(given, "limit", 0)
        seconds = min(max(wanted, 0), LONGEST_MS) / 1000 if getattr(given, "block", True) else 0.0
        if seconds and task.terms.background and not task.status.ended:
            async with self._telling(task):
                await self._gen.history.ended(task.id, seconds)

    async def _send(self, given: Struct, line: Line | None) -> Said:
        message = _text(given, "message")
        if not message.strip():
            raise ToolError("The message is empty; say what the agent should know or do.")
        task = await steerable(self._gen, _text(given, "task_id"))
        token = LINE.set(line)
        try:
            sent = await self._gen.send(task.id, message, here=True)
        finally:
            LINE.reset(token)
        now = await self._gen.history.current(task.id)
        who = f"{now.agent} (task {now.id})"
        if not sent.resumed:
            return Said(f"{who} gets the message before its next reply.", task=now)
        ask = f'TaskOutput(task_id="{now.id}")'
        text = f"{who} had ended and goes on in the background with your message. For its result: {ask}."
        return Said(text, task=now)

    async def _meant(self, given: Struct) -> Task | None:
        name = _text(given, "task_id")
        return await reached(self._gen, name) if name else None

    def _telling(self, task: Task) -> AbstractAsyncContextManager[None]:
        wanted = bool(self._ctx.meta) and "progress_token" in (self._ctx.meta or {})
        return told(self._gen, task, self._ctx.session, wanted=wanted)

    def _surroundings(self, call: ToolCall, outcome: Outcome | None = None) -> ToolContext:
        return ToolContext(
            task="",
            agent="client",
            call=call,
            workspace=self._gen.workspace,
            may_read=lambda _: False,
            progress=lambda _: None,
            place=_no_place,
            delegate=ClientDelegate(self._gen, outcome),
        )


def started(outcome: Outcome) -> str:
    """What a client reads at once about work in the background: nothing comes to it by itself."""
    name = outcome.agent_id
    return (
        f"{outcome.agent} is running in the background as task {name}. For its result, or how far it is: "
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


def _said(output: ToolOutput, task: Task | None) -> Said:
    return Said(output.text, output.error, task)


def _text(given: Struct, name: str) -> str:
    return str(getattr(given, name, ""))


def _no_place(path: str) -> NoReturn:
    raise ToolError(f"{path} cannot be opened here.")
