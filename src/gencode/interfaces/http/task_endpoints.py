"""Endpoints for tasks: lists, states, transcripts, events and streams, and everything that acts on a task."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from gencode.core.errors import UserMistake
from gencode.core.ids import stamp
from gencode.core.outcome import PAGE, Outcome
from gencode.core.structs import replace
from gencode.core.subsession_events import lineage_of, wire
from gencode.core.task import Task, replay
from gencode.interfaces.chat.task_controls import (
    INTERRUPTED,
    STOPPED,
    InterruptedTask,
    SteeredTask,
    StoppedTask,
    widened,
)
from gencode.interfaces.http.endpoints import ApiRequest, B, Endpoint, Nothing, Q, ServerContext, endpoint
from gencode.interfaces.http.event_stream import EventStream
from gencode.interfaces.http.guard import HttpRefusal, Right
from gencode.interfaces.http.hub import Cursor, cursor_of, read_cursor
from gencode.interfaces.http.task_schemas import (
    ActionQuery,
    AffectedTasks,
    AllEventsPage,
    AllEventsQuery,
    BudgetLimits,
    BudgetReport,
    Compared,
    EventPage,
    EventQuery,
    ForkRequest,
    InterruptRequest,
    MessageRequest,
    OutputQuery,
    PromptPage,
    ReplayedTask,
    ReplayQuery,
    ResumeRequest,
    RewindRequest,
    RewindTarget,
    StartRequest,
    StateFilter,
    StatePage,
    StopRequest,
    StreamQuery,
    TaskAt,
    TaskFilter,
    TaskOutput,
    TaskPage,
    TaskSubtree,
    TaskTranscript,
    TimesFilter,
    TimesPage,
    TranscriptQuery,
)
from gencode.interfaces.http.task_states import as_others_see
from gencode.journal.global_log import LogEntry
from gencode.journal.store import TaskQuery
from gencode.tasks.fork import Fork
from gencode.tasks.rewind import RewindPreview, Rewound

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
) -> Callable[[Callable[[ServerContext, Task, ApiRequest[Q, B]], Awaitable[object]]], Endpoint]:
    """Make an endpoint of a function that takes the task of its path; `what` is method and last segment."""
    method, _, verb = what.partition(" ")
    path = f"{method} /api/tasks/{{id}}{f'/{verb}' if verb else ''}"

    def made(call: Callable[[ServerContext, Task, ApiRequest[Q, B]], Awaitable[object]]) -> Endpoint:
        @wraps(call)
        async def called(context: ServerContext, request: ApiRequest[Q, B]) -> object:
            return await call(context, await request.find(context, request.path["id"]), request)

        return endpoint(path, right, says, answer=answer, query=query, body=body, status=status)(called)

    return made


async def page_of(context: ServerContext, query: TaskQuery, limit: int) -> tuple[list[Outcome], str | None]:
    """A page of matching tasks, newest first, and the id before which the next page begins."""
    page, following = await tasks_on(context, query, limit)
    return await context.gen.history.outcomes(page), following


async def tasks_on(context: ServerContext, query: TaskQuery, limit: int) -> tuple[list[Task], str | None]:
    """The same as folded tasks."""
    tasks = await context.gen.history.tasks(replace(query, limit=limit + 1))
    page = tasks[::-1][:limit]
    return page, page[-1].id if len(tasks) > limit else None


async def below(context: ServerContext, root: Task) -> tuple[list[Task], int]:
    """A task and its subagents, up to a limit, and at least how many more there are."""
    family = {root.id: root}
    waiting = [root.id]
    more = 0
    while waiting:
        for child in await context.gen.history.tasks(TaskQuery(parent=waiting.pop(0))):
            if child.id in family:
                continue
            if len(family) >= MOST_IN_TREE:
                more += 1
                continue
            family[child.id] = child
            waiting.append(child.id)
    return list(family.values()), more


@endpoint("GET /api/tasks", "view", "List tasks, newest first", query=TaskFilter, answer=TaskPage)
async def list_tasks(context: ServerContext, request: ApiRequest[TaskFilter, Nothing]) -> TaskPage:
    wanted = request.query
    cursor = str(context.hub.cursor)
    query = TaskQuery(
        parent=wanted.parent,
        roots=wanted.roots,
        cwd=request.folder(context, every=wanted.all),
        agent=wanted.agent,
        conversations=wanted.conversation,
        statuses=wanted.status,
        before=wanted.before,
    )
    return TaskPage(*await page_of(context, query, wanted.limit), cursor)


@endpoint(
    "GET /api/states",
    "view",
    "List the states of tasks, newest first, in the shape of the stream",
    query=StateFilter,
    answer=StatePage,
)
async def list_states(context: ServerContext, request: ApiRequest[StateFilter, Nothing]) -> StatePage:
    wanted = request.query
    cursor = str(context.hub.cursor)
    following: str | None = None
    if wanted.id:
        tasks = [await request.find(context, each) for each in wanted.id]
    else:
        cwd = request.folder(context, every=wanted.all)
        tasks, following = await tasks_on(context, TaskQuery(cwd=cwd, before=wanted.before), wanted.limit)
    seen = zip(tasks, await context.gen.history.outcomes(tasks), strict=True)
    states = [as_others_see(context.hub.states.of(task), outcome) for task, outcome in seen]
    return StatePage(states, following, cursor)


@endpoint(
    "GET /api/times",
    "view",
    "List when tasks were queued, worked, and waited for agents or for a person",
    query=TimesFilter,
    answer=TimesPage,
)
async def list_times(context: ServerContext, request: ApiRequest[TimesFilter, Nothing]) -> TimesPage:
    tasks = [await request.find(context, each) for each in request.query.id]
    sent: defaultdict[str, set[str]] = defaultdict(set)
    if tasks:
        for child in await context.gen.history.tasks(TaskQuery(parents=tuple(task.id for task in tasks))):
            sent[child.parent or ""].add(child.created.call or "")
    open_since: defaultdict[str, list[str]] = defaultdict(list)
    for each in context.desk.waiting():
        open_since[each.question.task].append(stamp(datetime.fromtimestamp(each.since, UTC)))
    return TimesPage(
        [await context.times.read(task.id, sent[task.id], open_since[task.id]) for task in tasks]
    )


@about_task(
    "GET",
    "view",
    "Get a task, as it is or was after an event; the beginning of its id is enough",
    query=TaskAt,
    answer=Outcome,
)
async def get_task(context: ServerContext, task: Task, request: ApiRequest[TaskAt, Nothing]) -> Outcome:
    if request.query.at is None:
        return await context.gen.history.outcome(task)
    found = await context.gen.history.events(task.id)
    then = replay(event for event in found if (event.seq or 0) <= request.query.at)
    if then is None or then.seq != request.query.at:
        raise HttpRefusal(404, f"Task {task.id} has no event {request.query.at}; its last one is {task.seq}.")
    return await context.gen.history.past_outcome(then)


@about_task("GET tree", "view", "Get a task and its subagents", answer=TaskSubtree)
async def get_tree(context: ServerContext, task: Task, request: ApiRequest[Nothing, Nothing]) -> TaskSubtree:
    family, more = await below(context, task)
    return TaskSubtree(await context.gen.history.outcomes(family), more)


@about_task(
    "GET output",
    "view",
    "Get the result of a task, or one page of it; optionally wait for its end",
    query=OutputQuery,
    answer=TaskOutput,
)
async def get_output(
    context: ServerContext, task: Task, request: ApiRequest[OutputQuery, Nothing]
) -> TaskOutput:
    wanted = request.query
    task = await context.gen.history.ended(task.id, wanted.timeout / 1000 if wanted.block else 0)
    outcome = await context.gen.history.outcome(task)
    pages = max(1, -(-len(outcome.result) // PAGE))
    if wanted.page is None:
        return widened(TaskOutput, outcome)
    if wanted.page > pages:
        raise HttpRefusal(404, f"There is no page {wanted.page}; the result has {pages}.")
    part = outcome.result[(wanted.page - 1) * PAGE : wanted.page * PAGE]
    return widened(TaskOutput, replace(outcome, result=part), page=wanted.page, pages=pages)


@about_task(
    "GET transcript",
    "view",
    "Get the messages of a task and the decisions about their calls",
    query=TranscriptQuery,
    answer=TaskTranscript,
)
async def get_transcript(
    context: ServerContext, task: Task, request: ApiRequest[TranscriptQuery, Nothing]
) -> TaskTranscript:
    wanted = request.query
    shown = await context.gen.history.with_transcript(task)
    said: list[dict[str, Any]] = shown.transcript or []
    start = max(len(said) - wanted.limit, 0) if wanted.start is None else wanted.start
    part = said[start : start + wanted.limit]
    calls = {call["id"] for message in part for call in message.get("calls", ())}
    decided = [each for each in shown.decisions or [] if each["call"] in calls]
    outcome = replace(shown, transcript=part, decisions=decided)
    return widened(TaskTranscript, outcome, start=start, total=len(said))


@about_task("GET events", "view", "List the events of a task", query=EventQuery, answer=EventPage)
async def get_events(
    context: ServerContext, task: Task, request: ApiRequest[EventQuery, Nothing]
) -> EventPage:
    wanted = request.query
    if wanted.after is not None and wanted.before is not None:
        raise UserMistake("Use either after or before, not both.")
    if wanted.before is not None:
        facts = await context.gen.history.log.before(task.id, wanted.before, wanted.limit)
    else:
        facts = await context.gen.history.log.of_task(task.id, wanted.after or 0, most=wanted.limit)
    return EventPage(await _told(context, facts, everywhere=True), task.seq)


@about_task(
    "GET replay",
    "view",
    "Replay a task and its subagents from the journal, without a model",
    query=ReplayQuery,
    answer=ReplayedTask,
)
async def replay_task(
    context: ServerContext, task: Task, request: ApiRequest[ReplayQuery, Nothing]
) -> ReplayedTask:
    wanted = request.query
    family, _ = await below(context, task)
    played = await context.gen.history.replayed(family)
    lineages = {each.id: lineage_of(each) for each in family}
    part = played.events[wanted.start : wanted.start + wanted.limit]
    return ReplayedTask(
        task=await context.gen.history.outcome(task),
        events=[wire(event, lineages[event.task]) for event in part],
        total=len(played.events),
        same=played.same,
        compared=None if wanted.against is None else await _compared(context, request, task, wanted.against),
    )


async def _compared(
    context: ServerContext, request: ApiRequest[ReplayQuery, Nothing], one: Task, against: str
) -> Compared:
    other = await request.find(context, against)
    found = await context.gen.difference(one.id, other.id)
    return Compared(other.id, found.same, found)


@about_task(
    "GET hits",
    "view",
    "List the tasks that an action would affect now",
    query=ActionQuery,
    answer=AffectedTasks,
)
async def get_hits(
    context: ServerContext, task: Task, request: ApiRequest[ActionQuery, Nothing]
) -> AffectedTasks:
    verb = request.query.verb
    return AffectedTasks(await context.gen.affected(task.id, "stop" if verb == "abort" else verb))


@about_task(
    "GET stream",
    "view",
    "Stream the events of a task, from the first or after Last-Event-ID",
    query=StreamQuery,
    answer=EventStream,
)
async def stream_task(
    context: ServerContext, task: Task, request: ApiRequest[StreamQuery, Nothing]
) -> EventStream:
    after = _begins(request)
    return _stream(context, request, after, task.id)


@endpoint(
    "GET /api/stream",
    "view",
    "Stream the events of all tasks, from now on or after Last-Event-ID",
    query=StreamQuery,
    answer=EventStream,
)
async def stream_all(context: ServerContext, request: ApiRequest[StreamQuery, Nothing]) -> EventStream:
    return _stream(context, request, _begins(request), "")


@endpoint(
    "GET /api/events",
    "view",
    "List the events of all tasks in the order of the commits",
    query=AllEventsQuery,
    answer=AllEventsPage,
)
async def list_events(context: ServerContext, request: ApiRequest[AllEventsQuery, Nothing]) -> AllEventsPage:
    wanted = request.query
    if wanted.after is None:
        return AllEventsPage([], str(context.hub.cursor), False)
    cursor = _cursor(wanted.after)
    global_log = context.gen.history.log
    mark = await global_log.mark(cursor.task, cursor.seq) if cursor.task else None
    facts = await global_log.after(mark, most=wanted.limit) if mark or not cursor.task else None
    if facts is None:
        raise HttpRefusal(410, f"The event {cursor} was deleted. Start again without after.")
    last = cursor_of(facts[-1].mark) if facts else cursor
    told = await _told(context, facts, everywhere=request.everywhere)
    return AllEventsPage(told, str(last), len(facts) == wanted.limit)


async def _told(
    context: ServerContext, facts: Sequence[LogEntry], *, everywhere: bool
) -> list[dict[str, Any]]:
    """Events in the shape of the stream, without those that cannot be read."""
    return [wire(event, of) for event, of in await context.hub.places.told(facts, everywhere=everywhere)]


def _stream(
    context: ServerContext, request: ApiRequest[StreamQuery, Nothing], after: Cursor | None, task: str
) -> EventStream:
    wanted = request.query
    global_log = context.gen.history.log
    return EventStream(
        context.hub,
        global_log,
        after,
        task,
        brief=wanted.brief,
        states=wanted.states,
        everywhere=request.everywhere,
    )


def _begins(request: ApiRequest[StreamQuery, Nothing]) -> Cursor | None:
    text = request.headers.get("last-event-id") or request.query.after
    return None if text is None else _cursor(text)


def _cursor(text: str) -> Cursor:
    cursor = read_cursor(text)
    if cursor is None:
        raise HttpRefusal(400, f"{text[:40]!r} is not the id of an event, such as 9f3a1c2e:17.")
    return cursor


@endpoint("POST /api/tasks", "act", "Start a task", body=StartRequest, answer=Outcome, status=201)
async def start_task(context: ServerContext, request: ApiRequest[Nothing, StartRequest]) -> Outcome:
    wanted = request.body.request()
    if request.body.detached:
        return await context.gen.detach(wanted)
    return await context.gen.outcome_of((await context.gen.start_task(wanted)).task)


@about_task(
    "POST stop",
    "act",
    "Stop a task and the subagents it waits for; what it said is kept",
    body=StopRequest,
    answer=StoppedTask,
)
async def stop_task(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, StopRequest]
) -> StoppedTask:
    how = request.body.how
    result = await context.gen.stop(task.id, keep=how == "keep", tree=how == "tree", why=STOPPED)
    return widened(StoppedTask, result, stopped=tuple(each.agent_id for each in result.affected))


@about_task(
    "POST interrupt",
    "act",
    "Interrupt the current step of a task, which continues from there; or the turn of a conversation",
    body=InterruptRequest,
    answer=InterruptedTask,
)
async def interrupt_task(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, InterruptRequest]
) -> InterruptedTask:
    by = context.inbox if task.conversation else context.gen
    result = await by.interrupt(task.id, request.body.message, why=INTERRUPTED)
    return widened(InterruptedTask, result, interrupted=tuple(each.agent_id for each in result.affected))


@about_task(
    "POST send",
    "act",
    "Send a message to a task: a running one reads it before its next reply, a finished one is resumed",
    body=MessageRequest,
    answer=SteeredTask,
)
async def send_to_task(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, MessageRequest]
) -> SteeredTask:
    if task.conversation:
        woken = await context.inbox.say(task.id, request.body.message)
        return widened(SteeredTask, await context.gen.get(task.id), woken=woken)
    sent = await context.gen.send(task.id, request.body.message, here=True)
    return widened(SteeredTask, sent.outcome, woken=sent.resumed)


@about_task(
    "POST resume",
    "act",
    "Resume a task with the same agent, folder, transcript and permissions",
    body=ResumeRequest,
    answer=Outcome,
)
async def resume_task(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, ResumeRequest]
) -> Outcome:
    job = await context.gen.start_resume(task.id, request.body.request(resume=task.id))
    return await context.gen.outcome_of(job.task)


@about_task(
    "POST fork",
    "act",
    "Fork a task: start a new one with what this one knew after an event",
    body=ForkRequest,
    answer=Outcome,
    status=201,
)
async def fork_task(context: ServerContext, task: Task, request: ApiRequest[Nothing, ForkRequest]) -> Outcome:
    return await context.gen.fork_in_background(task.id, Fork(request.body.at), request.body.request())


@about_task("GET prompts", "view", "List where a conversation can be rewound to", answer=PromptPage)
async def list_prompts(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, Nothing]
) -> PromptPage:
    return PromptPage(await context.gen.rewind_points(task.id))


@about_task("GET rewind", "view", "Get what a rewind would change", query=RewindTarget, answer=RewindPreview)
async def preview_rewind(
    context: ServerContext, task: Task, request: ApiRequest[RewindTarget, Nothing]
) -> RewindPreview:
    return await context.gen.preview_rewind(task.id, request.query.to)


@about_task(
    "POST rewind",
    "act",
    "Take an idle conversation, the files that its agents changed, or both back to before a prompt",
    body=RewindRequest,
    answer=Rewound,
)
async def rewind_task(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, RewindRequest]
) -> Rewound:
    request.needs("answer")
    asked = request.body
    return await context.gen.rewind(
        task.id,
        asked.to,
        conversation=asked.conversation,
        files=asked.files,
        overwrite=asked.overwrite,
    )


@about_task(
    "POST background",
    "act",
    "Move a task to the background: its parent continues without waiting",
    body=Nothing,
    answer=Outcome,
)
async def send_to_background(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, Any]
) -> Outcome:
    return await context.gen.send_to_background(task.id)


@about_task(
    "PUT budget",
    "act",
    "Set the budget of a task, at most what is left of the budgets above it",
    body=BudgetLimits,
    answer=BudgetReport,
)
async def set_task_budget(
    context: ServerContext, task: Task, request: ApiRequest[Nothing, BudgetLimits]
) -> BudgetReport:
    request.needs("answer")
    now = await context.gen.set_budget(task.id, request.body.budget())
    return BudgetReport(task.id, now, await context.gen.history.spent(task.id))


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
    list_prompts,
    preview_rewind,
    rewind_task,
    send_to_background,
    set_task_budget,
)
