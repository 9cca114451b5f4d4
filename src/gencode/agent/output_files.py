"""Output files: one that follows a background task, and results too long for a transcript.

The journal is authoritative. The file of a task is written after it, one append for every commit, and can be
rewritten from it at any time. A complete file has the time of the task's end as its modification time. Write
errors never stop the task. Long results are in the folder of their task's outputs, readable for the owner
only, and deleted with the task; an agent reads and searches them like any other file.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from gencode.core.events import AnyFact, Event, MessageAdded, TaskCreated, TaskEnded, TaskQueued, TaskStarted
from gencode.core.ids import moment, new_id
from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from gencode.core.task import Task
from gencode.core.text import clip
from gencode.permissions.whole_files import write_private_file

log = logging.getLogger(__name__)

MOST_STEPS = 2 * 1024 * 1024
"""The most bytes of steps in a file; the result follows in any case."""
LONGEST_STEP = 30_000
LONGEST_RESULT = 1024 * 1024
LONGEST_LINE = 200
FIRST_START = 2
"""The event number of a task's first start, after its creation; a later start is a resume."""

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSEEN = dict.fromkeys([*range(9), 11, 12, 13, *range(14, 32), *range(127, 160)])
"""Control characters that could manipulate a terminal showing the file."""


class TaskOutputFile:
    """The file of one background task. `trouble` says why it is not complete."""

    __slots__ = ("_full", "path", "trouble")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self._full = False

    def add(self, task: Task, events: Sequence[Event]) -> None:
        """Append these events as text; blocks for one small write."""
        new = isinstance(events[0].fact, TaskCreated)
        try:
            handle = _opened(self.path, os.O_TRUNC if new else 0)
            try:
                size = os.fstat(handle).st_size
                head = "" if new or size else _late_head(task)
                _write(handle, head + self._fitting(task.id, events, size))
                if not self.trouble:
                    _mark_whole(handle, events[-1])
            finally:
                os.close(handle)
        except OSError as error:
            self.trouble = self.trouble or f"its output file could not be written: {error.strerror}"
            log.info("%s could not be written: %s", self.path, error.strerror)

    def _fitting(self, task: str, events: Sequence[Event], size: int) -> str:
        """The steps as far as there is room for them, and the end in any case."""
        steps, end = _told(events)
        if size + len(steps) > MOST_STEPS:
            steps = "" if self._full else f"\n[more steps: gen task show {task}]\n"
            self._full = True
        return steps + end


def rewrite(path: Path, events: Sequence[Event]) -> None:
    """Rewrite a file from the journal, atomically; OSError if that is not possible."""
    steps, end = _told(events)
    if len(steps) > MOST_STEPS:
        steps = f"{steps[:MOST_STEPS]}\n[more steps: gen task show {events[0].task}]\n"
    if not path.parent.exists():
        _make_folder(path.parent)
    write_private_file(path, _encoded(steps + end), at_ns=_whole_at(events[-1]))


def is_whole(path: Path, task: Task) -> bool:
    """Whether the file of a task that has ended is complete, including the end of its last run."""
    try:
        return path.lstat().st_mtime_ns == _nanoseconds(task.end.at or "")
    except (OSError, ValueError, OverflowError):
        return False


def _mark_whole(handle: int, last: Event) -> None:
    """Set the file's modification time to the end that it is complete up to, if there is one."""
    if (at := _whole_at(last)) is not None:
        with suppress(OSError, OverflowError):
            os.utime(handle, ns=(at, at))


def _whole_at(last: Event) -> int | None:
    """The modification time of a file that is complete up to an end; an imported one can be any."""
    with suppress(ValueError, OverflowError):
        return _nanoseconds(last.at) if isinstance(last.fact, TaskEnded) else None
    return None


def _nanoseconds(at: str) -> int:
    return round(moment(at).timestamp() * 1_000_000) * 1_000


def _make_folder(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _opened(path: Path, more: int) -> int:
    try:
        return os.open(path, _APPEND | more, 0o600)
    except FileNotFoundError:
        _make_folder(path.parent)
        return os.open(path, _APPEND | more, 0o600)


def _write(handle: int, text: str) -> None:
    rest = memoryview(_encoded(text))
    while rest:
        rest = rest[os.write(handle, rest) :]


def _encoded(text: str) -> bytes:
    return text.translate(_UNSEEN).encode("utf-8", "replace")


def _told(events: Sequence[Event]) -> tuple[str, str]:
    """Events as text: the steps, and the end if it is among them (its result is not repeated)."""
    last = events[-1].fact
    if not isinstance(last, TaskEnded):
        return "".join(_step(event) for event in events), ""
    steps = [_step(event) for event in events[:-1] if not _says(event.fact, last.result)]
    return "".join(steps), _end(events[-1], last)


def _says(fact: AnyFact, result: str) -> bool:
    """Whether an event is the reply that the result ends with."""
    message = fact.message if isinstance(fact, MessageAdded) else None
    if not isinstance(message, AssistantMessage) or message.calls:
        return False
    return message.text == result or result.endswith(f"\n\n{message.text.strip()}")


def _step(event: Event) -> str:
    match event.fact:
        case TaskCreated() as created:
            return f"{_title(event.task, created.agent, created.description)}Folder: {created.cwd}\n"
        case TaskStarted() as started:
            word = "\nResumed" if (event.seq or 0) > FIRST_START else "Started"
            return f"{word}: {event.at}\nModel: {started.model}\n"
        case TaskQueued():
            return f"\nWaits in the queue: {event.at}\n"
        case MessageAdded(message):
            return _message(message)
        case TaskEnded() as ended:
            return _end(event, ended)
        case _:
            return ""


def _message(message: Message) -> str:
    match message:
        case UserMessage():
            who = "" if message.sender == "user" else f"[{message.sender}]\n"
            return "\n" + _quoted(who + clip(message.text, LONGEST_STEP)) + "\n"
        case AssistantMessage():
            text = message.text.strip()
            said = f"\n{clip(text, LONGEST_STEP)}\n" if text else "\n"
            return said + "".join(f"- {call.name}({_brief(call.input.values())})\n" for call in message.calls)
        case ToolMessage():
            return "".join(
                f"  {'failed' if result.error else '→'} {result.name}: {_brief([result.text]) or '-'}\n"
                for result in message.results
            )


def _brief(values: Iterable[object]) -> str:
    """The first line of the first text among these values."""
    text = next((value for value in values if isinstance(value, str) and value.strip()), "")
    line = text.strip().partition("\n")[0]
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _title(task: str, agent: str, description: str) -> str:
    return f"# {agent}{f': {_brief([description])}' if description.strip() else ''}\n\nTask: {task}\n"


def _late_head(task: Task) -> str:
    """The heading of a file that begins in the middle of its task."""
    return (
        f"{_title(task.id, task.agent, task.created.description)}Folder: {task.cwd}\n"
        f"It has been in the background since here; its earlier steps: gen task show {task.id}\n"
    )


def _end(event: Event, ended: TaskEnded) -> str:
    error = f"Error: {ended.error}\n\n" if ended.error else ""
    result = clip(ended.full_text.strip(), LONGEST_RESULT)
    said = f"{result}\n\n" if result else ""
    return f"\n## Result\n\n{error}{said}[task {event.task} has finished ({ended.status}) at {event.at}]\n"


LARGEST_RESULT = 10_000_000
"""The most characters of a result that are kept."""
LONGEST_RESULT_LINE = 2_000
"""Longer lines are broken, because readers are shown only the beginning of a line."""
LINE_PIECE = 500
MOST_RESULTS = 1_000


def keep_result(folder: Path, text: str) -> Path:
    """Write a result to a new file, completely or not at all; OSError if that fails. It blocks."""
    _make_folder(folder)
    name = f"result_{new_id()}.txt"
    write_private_file(folder / name, _broken(text[:LARGEST_RESULT]).encode("utf-8", "replace"))
    return folder / name


def result_place(file: Path, size: int) -> str:
    """The note in a transcript that says where the whole of a cut result is."""
    what = "all of it is" if size <= LARGEST_RESULT else f"the first {LARGEST_RESULT:,} are"
    return f"; {what} in {file} (page it with Read, search it with Grep)"


def result_files(folder: Path) -> Iterator[Path]:
    """The outputs of a task that its agent may read again after a resume."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = (each.name for each in entries if not each.name.startswith("."))
        yield from [folder / name for name in islice(names, MOST_RESULTS)]


def _broken(text: str) -> str:
    """`text` with long lines broken."""
    if "\n" in text and max(map(len, text.split("\n"))) <= LONGEST_RESULT_LINE:
        return text
    return re.sub(rf"[^\n]{{{LONGEST_RESULT_LINE + 1},}}", lambda long: _pieces(long[0]), text)


def _pieces(line: str) -> str:
    return "\n".join(line[at : at + LINE_PIECE] for at in range(0, len(line), LINE_PIECE))
