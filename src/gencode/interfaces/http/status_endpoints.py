"""Endpoints of the server: how it is, which models and tools there are, and what was spent."""

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
from gencode.core.status import Status
from gencode.interfaces.chat.model_info import ModelLine, main_model
from gencode.interfaces.http.endpoints import Asked, Name, Nothing, Site, endpoint
from gencode.interfaces.http.guard import RIGHTS, Right
from gencode.interfaces.http.task_schemas import Bounds


class Health(Struct, frozen=True, rename="camel"):
    """How the server is, and what whoever asks may do."""

    status: str
    version: str
    workspace: str
    trusted: str
    model: str
    rights: list[Right]
    running: int
    streams: int
    questions: int
    cursor: str


class Models(Struct, frozen=True):
    """The model that leads conversations, and what every name stands for."""

    main: ModelLine
    models: list[ModelLine]


class ToolLine(Struct, frozen=True, rename="camel"):
    """One tool: what it may do, where it comes from, and what it takes."""

    name: str
    aliases: list[str]
    effect: str
    source: str
    on_request: bool
    description: str
    parameters: dict[str, Any]


class Tools(Struct, frozen=True):
    """Every tool there is."""

    tools: list[ToolLine]


class UsageWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Over how many hours back, in pieces of how many minutes; or what one task and all below it spent."""

    hours: Annotated[int, Meta(ge=1, le=24 * 31)] = 24
    minutes: Annotated[int, Meta(ge=1, le=1440)] = 10
    all: bool = False
    task: Name | None = None


class Piece(Struct, frozen=True):
    """What the models of all agents used in a piece of time that began at `since`."""

    since: str
    usage: Usage


class Spending(Struct, frozen=True):
    """What may be spent by each conversation, what was, by pieces of time, and how many tasks there are.

    `spent` is that of the one task that was asked for.
    """

    budget: Budget
    total: Usage
    pieces: list[Piece]
    tasks: dict[Status, int]
    spent: Spent | None = None


class Allowed(Struct, frozen=True):
    """What each conversation may spend from now on, and how long the server knows that.

    A conversation whose next turn has begun keeps its budget; settings bound those after a restart.
    """

    budget: Budget
    lasts: Literal["until the server ends"] = "until the server ends"


@endpoint("GET /api/health", "view", "How the server is, and what this token may do", answer=Health)
async def get_health(site: Site, asked: Asked[Nothing, Nothing]) -> Health:
    gen = site.gen
    return Health(
        status="ok",
        version=__version__,
        workspace=str(gen.workspace.cwd),
        trusted=gen.project.state,
        model=gen.model.name,
        rights=[right for right in RIGHTS if right in asked.rights],
        running=len(gen.running),
        streams=len(site.hub),
        questions=len(site.desk.waiting()),
        cursor=str(site.hub.cursor),
    )


@endpoint("GET /api/models", "view", "The models, and how names resolve", answer=Models)
async def list_models(site: Site, asked: Asked[Nothing, Nothing]) -> Models:
    return Models(main_model(site.gen), [_model(site.gen, name) for name in site.gen.models.names()])


@endpoint("GET /api/tools", "view", "The tools", answer=Tools)
async def list_tools(site: Site, asked: Asked[Nothing, Nothing]) -> Tools:
    return Tools(
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
            for tool in site.gen.toolbox.values()
        ]
    )


@endpoint("GET /api/usage", "view", "What was spent, and what may be", query=UsageWish, answer=Spending)
async def get_usage(site: Site, asked: Asked[UsageWish, Nothing]) -> Spending:
    wish = asked.query
    cwd = None if wish.all else str(site.gen.workspace.cwd)
    since = stamp(datetime.now(UTC) - timedelta(hours=wish.hours))
    pieces = _pieces(await site.gen.history.log.spent(since, cwd), wish.minutes * 60)
    counts = await site.gen.history.log.counts(cwd)
    task = None if wish.task is None else await site.gen.find(wish.task)
    return Spending(
        budget=site.gen.budgets.default,
        total=sum((piece.usage for piece in pieces), start=Usage()),
        pieces=pieces,
        tasks={status: counts.get(status, 0) for status in Status},
        spent=None if task is None else await site.gen.history.spent(task.id),
    )


@endpoint(
    "PUT /api/budget",
    "act",
    "Bound what each conversation may spend, also those at work, until the server ends",
    body=Bounds,
    answer=Allowed,
)
async def set_budget(site: Site, asked: Asked[Nothing, Bounds]) -> Allowed:
    asked.needs("answer")
    budget = asked.body.budget()
    check_budget(budget)
    await site.gen.budgets.set_all(budget)
    return Allowed(budget)


def _pieces(minutes: Iterable[tuple[str, Usage]], seconds: int) -> list[Piece]:
    """What was used minute by minute, in pieces of so many seconds."""
    sums: defaultdict[int, Usage] = defaultdict(Usage)
    for minute, usage in minutes:
        with suppress(ValueError):  # a hand may have been in the file
            at = datetime.fromisoformat(f"{minute}:00+00:00")
            sums[int(at.timestamp()) // seconds * seconds] += usage
    return [Piece(stamp(datetime.fromtimestamp(begun, UTC)), used) for begun, used in sorted(sums.items())]


def _model(gen: GenCode, name: str) -> ModelLine:
    """What a name stands for, if it stands for anything by itself."""
    about = gen.models.about(name.removesuffix("/MODEL")) if name.endswith("/MODEL") else ""
    if about or name in ("inherit", "scripted:FILE"):
        return ModelLine(name, None, about or "stands for no model by itself")
    try:
        model = gen.models.resolve(name).name
    except UserMistake as mistake:
        return ModelLine(name, None, str(mistake))
    return ModelLine(name, model, "", gen.models.price(model))


ENDPOINTS = (get_health, list_models, list_tools, get_usage, set_budget)
