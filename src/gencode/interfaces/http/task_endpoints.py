"""Endpoints of the server: tasks as they are and were."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.outcome import PAGE, Outcome
from gencode.core.subsession_events import wire
from gencode.core.task import Task, replay
from gencode.interfaces.chat.task_controls import INTERRUPTED, STOPPED
from gencode.interfaces.http.endpoints import Asked, B, Endpoint, Nothing, Q, Site, endpoint
from gencode.interfaces.http.event_stream import EventStream
from gencode.interfaces.http.guard import Refused, Right
from gencode.interfaces.http.hub import Cursor, cursor_of, read_cursor
from gencode.interfaces.http.task_schemas import (
    AllFacts,
    AllWindow,
    AsOf,
    Bounds,
    Budgeted,
    Compared,
    Copy,
    Cut,
    End,
    Excerpt,
    Facts,
    Family,
    Hits,
    InterruptedTask,
    More,
    NewTask,
    OutputWish,
    Replay,
    Replaying,
    Said,
    StateFilter,
    StatePage,
    SteeredTask,
    StopAction,
    StoppedTask,
    StreamWish,
    TaskFilter,
    TaskOutput,
    TaskPage,
    TaskTranscript,
    TimesFilter,
    TimesPage,
    Window,
    widened,
)
from gencode.interfaces.http.task_states import as_others_see
from gencode.journal.global_log import LogEntry
from gencode.journal.store import TaskQuery
from gencode.tasks.fork import Fork

MOST_IN_TREE = 1000


def about_task(
    what: str,
    right: Right,
    says: str,
    *,
    answer: Any,
    query: type[Q] = Nothing,
    body: type[B] | None = None,
    status: int = 200,
) -> Callable[[Callable[[Site, Task, Asked[Q, B]], Awaitable[object]]], Endpoint]:
    """Make an endpoint of a function that takes the task of its path; `what` is its method and last word."""
    method, _, verb = what.partition(" ")
    path = f"{method} /api/tasks/{{id}}{f'/{verb}' if verb else ''}"

    def made(call: Callable[[Site, Task, Asked[Q, B]], Awaitable[object]]) -> Endpoint:
        @wraps(call)
        async def called(site: Site, asked: Asked[Q, B]) -> object:
            return await call(site, await site.gen.find(asked.path["id"]), asked)

        return endpoint(path, right, says, answer=answer, query=query, body=body, status=status)(called)

    return made


async def page_of(site: Site, query: TaskQuery, limit: int) -> tuple[list[Outcome], str | None]:
    """The newest tasks that match, newest first, and the one before which the next page begins."""
    page, following = await tasks_on(site, query, limit)
    return await site.gen.history.outcomes(page), following


async def tasks_on(site: Site, query: TaskQuery, limit: int) -> tuple[list[Task], str | None]:
    """The same as they were folded."""
    tasks = await site.gen.history.tasks(replace(query, limit=limit + 1))
    page = tasks[::-1][:limit]
    return page, page[-1].id if len(tasks) > limit else None


async def below(site: Site, root: Task) -> tuple[list[Task], int]:
    """A task and everything below it, up to so many, and how many more there are at least."""
    family = {root.id: root}
    waiting = [root.id]
    more = 0
    while waiting:
        for child in await site.gen.history.tasks(TaskQuery(parent=waiting.pop(0))):
            if child.id in family:
                continue
            if len(family) >= MOST_IN_TREE:
                more += 1
                continue
            family[child.id] = child
            waiting.append(child.id)
    return list(family.values()), more


@endpoint(
    "GET /api/tasks", "view", "The tasks, newest first, a page at a time", query=TaskFilter, answer=TaskPage
)
async def list_tasks(site: Site, asked: Asked[TaskFilter, Nothing]) -> TaskPage:
    wish = asked.query
    cursor = str(site.hub.cursor)
    query = TaskQuery(
        parent=wish.parent,
        roots=wish.roots,
        cwd=None if wish.all else str(site.gen.workspace.cwd),
        agent=wish.agent,
        conversations=wish.conversation,
        statuses=wish.status,
        before=wish.before,
    )
    return TaskPage(*await page_of(site, query, wish.limit), cursor)


@endpoint(
    "GET /api/states",
    "view",
    "The states of tasks, newest first, in the shape of the stream",
    query=StateFilter,
    answer=StatePage,
)
async def list_states(site: Site, asked: Asked[StateFilter, Nothing]) -> StatePage:
    wish = asked.query
    cursor = str(site.hub.cursor)
    following: str | None = None
    if wish.id:
        tasks = [await site.gen.find(each) for each in wish.id]
    else:
        cwd = None if wish.all else str(site.gen.workspace.cwd)
        tasks, following = await tasks_on(site, TaskQuery(cwd=cwd, before=wish.before), wish.limit)
    seen = zip(tasks, await site.gen.history.outcomes(tasks), strict=True)
    states = [as_others_see(site.hub.states.of(task), outcome) for task, outcome in seen]
    return StatePage(states, following, cursor)


@endpoint(
    "GET /api/times",
    "view",
    "When tasks were queued, worked, and waited for agents or for a person",
    query=TimesFilter,
    answer=TimesPage,
)
async def list_times(site: Site, asked: Asked[TimesFilter, Nothing]) -> TimesPage:
    tasks = [await site.gen.find(each) for each in asked.query.id]
    sent: defaultdict[str, set[str]] = defaultdict(set)
    if tasks:
        for child in await site.gen.history.tasks(TaskQuery(parents=tuple(task.id for task in tasks))):
            sent[child.parent or ""].add(child.created.call or "")
    open_since: defaultdict[str, list[str]] = defaultdict(list)
    for each in site.desk.waiting():
        open_since[each.question.task].append(stamp(datetime.fromtimestamp(each.since, UTC)))
    return TimesPage([await site.times.read(task.id, sent[task.id], open_since[task.id]) for task in tasks])


@about_task(
    "GET",
    "view",
    "One task, as it is or was after a fact; the beginning of its id is enough",
    query=AsOf,
    answer=Outcome,
)
async def get_task(site: Site, task: Task, asked: Asked[AsOf, Nothing]) -> Outcome:
    if asked.query.at is None:
        return await site.gen.history.outcome(task)
    found = await site.gen.history.events(task.id)
    then = replay(event for event in found if (event.seq or 0) <= asked.query.at)
    if then is None or then.seq != asked.query.at:
        raise Refused(404, f"Task {task.id} has no fact {asked.query.at}; its last one is {task.seq}.")
    return await site.gen.history.past_outcome(then)


@about_task("GET tree", "view", "A task and everything below it", answer=Family)
async def get_tree(site: Site, task: Task, asked: Asked[Nothing, Nothing]) -> Family:
    family, more = await below(site, task)
    return Family(await site.gen.history.outcomes(family), more)


@about_task(
    "GET output",
    "view",
    "The result of a task, or one page of it, once it has ended or the time is up",
    query=OutputWish,
    answer=TaskOutput,
)
async def get_output(site: Site, task: Task, asked: Asked[OutputWish, Nothing]) -> TaskOutput:
    wish = asked.query
    task = await site.gen.history.ended(task.id, wish.timeout / 1000 if wish.block else 0)
    outcome = await site.gen.history.outcome(task)
    pages = max(1, -(-len(outcome.result) // PAGE))
    if wish.page is None:
        return widened(TaskOutput, outcome)
    if wish.page > pages:
        raise Refused(404, f"There is no page {wish.page}; the result has {pages}.")
    part = outcome.result[(wish.page - 1) * PAGE : wish.page * PAGE]
    return widened(TaskOutput, replace(outcome, result=part), page=wish.page, pages=pages)


@about_task(
    "GET transcript",
    "view",
    "A task with its messages and the gate's decisions about their calls, a part at a time",
    query=Excerpt,
    answer=TaskTranscript,
)
async def get_transcript(site: Site, task: Task, asked: Asked[Excerpt, Nothing]) -> TaskTranscript:
    wish = asked.query
    shown = await site.gen.history.with_transcript(task)
    said: list[dict[str, Any]] = shown.transcript or []
    start = max(len(said) - wish.limit, 0) if wish.start is None else wish.start
    part = said[start : start + wish.limit]
    calls = {call["id"] for message in part for call in message.get("calls", ())}
    decided = [each for each in shown.decisions or [] if each["call"] in calls]
    outcome = replace(shown, transcript=part, decisions=decided)
    return widened(TaskTranscript, outcome, start=start, total=len(said))


@about_task("GET events", "view", "The facts of a task, a part at a time", query=Window, answer=Facts)
async def get_events(site: Site, task: Task, asked: Asked[Window, Nothing]) -> Facts:
    wish = asked.query
    if wish.after is not None and wish.before is not None:
        raise UserMistake("Say either after or before, not both.")
    if wish.before is not None:
        facts = await site.gen.history.log.before(task.id, wish.before, wish.limit)
    else:
        facts = await site.gen.history.log.of_task(task.id, wish.after or 0, most=wish.limit)
    return Facts(await _told(site, facts), task.seq)


@about_task(
    "GET replay",
    "view",
    "A task and everything below it again from the journal, without a model",
    query=Replaying,
    answer=Replay,
)
async def replay_task(site: Site, task: Task, asked: Asked[Replaying, Nothing]) -> Replay:
    wish = asked.query
    family, _ = await below(site, task)
    played = await site.gen.history.replayed(family)
    parents = {each.id: each.parent for each in family}
    part = played.events[wish.start : wish.start + wish.limit]
    return Replay(
        task=await site.gen.history.outcome(task),
        events=[wire(event, parents[event.task]) for event in part],
        total=len(played.events),
        same=played.same,
        compared=None if wish.against is None else await _compared(site, task, wish.against),
    )


async def _compared(site: Site, one: Task, against: str) -> Compared:
    other = await site.gen.find(against)
    found = await site.gen.difference(one.id, other.id)
    return Compared(other.id, found.same, found)


@about_task("GET hits", "view", "What a verb would hit at this moment", query=StopAction, answer=Hits)
async def get_hits(site: Site, task: Task, asked: Asked[StopAction, Nothing]) -> Hits:
    verb = asked.query.verb
    return Hits(await site.gen.hits(task.id, "stop" if verb == "abort" else verb))


@about_task(
    "GET stream",
    "view",
    "The facts of a task from its first one, or the one after Last-Event-ID, as they are written",
    query=StreamWish,
    answer=EventStream,
)
async def stream_task(site: Site, task: Task, asked: Asked[StreamWish, Nothing]) -> EventStream:
    after = _begins(asked)
    return _stream(site, asked, after, task.id)


@endpoint(
    "GET /api/stream",
    "view",
    "The facts of all tasks from now on, or those after Last-Event-ID, as they are written",
    query=StreamWish,
    answer=EventStream,
)
async def stream_all(site: Site, asked: Asked[StreamWish, Nothing]) -> EventStream:
    return _stream(site, asked, _begins(asked), "")


@endpoint(
    "GET /api/events",
    "view",
    "The facts of all tasks in the order of the commits, a part at a time",
    query=AllWindow,
    answer=AllFacts,
)
async def list_events(site: Site, asked: Asked[AllWindow, Nothing]) -> AllFacts:
    wish = asked.query
    if wish.after is None:
        return AllFacts([], str(site.hub.cursor), False)
    cursor = _cursor(wish.after)
    global_log = site.gen.history.log
    mark = await global_log.mark(cursor.task, cursor.seq) if cursor.task else None
    facts = await global_log.after(mark, most=wish.limit) if mark or not cursor.task else None
    if facts is None:
        raise Refused(410, f"The fact {cursor} is not there any more; begin anew, without after.")
    last = cursor_of(facts[-1].mark) if facts else cursor
    return AllFacts(await _told(site, facts), str(last), len(facts) == wish.limit)


async def _told(site: Site, facts: Sequence[LogEntry]) -> list[dict[str, Any]]:
    """Facts in the shape of the stream, without those that cannot be read."""
    return [wire(event, await site.hub.parents.of(event)) for _, event in facts if event is not None]


def _stream(site: Site, asked: Asked[StreamWish, Nothing], after: Cursor | None, task: str) -> EventStream:
    wish = asked.query
    global_log = site.gen.history.log
    return EventStream(site.hub, global_log, after, task, brief=wish.brief, states=wish.states)


def _begins(asked: Asked[StreamWish, Nothing]) -> Cursor | None:
    text = asked.headers.get("last-event-id") or asked.query.after
    return None if text is None else _cursor(text)


def _cursor(text: str) -> Cursor:
    cursor = read_cursor(text)
    if cursor is None:
        raise Refused(400, f"{text[:40]!r} is no id of an event; it is like 9f3a1c2e:17.")
    return cursor


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
    list_tasks,
    list_states,
    list_times,
    get_task,
    get_tree,
    get_output,
    get_transcript,
    get_events,
    replay_task,
    get_hits,
    stream_task,
    stream_all,
    list_events,
    start_task,
    stop_task,
    interrupt_task,
    send_to_task,
    resume_task,
    fork_task,
    send_to_background,
    set_task_budget,
)
