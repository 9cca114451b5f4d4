"""Endpoints for health, models, tools, usage and the budget of conversations."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gencode import __version__
from gencode.app import GenCode
from gencode.budgets.limits import Spent, check_budget
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.messages import Usage
from gencode.core.rules import Mode
from gencode.core.status import Status
from gencode.interfaces.chat.model_info import ModelLine, main_model
from gencode.interfaces.http.endpoints import ApiRequest, Name, Nothing, ServerContext, endpoint
from gencode.interfaces.http.guard import RIGHTS, Right
from gencode.interfaces.http.task_schemas import BudgetLimits, check_model


class Health(Struct, frozen=True, rename="camel"):
    """The state of the server, and the rights of the token."""

    status: str
    version: str
    workspace: str
    trusted: str
    model: str
    mode: Mode
    rights: list[Right]
    running: int
    streams: int
    questions: int
    cursor: str


class SessionChoice(Struct, frozen=True, forbid_unknown_fields=True):
    """The model of all conversations from the next turn on, and the permission mode of all agents."""

    model: Name | None = None
    mode: Mode | None = None


class ChosenSession(Struct, frozen=True):
    """What counts until the server ends."""

    model: str
    mode: Mode


class ModelsPage(Struct, frozen=True):
    """The model of the main agent, and what every model name stands for."""

    main: ModelLine
    models: list[ModelLine]


class ToolLine(Struct, frozen=True, rename="camel"):
    """A tool: its effect, source and parameters."""

    name: str
    aliases: list[str]
    effect: str
    source: str
    on_request: bool
    description: str
    parameters: dict[str, Any]


class ToolsPage(Struct, frozen=True):
    """All tools."""

    tools: list[ToolLine]


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The last hours, in periods of so many minutes; or one task with its subagents."""

    hours: Annotated[int, Meta(ge=1, le=24 * 31)] = 24
    minutes: Annotated[int, Meta(ge=1, le=1440)] = 10
    all: bool = False
    task: Name | None = None


class UsagePeriod(Struct, frozen=True):
    """What all agents used in a period that began at `since`."""

    since: str
    usage: Usage


class Spending(Struct, frozen=True):
    """What may be spent by each conversation, what was, by pieces of time, and how many tasks there are.

    `spent` is that of the one task that was asked for.
    """

    budget: Budget
    total: Usage
    pieces: list[UsagePeriod]
    tasks: dict[Status, int]
    spent: Spent | None = None


class ConversationBudget(Struct, frozen=True):
    """What each conversation may spend from now on, and how long the server knows that.

    A conversation whose next turn has begun keeps its budget; settings bound those after a restart.
    """

    budget: Budget
    lasts: Literal["until the server ends"] = "until the server ends"


@endpoint("GET /api/health", "view", "Get the state of the server and the rights of the token", answer=Health)
async def get_health(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> Health:
    gen = context.gen
    return Health(
        status="ok",
        version=__version__,
        workspace=str(gen.workspace.cwd),
        trusted=gen.project.state,
        model=gen.model.name,
        mode=gen.policy.mode,
        rights=[right for right in RIGHTS if right in request.rights],
        running=len(gen.running),
        streams=len(context.hub),
        questions=len(context.desk.waiting()),
        cursor=str(context.hub.cursor),
    )


@endpoint(
    "PUT /api/session",
    "act",
    "Choose the model of conversations or the permission mode, until the server ends",
    body=SessionChoice,
    answer=ChosenSession,
)
async def choose_session(
    context: ServerContext, request: ApiRequest[Nothing, SessionChoice]
) -> ChosenSession:
    gen, chosen = context.gen, request.body
    if chosen.mode is not None:
        request.needs("answer")
    if chosen.model is not None:
        check_model(chosen.model)
        gen.models.use(chosen.model)
    if chosen.mode is not None:
        gen.switch_mode(chosen.mode)
    return ChosenSession(gen.model.name, gen.policy.mode)


@endpoint("GET /api/models", "view", "List models, and how names resolve", answer=ModelsPage)
async def list_models(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> ModelsPage:
    return ModelsPage(
        main_model(context.gen), [_model(context.gen, name) for name in context.gen.models.names()]
    )


@endpoint("GET /api/tools", "view", "List tools", answer=ToolsPage)
async def list_tools(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> ToolsPage:
    return ToolsPage(
        [
            ToolLine(
                name=tool.name,
                aliases=list(tool.aliases),
                effect=tool.effect,
                source=tool.source,
                on_request=tool.on_request,
                description=tool.description,
                parameters=tool.schema,
            )
            for tool in context.gen.toolbox.values()
        ]
    )


@endpoint("GET /api/usage", "view", "Get usage over time, and the budget", query=UsageQuery, answer=Spending)
async def get_usage(context: ServerContext, request: ApiRequest[UsageQuery, Nothing]) -> Spending:
    wanted = request.query
    cwd = request.folder(context, every=wanted.all)
    since = stamp(datetime.now(UTC) - timedelta(hours=wanted.hours))
    pieces = _pieces(await context.gen.history.log.spent(since, cwd), wanted.minutes * 60)
    counts = await context.gen.history.log.counts(cwd)
    task = None if wanted.task is None else await request.find(context, wanted.task)
    return Spending(
        budget=context.gen.budgets.default,
        total=sum((piece.usage for piece in pieces), start=Usage()),
        pieces=pieces,
        tasks={status: counts.get(status, 0) for status in Status},
        spent=None if task is None else await context.gen.history.spent(task.id),
    )


@endpoint(
    "PUT /api/budget",
    "act",
    "Set the budget of every conversation, also of running ones, until the server stops",
    body=BudgetLimits,
    answer=ConversationBudget,
)
async def set_budget(
    context: ServerContext, request: ApiRequest[Nothing, BudgetLimits]
) -> ConversationBudget:
    request.needs("answer")
    budget = request.body.budget()
    check_budget(budget)
    await context.gen.budgets.set_all(budget)
    return ConversationBudget(budget)


def _pieces(minutes: Iterable[tuple[str, Usage]], seconds: int) -> list[UsagePeriod]:
    """What was used per minute, in periods of so many seconds."""
    sums: defaultdict[int, Usage] = defaultdict(Usage)
    for minute, usage in minutes:
        with suppress(ValueError):  # a hand may have been in the file
            at = datetime.fromisoformat(f"{minute}:00+00:00")
            sums[int(at.timestamp()) // seconds * seconds] += usage
    return [
        UsagePeriod(stamp(datetime.fromtimestamp(begun, UTC)), used) for begun, used in sorted(sums.items())
    ]


def _model(gen: GenCode, name: str) -> ModelLine:
    """What a model name stands for, if it stands for a model by itself."""
    about = gen.models.about(name.removesuffix("/MODEL")) if name.endswith("/MODEL") else ""
    if about or name in ("inherit", "scripted:FILE"):
        return ModelLine(name, None, about or "is not a model by itself")
    try:
        model = gen.models.resolve(name).name
    except UserMistake as mistake:
        return ModelLine(name, None, str(mistake))
    return ModelLine(name, model, "", gen.models.price(model))


ENDPOINTS = (get_health, choose_session, list_models, list_tools, get_usage, set_budget)
