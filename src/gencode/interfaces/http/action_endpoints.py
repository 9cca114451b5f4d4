"""Endpoints of the server: work that is begun, spoken to, cut, sent on and ended."""

from typing import Any

from gencode.core.outcome import Outcome
from gencode.core.task import Task
from gencode.interfaces.chat.task_controls import INTERRUPTED, STOPPED
from gencode.interfaces.http.endpoints import Asked, Nothing, endpoint
from gencode.interfaces.http.server_state import Site
from gencode.interfaces.http.task_lookup import about_task
from gencode.interfaces.http.task_schemas import (
    Bounds,
    Budgeted,
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
from gencode.tasks.fork import Fork


@endpoint("POST /api/tasks", "act", "Send one agent", body=NewTask, answer=Outcome, status=201)
async def start_task(site: Site, asked: Asked[Nothing, NewTask]) -> Outcome:
    request = asked.body.request()
    if asked.body.detached:
        return await site.gen.detach(request)
    return await site.gen.outcome_of((await site.gen.start_task(request)).task)


@about_task(
    "POST stop",
    "act",
    "Stop a task and the work it waits for; what it said is kept",
    body=End,
    answer=StoppedTask,
)
async def stop_task(site: Site, task: Task, asked: Asked[Nothing, End]) -> StoppedTask:
    how = asked.body.how
    struck = await site.gen.stop(task.id, keep=how == "keep", tree=how == "tree", why=STOPPED)
    return widened(StoppedTask, struck, stopped=tuple(each.agent_id for each in struck.hit))


@about_task(
    "POST interrupt",
    "act",
    "Cut what a task does at this moment; it goes on from there, a conversation with what was said to it",
    body=Cut,
    answer=InterruptedTask,
)
async def interrupt_task(site: Site, task: Task, asked: Asked[Nothing, Cut]) -> InterruptedTask:
    by = site.inbox if task.conversation else site.gen
    struck = await by.interrupt(task.id, asked.body.message, why=INTERRUPTED)
    return widened(InterruptedTask, struck, interrupted=tuple(each.agent_id for each in struck.hit))


@about_task(
    "POST send",
    "act",
    "Say something to a task: a running one hears it before its next reply, another is woken by it",
    body=Said,
    answer=SteeredTask,
)
async def send_to_task(site: Site, task: Task, asked: Asked[Nothing, Said]) -> SteeredTask:
    if task.conversation:
        woken = await site.inbox.say(task.id, asked.body.message)
        return widened(SteeredTask, await site.gen.get(task.id), woken=woken)
    sent = await site.gen.send(task.id, asked.body.message, here=True)
    return widened(SteeredTask, sent.outcome, woken=sent.resumed)


@about_task(
    "POST resume",
    "act",
    "Go on with a task: the same agent, folder, transcript and permissions",
    body=More,
    answer=Outcome,
)
async def resume_task(site: Site, task: Task, asked: Asked[Nothing, More]) -> Outcome:
    job = await site.gen.start_resume(task.id, asked.body.request(resume=task.id))
    return await site.gen.outcome_of(job.task)


@about_task(
    "POST fork",
    "act",
    "Begin a new task with what another one knew at some point",
    body=Copy,
    answer=Outcome,
    status=201,
)
async def fork_task(site: Site, task: Task, asked: Asked[Nothing, Copy]) -> Outcome:
    return await site.gen.fork_in_background(task.id, Fork(asked.body.at), asked.body.request())


@about_task(
    "POST background",
    "act",
    "Let the agent that waits for a task go on without it",
    body=Nothing,
    answer=Outcome,
)
async def send_to_background(site: Site, task: Task, asked: Asked[Nothing, Any]) -> Outcome:
    return await site.gen.send_to_background(task.id)


@about_task(
    "PUT budget",
    "act",
    "Let a task spend another budget from now on, never more than is left above it",
    body=Bounds,
    answer=Budgeted,
)
async def set_task_budget(site: Site, task: Task, asked: Asked[Nothing, Bounds]) -> Budgeted:
    asked.needs("answer")
    now = await site.gen.set_budget(task.id, asked.body.budget())
    return Budgeted(task.id, now, await site.gen.history.spent(task.id))


ENDPOINTS = (
    *(start_task, stop_task, interrupt_task, send_to_task, resume_task, fork_task, send_to_background),
    set_task_budget,
)
