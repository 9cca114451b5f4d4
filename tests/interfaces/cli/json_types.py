"""The JSON Schema of everything that `--json` prints, made from the types that are printed.

python -m tests.interfaces.cli.shapes > docs/reference/schemas.json
"""

from typing import Any, Literal, NotRequired, TypedDict

from msgspec import UNSET, Struct, UnsetType

from gencode.agents.lint import NameClash
from gencode.budgets.limits import Spent
from gencode.core.budget import Budget
from gencode.core.messages import Message
from gencode.core.outcome import Outcome, RunOutcome
from gencode.core.questions import Question
from gencode.core.rules import Decision
from gencode.interfaces.chat.agent_info import AgentLine, LintedFile, SkillLine
from gencode.interfaces.chat.model_info import ModelLine
from gencode.interfaces.cli.doctor import Check
from gencode.mcp.session_servers import ServerReport
from gencode.tasks.history import Difference, Pair
from gencode.tasks.rewind import RewindPoint
from gencode.workspaces.worktrees.leftovers import LeftoverWorktree

Fields = dict[str, Any]


class Event(TypedDict):
    type: str
    task: str
    seq: int | None
    at: str


class Decided(TypedDict):
    task: str
    seq: int
    at: str
    kind: Literal["CallDecided"]
    call: str
    tool: str
    decision: Decision
    chain: NotRequired[list[str]]
    target: NotRequired[str]


class ShownTask(Outcome, frozen=True, rename="camel", kw_only=True):
    """A task with its transcript and what the gate decided."""

    transcript: list[Message]  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    decisions: list[Decided]  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]


class ShownSession(ShownTask, frozen=True, rename="camel", kw_only=True):
    """A conversation with the tasks it asked for."""

    tasks: list[Outcome]


class RanTask(RunOutcome, frozen=True, rename="camel", kw_only=True):
    """A task that was followed to its end, and the MCP servers at that moment."""

    servers: list[ServerReport] | UnsetType = UNSET


class StoppedTask(Outcome, frozen=True, rename="camel", kw_only=True):
    """A task, and the ids of all that a stop hit."""

    stopped: list[str]


class ToldTask(Outcome, frozen=True, rename="camel", kw_only=True):
    """A task, and whether it was woken."""

    woken: bool


class BudgetedTask(TypedDict):
    """What a task may spend, and what it has spent."""

    agentId: str
    agent: str
    budget: Budget
    spent: Spent


class InterruptedTask(Outcome, frozen=True, rename="camel", kw_only=True):
    """A task, and the ids of all that was cut."""

    interrupted: list[str]


class Job(TypedDict):
    """What is planned."""

    id: str
    schedule: str
    zone: str
    next: str | None
    prompt: str
    label: str
    agent: str | None
    task: bool
    sessionId: str | None
    to: str | None
    cwd: str
    model: str | None
    mode: str
    createdAt: str
    running: bool
    runs: int
    missed: int
    lastTask: str | None
    lastStatus: str | None


class ToolLine(TypedDict):
    """A tool."""

    name: str
    aliases: list[str]
    effect: Literal["read", "write", "execute", "delegate"]
    source: Literal["builtin", "plugin", "mcp"]
    server: str | None
    onRequest: bool
    description: str
    parameters: Fields


class Written(TypedDict):
    """The files and folders that were written."""

    written: list[str]


class Compared(Struct, frozen=True, rename="camel", kw_only=True):
    """Two runs side by side."""

    same_steps: int
    differences: tuple[Difference, ...]
    facts: tuple[tuple[str, str, str], ...]
    below: tuple[Pair, ...] = ()
    one: str
    other: str
    same: bool


class FarQuestion(Question, frozen=True, kw_only=True):
    """A question of an agent on another machine."""

    number: int
    reaches: list[str]
    asked: float
    left: float | None
    background: bool


class Tasks(TypedDict):
    tasks: list[Outcome]


class Sessions(TypedDict):
    sessions: list[Outcome]


class RewindPoints(TypedDict):
    points: list[RewindPoint]


class Deleted(TypedDict):
    deleted: list[str]


class Jobs(TypedDict):
    jobs: list[Job]


class Removed(TypedDict):
    removed: list[str]


class Exported(TypedDict):
    file: str
    lines: int


class Imported(TypedDict):
    task: Outcome
    warnings: list[str]


class Replayed(TypedDict):
    task: Outcome
    events: list[Event]
    same: bool


class Agents(TypedDict):
    agents: list[AgentLine]


class Linted(TypedDict):
    files: list[LintedFile]
    clashes: list[NameClash]


class Skills(TypedDict):
    skills: list[SkillLine]


class Models(TypedDict):
    main: ModelLine
    models: list[ModelLine]


class Tools(TypedDict):
    tools: list[ToolLine]
    servers: list[ServerReport]


class Questions(TypedDict):
    questions: list[FarQuestion]


class Replied(TypedDict):
    number: int
    allow: bool


class Trusted(TypedDict):
    folder: str
    state: str
    at: str


class TrustedFolders(TypedDict):
    folders: list[Trusted]


class Revoked(TypedDict):
    folder: str
    revoked: bool


class Health(TypedDict):
    healthy: bool
    version: str
    checks: list[Check]
    worktrees: list[LeftoverWorktree]


class Begun(TypedDict):
    worker: str
    database: str
    health: str


class Migrated(TypedDict):
    database: str
    before: int
    after: int
    backup: str | None


class Tour(TypedDict):
    question: str
    answer: Outcome
    tasks: list[Outcome]
    facts: int
    same: bool


class SharedToken(TypedDict):
    right: Literal["view", "act", "answer"]
    token: str


class Opened(TypedDict):
    """Where a server is asked, and with which tokens."""

    url: str
    token: str
    shared: list[SharedToken]


class Completions(TypedDict):
    shell: Literal["bash", "zsh", "fish"]
    script: str
