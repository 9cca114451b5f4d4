"""Rewinds: a conversation, and the files its agents changed, as they were before an earlier prompt.

The journal says which files were changed, and the content before each change is kept beside it. Nothing is
removed from the journal: a rewind is one more event. A file that somebody else changed meanwhile is only
restored if the person says so, and replaced content is kept, so that a rewind can be undone.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gencode.agent.recorder import Recorder
from gencode.core.changes import NamedTask
from gencode.core.errors import Conflict, ToolError, UserMistake
from gencode.core.events import Event, FilesCheckpointed, MessageAdded, SessionRewound
from gencode.core.messages import (
    AssistantMessage,
    FileCheckpoint,
    NoticeKind,
    SystemNotice,
    ToolMessage,
    UserMessage,
)
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.core.task import Task, as_rewound
from gencode.core.text import code_span
from gencode.files.checkpoints import ABSENT, UNKNOWN, ContentFolder, FileContent, listed_in, read_content
from gencode.files.safe_files import (
    Expected,
    PathMissing,
    identity_of,
    open_for_reading,
    remove_file,
    replace_file,
)
from gencode.permissions.bash.decision import read_command
from gencode.permissions.paths import places_of, resolve
from gencode.tasks.queries import descendants, readable_events

if TYPE_CHECKING:
    from gencode.tasks.task_parts import TaskParts

MOST_NAMED = 20
LONGEST_NAME = 200
PUT_BACK = (
    "[The user has put files back to how they were before an earlier prompt: {files}. Read them again before "
    "you rely on what you know of them.]"
)

FileStep = Literal["restore", "create", "delete"]
FileState = Literal["ready", "changed", "lost", "blocked"]


class RewindPoint(Struct, frozen=True):
    """A point to which a conversation can be rewound: before event number `to`, a prompt or an earlier
    rewind.

    `files` is how many files were changed from there to the next point.
    """

    to: int
    at: str
    prompt: str
    undo: bool = False
    files: int = 0


class RewindFile(Struct, frozen=True):
    """What a rewind does with a file, and how many lines that adds and removes (None for a binary file).

    `changed`: its present content is not what an agent left, so it is only restored if a person says so.
    `lost`: the earlier content is not kept. `blocked`: something else is at its path, such as a link.
    """

    path: str
    does: FileStep
    state: FileState = "ready"
    added: int | None = None
    removed: int | None = None


class RewindPreview(Struct, frozen=True):
    """What a rewind would change.

    `messages` are those of the conversation that are removed. Changes of `commands` to other files, and of
    agents in a worktree or on another machine (`elsewhere`), are not undone.
    """

    session: str
    point: RewindPoint
    messages: int = 0
    files: tuple[RewindFile, ...] = ()
    commands: tuple[str, ...] = ()
    elsewhere: tuple[NamedTask, ...] = ()


class Rewound(Struct, frozen=True):
    """The result of a rewind: `restored` files, those `left` as they are, and `problems`."""

    preview: RewindPreview
    conversation: bool
    restored: tuple[str, ...] = ()
    left: tuple[RewindFile, ...] = ()
    problems: tuple[str, ...] = ()


class _Change(Struct, frozen=True):
    """A change of a file, and the task whose folder has the earlier content."""

    at: str
    task: str
    file: FileCheckpoint

    @property
    def is_known(self) -> bool:
        """Whether the file was changed, and not only saved before a command that was cut off."""
        return self.file.after is not None


class _FileRestore(Struct, frozen=True):
    """How a file is restored, with its content now and before."""

    shown: RewindFile
    file: FileCheckpoint
    now: FileContent
    before: bytes | None


class Rewinder:
    """Lists the points of a conversation, previews a rewind, and does it."""

    def __init__(self, parts: "TaskParts") -> None:
        self._parts = parts
        self._store = parts.store
        self._outputs = parts.outputs

    async def points(self, session: Task) -> list[RewindPoint]:
        """The prompts of a conversation, and its rewinds, the oldest first."""
        own = (await readable_events(self._store, session.id))[0]
        points = [point for event in as_rewound(own) if (point := _point(event))]
        changes = _changes(own, 0, "", self._content(session.id))
        for child in await descendants(self._store, session.id):
            events = (await readable_events(self._store, child.id))[0]
            changes += _changes(events, 0, "", self._content(child.id))
        found: list[RewindPoint] = []
        for point, end in zip(points, [*(point.at for point in points[1:]), "~"], strict=True):
            made = {each.file.path for each in changes if point.at <= each.at < end and each.is_known}
            found.append(replace(point, files=len(made)))
        return found

    async def preview(self, session: Task, to: int) -> RewindPreview:
        """What a rewind would change now."""
        return (await self._planned(session, to))[0]

    async def rewind(
        self, session: Task, to: int, *, conversation: bool, files: bool, overwrite: bool
    ) -> Rewound:
        """Rewind; `overwrite` also restores files that somebody else has changed."""
        async with self._parts.starter.idle_lease(session.id) as lease:
            await self._check_idle(session)
            preview, steps = await self._planned(session, to)
            wanted = ("ready", "changed") if overwrite else ("ready",)
            doing = [each for each in steps if files and each.shown.state in wanted]
            mine = self._content(session.id)
            kept = await asyncio.to_thread(_keep_present, doing, mine)
            if conversation or kept:
                record = Recorder(self._store, self._parts.bus, lease, self._outputs)
                backs = tuple(_back(each) for each in kept)
                told = () if conversation else (MessageAdded(_notice([each.path for each in backs])),)
                await record.commit(SessionRewound(to, conversation, backs), *told)
            problems = await asyncio.to_thread(self._put_back, kept)
        done = {each.shown.path for each in kept} - problems.keys()
        return Rewound(
            preview,
            conversation,
            tuple(each.shown.path for each in kept if each.shown.path in done),
            tuple(each.shown for each in steps if files and each.shown.path not in done),
            tuple(problems.values()),
        )

    async def _check_idle(self, session: Task) -> None:
        busy = [each for each in await descendants(self._store, session.id) if not each.status.ended]
        if busy:
            names = ", ".join(f"{each.agent} {each.id}" for each in busy[:MOST_NAMED])
            raise Conflict(
                f"Agents of this conversation are still running: {names}. Wait for them, or stop them: "
                f"gen task stop --tree {session.id}"
            )

    def _content(self, task: str) -> ContentFolder:
        return ContentFolder(self._outputs / task)

    async def _planned(self, session: Task, to: int) -> tuple[RewindPreview, list[_FileRestore]]:
        if not session.conversation:
            raise UserMistake(f"{session.id} is a subagent. Rewind the conversation that it belongs to.")
        own = (await readable_events(self._store, session.id))[0]
        kept = as_rewound(own)
        point = next((found for event in own if event.seq == to and (found := _point(event))), None)
        if point is None:
            raise UserMistake(
                f"Conversation {session.id} has no prompt at event {to!r}. List its prompts: "
                f"gen sessions rewind {session.id}"
            )
        messages = sum(isinstance(event.fact, MessageAdded) for event in kept if (event.seq or 0) >= to)
        changes = [] if session.imported else _changes(own, to, "", self._content(session.id))
        commands = [*_commands(own, to, "", session)]
        elsewhere: list[NamedTask] = []
        for child in await descendants(self._store, session.id):
            events = (await readable_events(self._store, child.id))[0]
            found = _changes(events, 0, point.at, self._content(child.id))
            if child.created.worktree or child.created.isolated:
                elsewhere += [NamedTask(child.id, child.agent)] if found or child.report.changes else []
            elif not child.imported:
                changes += found
            commands += _commands(events, 0, point.at, session)
        steps = await asyncio.to_thread(self._steps, changes)
        return (
            RewindPreview(
                session.id,
                point,
                messages,
                tuple(each.shown for each in steps),
                tuple(dict.fromkeys(commands)),
                tuple(elsewhere),
            ),
            steps,
        )

    def _steps(self, changes: Iterable[_Change]) -> list[_FileRestore]:
        by_path = sorted(changes, key=lambda each: each.file.path)
        found = [
            self._step(path, sorted(group, key=lambda each: each.at))
            for path, group in groupby(by_path, key=lambda each: each.file.path)
        ]
        return [each for each in found if each is not None]

    def _step(self, path: str, changes: Sequence[_Change]) -> _FileRestore | None:
        """The restore of a file: to its content before the first of these changes."""
        first, now = changes[0].file, read_content(path)
        if now.sha256 == first.before != UNKNOWN:
            return None
        known, foreign = {first.before}, False
        for each in changes:
            foreign |= each.file.before not in known
            known |= {each.file.before, *(() if each.file.after is None else (each.file.after,))}
        foreign |= now.sha256 not in known
        before = self._content(changes[0].task).read(first.before) if first.kept else None
        does = "delete" if first.before == ABSENT else "create" if now.sha256 == ABSENT else "restore"
        shown = RewindFile(path, does, "changed" if foreign else "ready")
        if before is None and first.before != ABSENT:
            shown = replace(shown, state="lost")
        elif now.data is None:
            shown = replace(shown, state="blocked")
        else:
            added, removed = _line_counts(now.data, before or b"")
            shown = replace(shown, added=added, removed=removed)
        return _FileRestore(shown, first, now, before)

    def _put_back(self, steps: Iterable[_FileRestore]) -> Mapping[str, str]:
        """Restore files; the failures, by path. It blocks."""
        workspace = self._parts.session.workspace.current()
        problems: dict[str, str] = {}
        for each in steps:
            try:
                _restore(each, workspace)
            except ToolError as error:
                problems[each.shown.path] = str(error)
        return problems


def _point(event: Event) -> RewindPoint | None:
    """The rewind point of an event, if it is one."""
    match event.fact:
        case MessageAdded(UserMessage(sender="user", notice=None, text=text)):
            return RewindPoint(event.seq or 0, event.at, text)
        case SessionRewound():
            return RewindPoint(event.seq or 0, event.at, "", undo=True)
        case _:
            return None


def _changes(events: Sequence[Event], to: int, at: str, content: ContentFolder) -> list[_Change]:
    """The changes of files among the events of a task from a number and a time on."""
    found: list[_Change] = []
    ended = {
        result.call
        for event in events
        if isinstance(event.fact, MessageAdded) and isinstance(event.fact.message, ToolMessage)
        for result in event.fact.message.results
        if result.trace.commands and not any(each.shell for each in result.trace.commands)
    }
    for event in events:
        if (event.seq or 0) < to or event.at < at:
            continue
        match event.fact:
            case FilesCheckpointed(call, files, tree):
                if tree and call not in ended:
                    files = (*files, *listed_in(content.read(tree) or b""))
            case SessionRewound(files=files):
                pass
            case _:
                continue
        found += [_Change(event.at, event.task, each) for each in files]
    return found


def _commands(events: Sequence[Event], to: int, at: str, session: Task) -> Iterable[str]:
    """The commands among the events of a task that may have changed anything."""
    cwd = Path(session.cwd)
    places = places_of(Workspace(cwd, cwd, Path.home()))
    cut = {
        event.fact.call for event in events if isinstance(event.fact, FilesCheckpointed) and event.fact.tree
    }
    for event in events:
        if (event.seq or 0) < to or event.at < at or not isinstance(event.fact, MessageAdded):
            continue
        match event.fact.message:
            case ToolMessage(results):
                ran = [each.command for result in results for each in result.trace.commands]
            case AssistantMessage(calls=calls):
                ran = [str(call.input.get("command", "")) for call in calls if call.id in cut]
            case _:
                continue
        yield from (each for each in ran if each and not read_command(each, places).only_reads)


def _keep_present(steps: Iterable[_FileRestore], content: ContentFolder) -> list[_FileRestore]:
    """The restores whose present content could be saved: what cannot be recovered is not replaced."""
    return [each for each in steps if content.keep(each.now.sha256, each.now.data)]


def _back(step: _FileRestore) -> FileCheckpoint:
    return FileCheckpoint(step.file.path, step.now.sha256, step.file.before, step.now.mode)


def _notice(paths: Sequence[str]) -> UserMessage:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    named = ", ".join(code_span(each, LONGEST_NAME) for each in paths[:MOST_NAMED])
    text = PUT_BACK.format(files=named + more)
    return UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.REMARK))


def _line_counts(now: bytes, before: bytes) -> tuple[int | None, int | None]:
    """How many lines a restore adds and removes; None for a binary file."""
    if b"\0" in now or b"\0" in before:
        return None, None
    old, new = Counter(now.splitlines()), Counter(before.splitlines())
    return (new - old).total(), (old - new).total()


def _restore(step: _FileRestore, workspace: Workspace) -> None:
    """Restore one file, if it is still as it was seen; ToolError says why not."""
    path = step.file.path
    place = resolve(path, workspace)
    if place.refusal or place.real != path:
        raise ToolError(f"{path} was left as it is: there is a link on the way to it now.")
    expected: Expected = "absent"
    try:
        with open_for_reading(place) as file:
            expected = identity_of(file)
    except PathMissing:
        pass
    if read_content(path).sha256 != step.now.sha256:
        raise ToolError(f"{path} was left as it is: it has just been changed.")
    if step.before is not None:
        replace_file(place, step.before, expected=expected, mode=step.file.mode)
    elif expected != "absent":
        remove_file(place, expected=expected)
