"""Output files after a crash: what the journal says about a background task is written to its file anew."""

import logging
from pathlib import Path

from gencode.agent.output_files import is_whole, rewrite
from gencode.core.errors import CorruptFact
from gencode.core.events import Event
from gencode.core.outcome import output_file
from gencode.core.task import Task
from gencode.journal.store import Store

log = logging.getLogger(__name__)


async def restore_output_file(store: Store, outputs: Path | None, task: Task) -> None:
    """See to it that the file of a background task that has ended says so; the journal is the truth."""
    if outputs is None or not task.terms.background or not task.status.ended:
        return
    path = output_file(outputs, task.id)
    if is_whole(path, task):
        return
    try:
        events = await store.events(task.id)
    except CorruptFact as corrupt:
        events = [event for event in corrupt.before if isinstance(event, Event)]
    try:
        rewrite(path, events)
    except OSError as error:
        log.info("%s could not be written: %s", path, error.strerror)
