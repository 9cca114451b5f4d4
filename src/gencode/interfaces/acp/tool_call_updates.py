"""Tool calls and subagents as ACP tool calls: title, kind, status, locations, diffs and text."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from acp.helpers import ToolCallContentVariant, image_block, text_block, tool_content, tool_diff_content
from acp.schema import PlanEntry, ToolCallLocation, ToolCallProgress, ToolCallStart, ToolKind
from acp.schema import ToolCallStatus as State
from msgspec import Struct

from gencode.core.messages import Image
from gencode.core.questions import Question
from gencode.core.status import Status
from gencode.core.text import exact_line, visible, visible_line
from gencode.interfaces.render.agent_view import AgentView, figures, state
from gencode.interfaces.render.transcript import Call

MOST_SHOWN = 20_000
MOST_INPUT = 4_000
MOST_OF_PICTURES = 8_000_000
MOST_STEPS = 200
TITLE_ROOM = 160
TEXT_ROOM = 2_000
KINDS: dict[str, ToolKind] = {
    **dict.fromkeys(("Read", "LS", "TaskOutput"), "read"),
    **dict.fromkeys(("Edit", "Write"), "edit"),
    **dict.fromkeys(("Glob", "Grep", "WebSearch"), "search"),
    **dict.fromkeys(("Bash", "KillShell"), "execute"),
    **dict.fromkeys(("Task", "spawn", "spawn_subagent", "TodoWrite"), "think"),
    "WebFetch": "fetch",
}
STATES: dict[str, State] = {
    **dict.fromkeys(("asked", "waiting"), "pending"),
    "running": "in_progress",
    "done": "completed",
    **dict.fromkeys(("failed", "denied"), "failed"),
}
PLAN = "TodoWrite"
_PATHS = ("file_path", "path")
_QUOTED = frozenset({"Read", "Bash", "Grep", "Glob", "LS"})


class FileDiff(Struct, frozen=True):
    """How a call changed a file, or would change it; `old` is None for a new file."""

    path: str
    old: str | None
    new: str


class AcpToolCall(Struct, frozen=True, eq=False):
    """The state of a tool call, as the first update of the protocol or as a later one."""

    id: str
    title: str
    kind: ToolKind
    status: State
    content: Sequence[ToolCallContentVariant] = ()
    locations: Sequence[ToolCallLocation] = ()
    raw: dict[str, Any] | None = None

    def start(self) -> ToolCallStart:
        """The first update of the call."""
        return ToolCallStart(session_update="tool_call", **self._fields())

    def progress(self) -> ToolCallProgress:
        """A later update, with the state the call has now."""
        return ToolCallProgress(session_update="tool_call_update", **self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "tool_call_id": self.id,
            "title": self.title,
            "kind": self.kind,
            "status": self.status,
            "content": list(self.content) or None,
            "locations": list(self.locations) or None,
            "raw_input": self.raw,
        }


def describe_call(
    name: str, call: Call, cwd: Path, change: FileDiff | None = None, images: Sequence[Image] = ()
) -> AcpToolCall:
    """A tool call in its current state, with the pictures it returned."""
    content: list[ToolCallContentVariant] = []
    if call.state != "denied" and change is not None:
        content.append(diff_content(change))
    elif call.state not in ("denied", "failed"):
        content += call_diffs(call.tool, call.input, cwd)
    if text := _said(call):
        content.append(tool_content(text_block(text)))
    content += _pictures(images)
    title = visible_line(call.line, TITLE_ROOM) or visible_line(call.tool, TITLE_ROOM)
    kind = KINDS.get(call.tool, "other")
    return AcpToolCall(
        name, title, kind, STATES[call.state], content, locations(call.input, cwd), raw_input(call.input)
    )


def describe_agent(name: str, agent: AgentView, now: str, path: Sequence[str] = ()) -> AcpToolCall:
    """A subagent: its last step and usage while it runs, its result once it has finished."""
    who = " › ".join(visible_line(each, 40) for each in path) or visible_line(agent.agent, 40)
    behind = " (in the background)" if agent.background and not agent.status.ended else ""
    title = f"{who}: {visible_line(agent.title, TITLE_ROOM)}{behind}"
    used = figures(agent, now)
    if agent.status.ended:
        said = agent.result.strip() or agent.error or "(no result)"
        why = f"\n\n{visible_line(agent.error)}" if agent.error and agent.result.strip() else ""
        text = f"{clipped(visible(said))}{why}\n\n*{agent.status} · {used}*"
        status: State = "completed" if agent.status is Status.COMPLETED else "failed"
    else:
        step = visible_line(agent.step or state(agent), MOST_STEPS)
        text = f"↳ {step}\n\n*{state(agent)} · {used}*"
        status = "pending" if agent.status is Status.PENDING else "in_progress"
    return AcpToolCall(name, title, "think", status, [tool_content(text_block(text))])


def call_diffs(tool: str, arguments: dict[str, Any], cwd: Path) -> list[ToolCallContentVariant]:
    """The changes that the arguments of an Edit or a Write ask for; none for other tools."""
    path = _path(arguments, cwd)
    if not path or tool not in ("Edit", "Write"):
        return []
    if tool == "Write":
        content = arguments.get("content")
        return [diff_content(FileDiff(path, None, content))] if isinstance(content, str) else []
    edits = arguments.get("edits")
    listed = cast("list[Any]", edits) if isinstance(edits, list) else [arguments]
    pairs = [(_text(each, "old_string"), _text(each, "new_string")) for each in listed[:MOST_STEPS]]
    return [
        diff_content(FileDiff(path, old, new)) for old, new in pairs if old is not None and new is not None
    ]


def question_title(question: Question) -> str:
    """The subagent and its call, with the text that would be run: long ones say how much follows."""
    texts = (value for value in question.call.input.values() if isinstance(value, str) and value)
    text = next(texts, "")
    more = f"… ({len(text) - TEXT_ROOM:,} more characters below)" if len(text) > TEXT_ROOM else ""
    below = " › ".join(exact_line(each) for each in question.path[1:])
    what = f"{exact_line(question.call.name)}({exact_line(text[:TEXT_ROOM])}{more})"
    return f"{below}: {what}" if below else what


def diff_content(change: FileDiff) -> ToolCallContentVariant:
    """A change as a diff; control characters are escaped."""
    old = None if change.old is None else visible(change.old)
    return tool_diff_content(visible_line(change.path), visible(change.new), old)


def locations(arguments: dict[str, Any], cwd: Path) -> list[ToolCallLocation]:
    """The file of a call, and the first line it reads."""
    path = _path(arguments, cwd)
    if not path:
        return []
    line = arguments.get("offset")
    return [ToolCallLocation(path=path, line=line if isinstance(line, int) and line > 0 else None)]


def raw_input(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call: every text is escaped and bounded, nested values are written as text."""
    return {visible_line(name, 80): _bounded(value) for name, value in list(arguments.items())[:50]}


def plan_entries(arguments: dict[str, Any]) -> list[PlanEntry]:
    """The steps of a TodoWrite."""
    steps = arguments.get("todos")
    listed = cast("list[Any]", steps)[:MOST_STEPS] if isinstance(steps, list) else []
    pairs = [(_text(each, "content"), _text(each, "status")) for each in listed]
    return [
        PlanEntry(content=visible_line(content, 300), priority="medium", status=status)
        for content, status in pairs
        if content and status in ("pending", "in_progress", "completed")
    ]


def clipped(text: str) -> str:
    """A text, cut after so many characters as an editor can show."""
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}\n… {len(text) - MOST_SHOWN:,} more characters"


def fenced(text: str) -> str:
    """A text as a code block of Markdown, so that it is shown as it is."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _pictures(images: Sequence[Image]) -> list[ToolCallContentVariant]:
    """Pictures, as many as fit into one message, and how many were left out."""
    sizes = accumulate(len(image.base64) for image in images)
    fits = sum(size <= MOST_OF_PICTURES for size in sizes)
    content = [tool_content(image_block(image.base64, image.media_type)) for image in images[:fits]]
    if fits < len(images):
        rest = len(images) - fits
        pictures = "picture" if rest == 1 else "pictures"
        content.append(tool_content(text_block(f"[{rest} more {pictures}: too large to show]")))
    return [*content]


def _said(call: Call) -> str:
    if call.state == "denied":
        return visible(call.why or call.result)
    if call.result:
        text = clipped(visible(call.result))
        return fenced(text) if call.tool in _QUOTED else text
    if call.state == "asked":
        return visible(call.why)
    return visible_line(call.step, MOST_STEPS)


def _text(value: object, name: str) -> str | None:
    """A text field of an object that a model wrote."""
    found = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _path(arguments: dict[str, Any], cwd: Path) -> str:
    text = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
    if not text or text.startswith("~") or not text.isprintable():
        return ""
    return str(cwd / text)


def _bounded(value: object) -> object:
    if isinstance(value, str):
        text = visible(value[:MOST_INPUT])
        return text if len(value) <= MOST_INPUT else f"{text}… ({len(value) - MOST_INPUT:,} more characters)"
    if isinstance(value, bool | int | float | None):
        return value
    return _bounded(str(value))
