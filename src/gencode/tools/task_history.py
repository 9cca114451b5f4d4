"""task_list and task_replay: the subagents of a session, and what each of them did."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta

from gencode.agent.toolbox import Param, ToolContext, tool
from gencode.core.outcome import Outcome, page_of, titled
from gencode.core.status import Status
from gencode.core.text import counted, disarmed, one_line, quoted, shortened

MOST_LISTED = 100
LONGEST_TITLE = 80
LONGEST_TEXT = 2_000
"""Characters of one message in a replay."""


@tool(effect="read", name="task_list", on_request=True)
async def TASK_LIST(
    ctx: ToolContext,
    status: Annotated[Status | None, "Only those with this status"] = None,
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED), "Maximum number of tasks, the latest ones"] = 20,
) -> str:
    """List the subagents of this session, with their ids and status."""
    every = [each for each in await ctx.starter().listed() if status is None or each.status is status]
    if not every:
        return "There are no tasks." if status is None else f"No task is {status}."
    lines = [_line(each) + _whose(each, ctx.task) for each in every[-limit:]]
    rest = len(every) - len(lines)
    return "\n".join([*([f"[… {rest:,} earlier ones]"] if rest else []), *lines])


@tool(effect="read", name="task_replay", on_request=True)
async def TASK_REPLAY(
    ctx: ToolContext,
    task_id: Annotated[str, Param("An id of task_list; default: your own task", also=("id", "taskId"))] = "",
    page: Annotated[int, Meta(ge=1), "Which part of a long transcript"] = 1,
) -> str:
    """Show step by step what a task did: messages, calls and results.

    Of tasks that you have not started you see what was said, and which tools were called.
    """
    outcome = await ctx.starter().replay(task_id or ctx.task)
    transcript = [] if outcome.transcript is UNSET else outcome.transcript
    # What an agent said and read is quoted, as in a report: nothing in it passes for a notice of GenCode.
    steps = quoted(disarmed("\n".join(_steps(transcript)))) if transcript else "(nothing yet)"
    return f"{_line(outcome)}\n\n{page_of(steps, page, of='transcript')}"


def _line(task: Outcome) -> str:
    title = one_line(titled(task.description, task.prompt, task.forked_from), LONGEST_TITLE)
    where = ", in the background" if task.background else ""
    why = f" ({one_line(task.error, LONGEST_TITLE)})" if task.error else ""
    return f"{task.agent_id} {task.agent}: {title} [{task.status}{why}, {counted(task.turns, 'turn')}{where}]"


def _whose(task: Outcome, own: str) -> str:
    return " (you)" if task.agent_id == own else ""


def _steps(transcript: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A transcript line by line, each message with its sender."""
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
    return shortened(text, LONGEST_TEXT)
