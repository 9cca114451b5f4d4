"""Offers: the tools, prompts and resources that a client finds here (MCP server)."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from gencode.app import GenCode
from gencode.core.errors import ToolError, UserMistake
from gencode.core.outcome import page_of, title_of
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.cli.task_transcript import transcript_text
from gencode.interfaces.mcp_server.client_delegate import own_tasks, reached

READ_ONLY_TASK = "TaskReadOnly"
TOOLS = ("Task", READ_ONLY_TASK, "TaskOutput", "TaskStop", "SendMessage", "task_list")
READING = frozenset({READ_ONLY_TASK, "TaskOutput", "task_list"})
OURS = {READ_ONLY_TASK: "Task"}
"""Under which name our own agents know a tool that has another one here."""
CHANGING = ("isolation",)
"""Parameters of Task that let it change something: a worktree is made in the repository."""
MOST_AGENTS = 100
PAGE = 50
"""Tasks on one page of the list of resources."""
MARKDOWN, PLAIN = "text/markdown", "text/plain"
KINDS = {
    "result": ("what the agent reported, or how far it is", MARKDOWN),
    "transcript": ("what was said, called and decided, step by step", PLAIN),
}
INSTRUCTIONS = (
    "GenCode runs specialised agents on the folder you work in. Task sends one and gives its report; with "
    "run_in_background it gives an id at once, and TaskOutput waits for the result. For agents that only "
    "read, call TaskReadOnly: several in one reply run side by side. If a call times out, its agent goes on "
    "for two minutes: find its id with task_list, then call TaskOutput with it. What an agent may do is "
    "decided by the permissions of the person who started this server."
)
# Our own agents hear of results by themselves, and run side by side; a client has to ask for the former,
# and many a client runs only calls of tools that are marked as reading side by side.
SAID_OTHERWISE: Mapping[str, str] = {
    "Task": "Send a specialised agent to do one piece of work on its own and report back.\n\n"
    "It starts with an empty context, has only its own tools, and returns only its final text. To run "
    "several side by side, send each with run_in_background, then collect their results with TaskOutput; "
    "agents that only read are better sent with TaskReadOnly.",
    READ_ONLY_TASK: "Send a specialised agent that only reads: it can search and answer, and change "
    "nothing.\n\n"
    "It starts with an empty context, has only its own tools, and returns only its final text. Send several "
    "in one reply when the pieces do not depend on each other: they run side by side.",
    "SendMessage": "Say something to an agent that was sent. A running one hears it before its next reply; "
    "one that has ended goes on with it in the background. Ask for its result with TaskOutput.",
}
PARAMETERS: Mapping[tuple[str, str], str] = {
    ("Task", "run_in_background"): "Give back an id at once; ask for the result with TaskOutput",
    (READ_ONLY_TASK, "run_in_background"): "Give back an id at once; ask for the result with TaskOutput",
    (READ_ONLY_TASK, "subagent_type"): "Which of the agents below",
    ("TaskOutput", "task_id"): "The id that Task gave",
    ("TaskStop", "task_id"): "The id that Task gave",
}
_URI = re.compile(r"gencode://tasks/([0-9a-f]{8})/(result|transcript)(?:\?page=([1-9][0-9]{0,5}))?", re.A)


class Wanted(Struct, frozen=True):
    """A resource: of which task, what, and which page of it."""

    task: str
    kind: str
    page: int = 1

    @property
    def uri(self) -> str:
        """Its address."""
        return f"gencode://tasks/{self.task}/{self.kind}" + (f"?page={self.page}" if self.page > 1 else "")


def tools(gen: GenCode) -> list[types.Tool]:
    """The delegation tools, with the schemas that our own agents see."""
    return [_tool(gen, name) for name in TOOLS]


def readers(gen: GenCode) -> list[AgentSpec]:
    """The agents that can change nothing: in plan mode, without commands of their own or a worktree."""
    planning = gen.root.policy.mode is Mode.PLAN
    return [
        spec
        for spec in gen.agents.spawnable()
        if (planning or spec.mode is Mode.PLAN) and not spec.hooks and spec.isolation != "worktree"
    ]


def check_read_only(gen: GenCode, arguments: Mapping[str, Any]) -> None:
    """ToolError for a call of TaskReadOnly by which something could be changed."""
    for name in CHANGING:
        if arguments.get(name):
            raise ToolError(f"{READ_ONLY_TASK} takes no {name}; use Task for that.")
    spec = gen.agents.find(str(arguments.get("subagent_type", "")))
    there = [each.name for each in readers(gen)]
    if spec.name not in there:
        raise ToolError(
            f"{spec.name} may change something; use Task for it. "
            f"{READ_ONLY_TASK} sends {', '.join(there[:MOST_AGENTS]) or 'nobody here'}."
        )


def _tool(gen: GenCode, name: str) -> types.Tool:
    ours = gen.toolbox.find(OURS.get(name, name))
    said = SAID_OTHERWISE.get(name, ours.description)
    schema: dict[str, Any] = deepcopy(ours.schema)
    if name == "Task":
        said = f"{said}\n\nThe agents:\n{_agents(gen.agents.spawnable())}"
    if name == READ_ONLY_TASK:
        said = f"{said}\n\nThe agents:\n{_agents(readers(gen))}"
        for parameter in CHANGING:
            del schema["properties"][parameter]
    for (tool, parameter), words in PARAMETERS.items():
        if tool == name:
            schema["properties"][parameter]["description"] = words
    reads = name in READING
    hints = types.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=not reads)
    return types.Tool(name=name, description=said, input_schema=schema, annotations=hints)


def _agents(specs: Sequence[AgentSpec]) -> str:
    lines = [f"- {spec.name}: {visible_line(spec.description, 300)}" for spec in specs[:MOST_AGENTS]]
    return "\n".join([*lines, *([f"- and {len(specs) - MOST_AGENTS} more"] if specs[MOST_AGENTS:] else [])])


def prompts(gen: GenCode) -> list[types.Prompt]:
    """Every agent as something a person can pick and say what it should do."""
    task = types.PromptArgument(name="task", description="What the agent should do", required=True)
    return [
        types.Prompt(name=spec.name, description=visible_line(spec.description, 1000), arguments=[task])
        for spec in gen.agents.spawnable()
    ]


def prompt(gen: GenCode, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Words that let the client's model send one agent."""
    try:
        spec = gen.agents.find(name)
    except UserMistake as mistake:
        raise MCPError(types.INVALID_PARAMS, str(mistake)) from None
    task = arguments.get("task", "").strip()
    if not task:
        raise MCPError(types.INVALID_PARAMS, "Say with the argument task what the agent should do.")
    text = (
        f'Send the agent {spec.name}: call the tool Task with subagent_type="{spec.name}" and the following '
        f"as its prompt, then tell me what it reports.\n\n{task}"
    )
    said = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=visible_line(spec.description, 1000), messages=[said])


async def resources(gen: GenCode, cursor: str | None) -> types.ListResourcesResult:
    """The results and transcripts of this folder's tasks, the newest first, a page at a time."""
    if cursor is not None and await gen.store.task(cursor) is None:
        raise MCPError(types.INVALID_PARAMS, "This cursor is not known (any more); list from the start.")
    tasks = (await own_tasks(gen, PAGE + 1, cursor))[::-1]
    found = [_resource(task, kind) for task in tasks[:PAGE] for kind in KINDS]
    more = tasks[PAGE - 1].id if tasks[PAGE:] else None
    return types.ListResourcesResult(resources=found, next_cursor=more)


def _resource(task: Task, kind: str) -> types.Resource:
    says, media = KINDS[kind]
    title = visible_line(title_of(task), 80)
    return types.Resource(
        name=f"{task.id} {kind}",
        title=f"{task.agent}: {title} ({kind})",
        uri=Wanted(task.id, kind).uri,
        description=f"Task {task.id} of {task.agent}, {task.status}: {says}",
        mime_type=media,
    )


def templates() -> list[types.ResourceTemplate]:
    """How the address of every task is made."""
    return [
        types.ResourceTemplate(
            name=f"task {kind}",
            uri_template=f"gencode://tasks/{{id}}/{kind}{{?page}}",
            description=f"Of one task: {says}; long ones in pages, from 1",
            mime_type=media,
        )
        for kind, (says, media) in KINDS.items()
    ]


async def resource(gen: GenCode, uri: str) -> types.ReadResourceResult:
    """One page of a result or of a transcript."""
    wanted = parsed(uri)
    try:
        task = await reached(gen, wanted.task)
        if wanted.kind == "result":
            page = (await gen.get(task.id)).result or f"(nothing yet: task {task.id} is {task.status})"
        else:
            page = await transcript_text(gen, task.id) or "(nothing yet)"
        text = page_of(page, wanted.page, of=wanted.kind)
    except UserMistake as mistake:
        raise MCPError(types.INVALID_PARAMS, str(mistake)) from None
    content = types.TextResourceContents(uri=uri, mime_type=KINDS[wanted.kind][1], text=sound(text))
    return types.ReadResourceResult(contents=[content])


def sound(text: str) -> str:
    """Text that any JSON can hold: the name of a file need not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def parsed(uri: str) -> Wanted:
    """What an address asks for."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no resource {uri[:200]!r}; see the templates.")
    task, kind, page = found.groups()
    return Wanted(task, kind, int(page or 1))


def check_name(name: str) -> None:
    """A protocol error for a tool that is not offered here."""
    if name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {name[:80]!r}; there are {', '.join(TOOLS)}.")
