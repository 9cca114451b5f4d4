"""Transfers workspaces through Postgres: folders that go out with tasks, and changes that come back."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.journal.dispatch import MissingPart, WorkerProblem
from gencode.journal.folder_snapshot import ReturnedChanges
from gencode.stores.pg_pool import Pool, storable

KEPT_DAYS = 30
"""Seconds for which an unused pack is kept."""
MOST_TOLD = 500
FRESH_SECONDS = 120.0
"""So long ago a worker put a task back at most that is offered to all others again and again."""

_USED = "UPDATE gen_pack SET used_at = clock_timestamp() WHERE id = ANY($1::text[]) RETURNING id"
_KEEP = """
INSERT INTO gen_pack (id, body) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET used_at = clock_timestamp()
"""
_PACK = "UPDATE gen_pack SET used_at = clock_timestamp() WHERE id = $1 RETURNING body"
# Only who has the task may say what came of it; the row is held so that nobody takes it meanwhile.
_HAND_IN = """
WITH led AS (SELECT id FROM gen_task WHERE id = $1 AND owner = $6 FOR UPDATE)
INSERT INTO gen_returned (task, changes, packs, commit, body) SELECT id, $2, $3, $4, $5 FROM led
ON CONFLICT (task) DO UPDATE SET changes = excluded.changes, packs = excluded.packs, commit = excluded.commit,
                                 body = excluded.body, at = clock_timestamp(), taken_at = NULL
RETURNING task
"""
_RETURNED = "SELECT changes, taken_at IS NOT NULL, body FROM gen_returned WHERE task = $1"
_WAITING = "SELECT changes FROM gen_returned WHERE taken_at IS NULL ORDER BY at LIMIT $1"
_TAKEN = """
UPDATE gen_returned SET taken_at = clock_timestamp() WHERE task = $1 AND commit = $2 AND taken_at IS NULL
RETURNING task
"""
# The same may be said every second, and is written again only before it is not fresh any more.
_HINDER = """
INSERT INTO gen_worker_problem AS h (task, worker, reason, missing) VALUES ($1, $2, $3, $5)
ON CONFLICT (task, worker) DO UPDATE SET reason = excluded.reason, missing = excluded.missing,
                                         at = clock_timestamp()
WHERE h.reason <> excluded.reason OR h.missing <> excluded.missing
   OR h.at < clock_timestamp() - make_interval(secs => $4)
   OR h.at < (SELECT coalesce(t.lease_until, t.dispatched_at) FROM gen_task t WHERE t.id = $1)
"""
# What was said before somebody had the task, or before it was sent again, need not be so any more.
_HINDRANCES = """
SELECT h.task, h.worker, h.reason, extract(epoch FROM clock_timestamp() - h.at)::float8, h.missing
FROM gen_worker_problem h JOIN gen_task t ON t.id = h.task
WHERE h.task = ANY($1::text[]) AND h.at >= coalesce(t.lease_until, t.dispatched_at)
ORDER BY h.at DESC
"""
_FORGET = (
    "DELETE FROM gen_worker_problem WHERE at < clock_timestamp() - interval '1 day'",
    """
    DELETE FROM gen_pack p WHERE used_at < clock_timestamp() - make_interval(days => $1)
        AND NOT EXISTS (SELECT 1 FROM gen_returned r WHERE p.id = ANY(r.packs) AND r.taken_at IS NULL)
    """,
    "DELETE FROM gen_returned WHERE taken_at < clock_timestamp() - make_interval(days => $1)",
)


class PostgresWorkspaceTransfer:
    """Packs of folders and returned changes in the database of the journal."""

    def __init__(self, link: Pool) -> None:
        self._link = link

    async def lacking(self, packs: Sequence[str]) -> list[str]:
        """The packs that are missing; the others are kept for a while longer."""
        if not packs:
            return []
        there = {row[0] for row in await self._link.fetch(_USED, list(packs))}
        return [pack for pack in packs if pack not in there]

    async def keep(self, pack: str, body: bytes) -> None:
        """Store a pack."""
        await self._link.fetch(_KEEP, pack, body)

    async def pack(self, pack: str) -> bytes | None:
        """The bytes of a pack."""
        for row in await self._link.fetch(_PACK, pack):
            return row[0]
        return None

    async def hand_in(self, returned: ReturnedChanges, body: bytes, owner: str) -> bool:
        """Store the changes of a task; False, with nothing stored, when `owner` does not run it any more."""
        told = msgspec.json.encode(returned).decode()
        named = (returned.task, storable(told), list(returned.snapshot.packs), returned.commit)
        return bool(await self._link.fetch(_HAND_IN, *named, body, owner))

    async def returned(self, task: str) -> tuple[ReturnedChanges, bytes] | None:
        """The changes that a task made elsewhere, with their pack."""
        for row in await self._link.fetch(_RETURNED, storable(task)):
            return replace(_read(row[0]), taken=row[1]), row[2]
        return None

    async def waiting(self) -> list[ReturnedChanges]:
        """All changes made elsewhere that are not merged yet, the oldest first."""
        return [_read(row[0]) for row in await self._link.fetch(_WAITING, MOST_TOLD)]

    async def taken(self, task: str, commit: str) -> bool:
        """Record that a task's changes were merged; False if that was recorded before."""
        return bool(await self._link.fetch(_TAKEN, task, commit))

    async def report_problem(self, task: str, worker: str, why: str, lacks: MissingPart) -> None:
        """Record why a worker cannot run a task."""
        await self._link.fetch(_HINDER, task, worker, storable(why[:1_000]), FRESH_SECONDS / 2, lacks.value)

    async def hindrances(self, tasks: Sequence[str]) -> dict[str, list[WorkerProblem]]:
        """The reasons why workers could not run waiting tasks, the newest of each worker first."""
        found: dict[str, list[WorkerProblem]] = {}
        for task, worker, why, seconds, lacks in await self._link.fetch(_HINDRANCES, list(tasks)):
            found.setdefault(task, []).append(WorkerProblem(worker, why, seconds, MissingPart(lacks)))
        return found

    async def forget(self) -> None:
        """Delete what is not needed any more; changes that are not merged stay."""
        for statement in _FORGET:
            values: tuple[Any, ...] = (KEPT_DAYS,) if "$1" in statement else ()
            await self._link.fetch(statement, *values)


def _read(told: str) -> ReturnedChanges:
    try:
        return msgspec.json.decode(told, type=ReturnedChanges)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UserMistake(f"What came back of a task cannot be read: {error}.") from None
