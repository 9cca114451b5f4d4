"""bench: the offline model on the real tools, without the rest of the system."""

import asyncio
from pathlib import Path

from msgspec import Struct

from gencode.agent.ports import Request
from gencode.agent.toolbox import Tool, Toolbox, ToolContext
from gencode.core.errors import ToolError
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gencode.core.spec import Workspace
from gencode.permissions.paths import resolve
from gencode.providers.offline import OfflineProvider
from gencode.tools.glob import GLOB
from gencode.tools.grep import GREP
from gencode.tools.ls import LS
from gencode.tools.read import READ

BOX = Toolbox([READ, GLOB, GREP, LS])
MOST_TURNS = 8


class Answer(Struct, frozen=True):
    """What came out of one run."""

    text: str
    turns: int
    calls: int


async def ask(question: str, folder: Path, box: Toolbox = BOX) -> Answer:
    """One question to the offline model, with its calls executed in a folder."""
    provider = OfflineProvider()
    messages: list[Message] = [UserMessage(question)]
    made = 0
    for turn in range(1, MOST_TURNS + 1):
        text = ""
        calls: list[ToolCall] = []
        async for part in provider.stream(Request("offline", "", messages, box.schemas(), agent="Explore")):
            if isinstance(part, TextPart):
                text += part.text
            elif isinstance(part, CallPart):
                calls.append(part.call)
        if not calls:
            return Answer(text, turn, made)
        made += len(calls)
        results = await asyncio.gather(*(_run(box, call, folder) for call in calls))
        messages += [AssistantMessage(text, tuple(calls)), ToolMessage(tuple(results))]
    raise RuntimeError(f"no answer after {MOST_TURNS} turns: {question}")


async def _run(box: Toolbox, call: ToolCall, folder: Path) -> ToolResult:
    tool: Tool = box[call.name]
    workspace = Workspace(root=folder, cwd=folder, home=folder.parent)
    ctx = ToolContext(
        task="00000000",
        agent="Explore",
        call=call,
        workspace=workspace,
        may_read=lambda path: True,
        progress=lambda text: None,
        place=lambda text: resolve(text, workspace),
    )
    try:
        output = await tool.run(ctx, tool.parse(call))
    except ToolError as error:
        return ToolResult(call.id, call.name, str(error), error=True)
    return ToolResult(call.id, call.name, output.text, error=output.error)
