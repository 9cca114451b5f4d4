"""The tools, prompts and resources that the MCP server offers."""

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
from gencode.interfaces.mcp_server.client_delegate import own_tasks, visible_task
from gencode.interfaces.render.transcript import transcript_text

READ_ONLY_TASK = "TaskReadOnly"
TOOLS = ("Task", READ_ONLY_TASK, "TaskOutput", "TaskStop", "SendMessage", "task_list")
READ_ONLY_TOOLS = frozenset({READ_ONLY_TASK, "TaskOutput", "task_list"})
OWN_NAMES = {READ_ONLY_TASK: "Task"}
"""The names of tools that GenCode's own agents know by another name."""
CHANGING_PARAMETERS = ("isolation",)
"""Parameters of Task by which it changes something: a worktree is created in the repository."""
MOST_AGENTS = 100
PAGE = 50
"""Tasks on one page of the list of resources."""
MARKDOWN, PLAIN = "text/markdown", "text/plain"
KINDS = {
    "result": ("the agent's report, or its progress", MARKDOWN),
    "transcript": ("messages, tool calls and decisions, step by step", PLAIN),
}
INSTRUCTIONS = (
    "GenCode runs specialised agents in the folder you work in. Task starts one and returns its report; with "
    "run_in_background it returns an id at once, and TaskOutput waits for the result. For agents that only "
    "read, call TaskReadOnly: several calls in one reply run in parallel. If a call times out, its agent "
    "continues for two minutes: find its id with task_list, then call TaskOutput. What an agent may do is "
    "decided by the permissions of the user who started this server."
)
# GenCode's own agents are notified of results; a client has to ask for them. Many clients run calls in
# parallel only for tools that are marked as read-only.
DESCRIPTIONS: Mapping[str, str] = {
    "Task": "Start a specialised agent that does one piece of work on its own and reports back.\n\n"
    "It starts with an empty context, has only its own tools, and returns only its final text. To run "
    "several in parallel, start each with run_in_background, then collect their results with TaskOutput. For "
    "agents that only read, prefer TaskReadOnly.",
    READ_ONLY_TASK: "Start a specialised agent that only reads: it can search and answer, and change "
    "nothing.\n\n"
    "It starts with an empty context, has only its own tools, and returns only its final text. Start several "
    "in one reply when the pieces do not depend on each other: they run in parallel.",
    "SendMessage": "Send a message to an agent. A running one reads it before its next reply; one that has "
    "finished continues in the background. Get its result with TaskOutput.",
}
PARAMETERS: Mapping[tuple[str, str], str] = {
    ("Task", "run_in_background"): "Return an id at once; get the result with TaskOutput",
    (READ_ONLY_TASK, "run_in_background"): "Return an id at once; get the result with TaskOutput",
    (READ_ONLY_TASK, "subagent_type"): "One of the agents listed above",
    ("TaskOutput", "task_id"): "The id returned by Task",
    ("TaskStop", "task_id"): "The id returned by Task",
}
_URI = re.compile(r"gencode://tasks/([0-9a-f]{8})/(result|transcript)(?:\?page=([1-9][0-9]{0,5}))?", re.A)


class ResourceUri(Struct, frozen=True):
    """The URI of a resource: a task, its kind and a page."""

    task: str
    kind: str
    page: int = 1

    @property
    def uri(self) -> str:
        """The URI as text."""
        return f"gencode://tasks/{self.task}/{self.kind}" + (f"?page={self.page}" if self.page > 1 else "")


def tools(gen: GenCode) -> list[types.Tool]:
    """The delegation tools, with the schemas of GenCode's own agents."""
    return [_tool(gen, name) for name in TOOLS]


def read_only_agents(gen: GenCode) -> list[AgentSpec]:
    """The agents that cannot change anything: in plan mode, without hooks or a worktree."""
    planning = gen.policy.mode is Mode.PLAN
    return [
        spec
        for spec in gen.agents.spawnable()
        if (planning or spec.mode is Mode.PLAN) and not spec.hooks and spec.isolation != "worktree"
    ]


def check_read_only(gen: GenCode, arguments: Mapping[str, Any]) -> None:
    """ToolError for a call of TaskReadOnly that could change something."""
    for name in CHANGING_PARAMETERS:
        if arguments.get(name):
            raise ToolError(f"{READ_ONLY_TASK} does not support {name}; use Task instead.")
    spec = gen.agents.find(str(arguments.get("subagent_type", "")))
    allowed = [each.name for each in read_only_agents(gen)]
    if spec.name not in allowed:
        raise ToolError(
            f"{spec.name} may change files; use Task instead. "
            f"Agents for {READ_ONLY_TASK}: {', '.join(allowed[:MOST_AGENTS]) or 'none'}."
        )


def _tool(gen: GenCode, name: str) -> types.Tool:
    ours = gen.toolbox.find(OWN_NAMES.get(name, name))
    description = DESCRIPTIONS.get(name, ours.description)
    schema: dict[str, Any] = deepcopy(ours.schema)
    if name == "Task":
        description = f"{description}\n\nThe agents:\n{_agents(gen.agents.spawnable())}"
    if name == READ_ONLY_TASK:
        description = f"{description}\n\nThe agents:\n{_agents(read_only_agents(gen))}"
        for parameter in CHANGING_PARAMETERS:
            del schema["properties"][parameter]
    for (tool, parameter), words in PARAMETERS.items():
        if tool == name:
            schema["properties"][parameter]["description"] = words
    reads = name in READ_ONLY_TOOLS
    hints = types.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=not reads)
    return types.Tool(name=name, description=description, input_schema=schema, annotations=hints)


def _agents(specs: Sequence[AgentSpec]) -> str:
    lines = [f"- {spec.name}: {visible_line(spec.description, 300)}" for spec in specs[:MOST_AGENTS]]
    return "\n".join([*lines, *([f"- and {len(specs) - MOST_AGENTS} more"] if specs[MOST_AGENTS:] else [])])


def prompts(gen: GenCode) -> list[types.Prompt]:
    """A prompt for each agent, which takes the task as its argument."""
    task = types.PromptArgument(name="task", description="What the agent should do", required=True)
    return [
        types.Prompt(name=spec.name, description=visible_line(spec.description, 1000), arguments=[task])
        for spec in gen.agents.spawnable()
    ]


def agent_prompt(gen: GenCode, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """A prompt that lets the client's model start an agent."""
    try:
        spec = gen.agents.find(name)
    except UserMistake as mistake:
        raise MCPError(types.INVALID_PARAMS, str(mistake)) from None
    task = arguments.get("task", "").strip()
    if not task:
        raise MCPError(types.INVALID_PARAMS, "The argument task is missing: what the agent should do.")
    text = (
        f'Start the agent {spec.name}: call the tool Task with subagent_type="{spec.name}" and the following '
        f"as its prompt, then tell me what it reports.\n\n{task}"
    )
    said = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=visible_line(spec.description, 1000), messages=[said])


async def list_resources(gen: GenCode, cursor: str | None) -> types.ListResourcesResult:
    """A page of the results and transcripts of the tasks of this folder, newest first."""
    if cursor is not None and await gen.history.task(cursor) is None:
        raise MCPError(types.INVALID_PARAMS, "The cursor is unknown or has expired; list from the start.")
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
        uri=ResourceUri(task.id, kind).uri,
        description=f"Task {task.id} of {task.agent}, {task.status}: {says}",
        mime_type=media,
    )


def resource_templates() -> list[types.ResourceTemplate]:
    """The templates of the URIs of all tasks."""
    return [
        types.ResourceTemplate(
            name=f"task {kind}",
            uri_template=f"gencode://tasks/{{id}}/{kind}{{?page}}",
            description=f"Of one task: {says}. Long texts have pages, from 1",
            mime_type=media,
        )
        for kind, (says, media) in KINDS.items()
    ]


async def read_resource(gen: GenCode, uri: str) -> types.ReadResourceResult:
    """A page of a result or a transcript."""
    parts = parse_uri(uri)
    try:
        task = await visible_task(gen, parts.task)
        if parts.kind == "result":
            page = (await gen.get(task.id)).result or f"(no result yet: task {task.id} is {task.status})"
        else:
            page = await transcript_text(gen, task.id) or "(nothing yet)"
        text = page_of(page, parts.page, of=parts.kind)
    except UserMistake as mistake:
        raise MCPError(types.INVALID_PARAMS, str(mistake)) from None
    content = types.TextResourceContents(uri=uri, mime_type=KINDS[parts.kind][1], text=valid_unicode(text))
    return types.ReadResourceResult(contents=[content])


def valid_unicode(text: str) -> str:
    """Text without lone surrogates, as JSON needs it: file names may be broken UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def parse_uri(uri: str) -> ResourceUri:
    """The parts of a resource URI."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown resource {uri[:200]!r}; see the resource templates.")
    task, kind, page = found.groups()
    return ResourceUri(task, kind, int(page or 1))


def check_tool_name(name: str) -> None:
    """MCPError for an unknown tool."""
    if name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool {name[:80]!r}; the tools are {', '.join(TOOLS)}.")
