"""Endpoints of the server: work that is begun, spoken to, cut, sent on and ended."""

from typing import Any

from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.spec import TaskRequest
from gencode.core.task import Task
from gencode.delegation.forks import Fork
from gencode.surfaces.http.endpoints import Asked, Nothing, endpoint
from gencode.surfaces.http.shapes import (
    Copy,
    Cut,
    End,
    InterruptedTask,
    More,
    NewTask,
    Said,
    SteeredTask,
    StoppedTask,
    widened,
)
from gencode.surfaces.http.site import Site
from gencode.surfaces.http.tasks import found

FILES = ("scripted:", "local/")
STOPPED = "a person stopped it"
INTERRUPTED = "a person interrupted it"


@endpoint("POST /api/tasks", "act", "Send one agent", body=NewTask, answer=Outcome, status=201)
async def start_task(site: Site, asked: Asked[Nothing, NewTask]) -> Outcome:
    wish = asked.body
    request = TaskRequest(
        agent=wish.agent,
        prompt=wish.prompt,
        description=wish.description,
        model=_model(wish.model),
        max_turns=wish.max_turns,
        background=wish.background,
        isolation=wish.isolation,
        output_schema=wish.output_schema,
        budget=wish.budget.budget(),
    )
    if wish.detached:
        return await site.gen.detach(request)
    return await site.gen.outcome_of((await site.gen.start_task(request)).task)


@endpoint(
    "POST /api/tasks/{id}/stop",
    "act",
    "Stop a task and the work it waits for; what it said is kept",
    body=End,
    answer=StoppedTask,
)
async def stop_task(site: Site, asked: Asked[Nothing, End]) -> StoppedTask:
    task = await found(site, asked)
    how = asked.body.how
    stops = await site.gen.launcher.reach.stop(task.id, STOPPED, tree=how == "tree", report=how == "keep")
    outcome = await site.gen.records.get(stops.task)
    return widened(StoppedTask, outcome, stopped=tuple(each.id for each in stops.hit))


@endpoint(
    "POST /api/tasks/{id}/interrupt",
    "act",
    "Cut what a task does at this moment; it goes on from there",
    body=Cut,
    answer=InterruptedTask,
)
async def interrupt_task(site: Site, asked: Asked[Nothing, Cut]) -> InterruptedTask:
    task = await found(site, asked)
    stops = await site.gen.launcher.reach.interrupt(task.id, INTERRUPTED, asked.body.message)
    outcome = await site.gen.outcome_of(stops.task)
    return widened(InterruptedTask, outcome, interrupted=tuple(each.id for each in stops.hit))


@endpoint(
    "POST /api/tasks/{id}/send",
    "act",
    "Say something to a task: a running one hears it before its next reply, another is woken by it",
    body=Said,
    answer=SteeredTask,
)
async def send_to_task(site: Site, asked: Asked[Nothing, Said]) -> SteeredTask:
    task = await found(site, asked)
    if task.conversation:
        woken = await site.inbox.say(task.id, asked.body.message)
        return widened(SteeredTask, await site.gen.get(task.id), woken=woken)
    now, woken = await _steered(site, task, asked.body.message)
    return widened(SteeredTask, await site.gen.outcome_of(now), woken=woken)


async def _steered(site: Site, task: Task, message: str) -> tuple[Task, bool]:
    """Say something to an agent; one of this folder that has ended goes on here, where it can be watched."""
    now = await site.gen.launcher.reach.send(task.id, message)
    if not now.status.ended:
        return now, False
    job = await site.gen.work.resume(task.id, TaskRequest("", "", resume=task.id, background=task.background))
    return job.task, True


@endpoint(
    "POST /api/tasks/{id}/resume",
    "act",
    "Go on with a task: the same agent, folder, transcript and permissions",
    body=More,
    answer=Outcome,
)
async def resume_task(site: Site, asked: Asked[Nothing, More]) -> Outcome:
    wish = asked.body
    task = await found(site, asked)
    request = TaskRequest(
        agent="",
        prompt=wish.prompt,
        model=_model(wish.model),
        max_turns=wish.max_turns,
        resume=task.id,
        budget=wish.budget.budget(),
    )
    return await site.gen.outcome_of((await site.gen.start_resume(task.id, request)).task)


@endpoint(
    "POST /api/tasks/{id}/fork",
    "act",
    "Begin a new task with what another one knew at some point",
    body=Copy,
    answer=Outcome,
    status=201,
)
async def fork_task(site: Site, asked: Asked[Nothing, Copy]) -> Outcome:
    wish = asked.body
    task = await found(site, asked)
    request = TaskRequest(
        agent="",
        prompt=wish.prompt,
        description=wish.description,
        model=_model(wish.model),
        max_turns=wish.max_turns,
        output_schema=wish.output_schema,
        budget=wish.budget.budget(),
    )
    job = await site.gen.work.fork(task.id, Fork(wish.at), request)
    return await site.gen.outcome_of(job.task)


@endpoint(
    "POST /api/tasks/{id}/background",
    "act",
    "Let the agent that waits for a task go on without it",
    body=Nothing,
    answer=Outcome,
)
async def send_to_background(site: Site, asked: Asked[Nothing, Any]) -> Outcome:
    task = await found(site, asked)
    return await site.gen.records.get(await site.gen.launcher.reach.send_back(task.id))


def _model(name: str) -> str:
    """A model that was named; none that would be a file of this machine."""
    if name.strip().casefold().startswith(FILES):
        raise UserMistake("A model that is a file cannot be named over HTTP; start gen serve with it.")
    return name


ENDPOINTS = (
    *(start_task, stop_task, interrupt_task, send_to_task, resume_task, fork_task, send_to_background),
)
