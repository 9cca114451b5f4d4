"""task_list and task_replay: the agent's own subagents, and what each of them did."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta

from gencode.agent.ports import Delegate
from gencode.agent.toolbox import Param, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.core.outcome import Outcome, page_of, titled
from gencode.core.status import Status
from gencode.core.text import one_line

MOST_LISTED = 100
LONGEST_TITLE = 80
LONGEST_TEXT = 2_000
"""Characters of one message in a replay."""


@tool(effect="read", name="task_list", on_request=True)
async def TASK_LIST(
    ctx: ToolContext,
    status: Annotated[Status | None, "Only those with this status"] = None,
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED), "At most so many, the latest"] = 20,
) -> str:
    """List the tasks that you have started, with their ids and status."""
    every = [each for each in await _delegate(ctx).own() if status is None or each.status is status]
    if not every:
        return "You have started no agents." if status is None else f"None of your tasks is {status}."
    lines = [_line(each) for each in every[-limit:]]
    rest = len(every) - len(lines)
    return "\n".join([*([f"[… {rest:,} earlier ones]"] if rest else []), *lines])


@tool(effect="read", name="task_replay", on_request=True)
async def TASK_REPLAY(
    ctx: ToolContext,
    task_id: Annotated[str, Param("One of task_list; your own if left out", also=("id", "taskId"))] = "",
    page: Annotated[int, Meta(ge=1), "Which part of a long one"] = 1,
) -> str:
    """Show step by step what a task that you have started did: messages, calls and results."""
    outcome = await _delegate(ctx).replay(task_id or ctx.task)
    transcript = [] if outcome.transcript is UNSET else outcome.transcript
    steps = "\n".join(_steps(transcript)) or "(nothing yet)"
    return f"{_line(outcome)}\n\n{page_of(steps, page, of='transcript')}"


def _line(task: Outcome) -> str:
    title = one_line(titled(task.description, task.prompt, task.forked_from), LONGEST_TITLE)
    turns = "1 turn" if task.turns == 1 else f"{task.turns} turns"
    where = ", in the background" if task.background else ""
    why = f" ({one_line(task.error, LONGEST_TITLE)})" if task.error else ""
    return f"{task.agent_id} {task.agent}: {title} [{task.status}{why}, {turns}{where}]"


def _steps(transcript: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A transcript line by line; every message says by whom it is."""
    for message in transcript:
        match message:
            case {"role": "user", "text": str(text)}:
                yield f"{message.get('sender', 'user')} said: {_cut(text)}"
            case {"role": "assistant"}:
                if text := str(message.get("text", "")).strip():
                    yield f"agent said: {_cut(text)}"
                for call in message.get("calls", ()):
                    yield f"agent called {call['name']}({_cut(str(call.get('input', '')))})"
            case {"role": "tool", "results": results}:
                for result in results:
                    how = "failed" if result.get("error") else "answered"
                    yield f"{result['name']} {how}: {_cut(str(result['text']))}"
            case _:
                continue


def _cut(text: str) -> str:
    left = len(text) - LONGEST_TEXT
    return text if left <= 0 else f"{text[:LONGEST_TEXT]} [… {left:,} more characters]"


def _delegate(ctx: ToolContext) -> Delegate:
    if ctx.delegate is None:
        raise ToolError("This agent has no tasks to look at.")
    return ctx.delegate
