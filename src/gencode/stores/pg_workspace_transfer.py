"""Transfers workspaces through Postgres: folders that go out with tasks, and changes that come back."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gencode.core.errors import UserMistake
from gencode.journal.dispatch import MissingPart, WorkerProblem
from gencode.journal.folder_snapshot import ReturnedChanges
from gencode.stores.pg_pool import Pool, storable

KEPT_DAYS = 30
"""A pack that nothing refers to is kept for so long after it was last used."""
MOST_TOLD = 500
FRESH_SECONDS = 120.0
"""So long ago a worker put a task back at most that is offered to all others again and again."""

PARCELS = """
CREATE TABLE gen_pack (
    id text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE gen_pack ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE gen_returned (
    task text COLLATE "C" PRIMARY KEY,
    told text NOT NULL,
    packs text[] NOT NULL,
    commit text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_at timestamptz
);
ALTER TABLE gen_returned ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE gen_hindrance (
    task text COLLATE "C" NOT NULL,
    worker text NOT NULL,
    why text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task, worker)
);
"""
"""The tables, as a step of the migrations."""
LACKS = "ALTER TABLE gen_hindrance ADD COLUMN lacks text NOT NULL DEFAULT 'other'"
"""A later step: what a worker lacks, beside what it says."""

_USED = "UPDATE gen_pack SET used_at = clock_timestamp() WHERE id = ANY($1::text[]) RETURNING id"
_KEEP = """
INSERT INTO gen_pack (id, body) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET used_at = clock_timestamp()
"""
_PACK = "UPDATE gen_pack SET used_at = clock_timestamp() WHERE id = $1 RETURNING body"
# Only who has the task may say what came of it; the row is held so that nobody takes it meanwhile.
_HAND_IN = """
WITH led AS (SELECT id FROM gen_task WHERE id = $1 AND owner = $6 FOR UPDATE)
INSERT INTO gen_returned (task, told, packs, commit, body) SELECT id, $2, $3, $4, $5 FROM led
ON CONFLICT (task) DO UPDATE SET told = excluded.told, packs = excluded.packs, commit = excluded.commit,
                                 body = excluded.body, at = clock_timestamp(), taken_at = NULL
RETURNING task
"""
_RETURNED = "SELECT told, taken_at IS NOT NULL, body FROM gen_returned WHERE task = $1"
_WAITING = "SELECT told FROM gen_returned WHERE taken_at IS NULL ORDER BY at LIMIT $1"
_TAKEN = """
UPDATE gen_returned SET taken_at = clock_timestamp() WHERE task = $1 AND commit = $2 AND taken_at IS NULL
RETURNING task
"""
# The same may be said every second, and is written again only before it is not fresh any more.
_HINDER = """
INSERT INTO gen_hindrance AS h (task, worker, why, lacks) VALUES ($1, $2, $3, $5)
ON CONFLICT (task, worker) DO UPDATE SET why = excluded.why, lacks = excluded.lacks, at = clock_timestamp()
WHERE h.why <> excluded.why OR h.lacks <> excluded.lacks
   OR h.at < clock_timestamp() - make_interval(secs => $4)
   OR h.at < (SELECT coalesce(t.lease_until, t.dispatched_at) FROM gen_task t WHERE t.id = $1)
"""
# What was said before somebody had the task, or before it was sent again, need not be so any more.
_HINDRANCES = """
SELECT h.task, h.worker, h.why, extract(epoch FROM clock_timestamp() - h.at)::float8, h.lacks
FROM gen_hindrance h JOIN gen_task t ON t.id = h.task
WHERE h.task = ANY($1::text[]) AND h.at >= coalesce(t.lease_until, t.dispatched_at)
ORDER BY h.at DESC
"""
_FORGET = (
    "DELETE FROM gen_hindrance WHERE at < clock_timestamp() - interval '1 day'",
    """
    DELETE FROM gen_pack p WHERE used_at < clock_timestamp() - make_interval(days => $1)
        AND NOT EXISTS (SELECT 1 FROM gen_returned r WHERE p.id = ANY(r.packs) AND r.taken_at IS NULL)
    """,
    "DELETE FROM gen_returned WHERE taken_at < clock_timestamp() - make_interval(days => $1)",
)


class PostgresWorkspaceTransfer:
    """What travels, in the database of the journal."""

    def __init__(self, link: Pool) -> None:
        self._link = link

    async def lacking(self, packs: Sequence[str]) -> list[str]:
        """Those of these packs that are not there; the others are kept for a while longer."""
        if not packs:
            return []
        there = {row[0] for row in await self._link.fetch(_USED, list(packs))}
        return [pack for pack in packs if pack not in there]

    async def keep(self, pack: str, body: bytes) -> None:
        """Keep a pack."""
        await self._link.fetch(_KEEP, pack, body)

    async def pack(self, pack: str) -> bytes | None:
        """The bytes of a pack."""
        for row in await self._link.fetch(_PACK, pack):
            return row[0]
        return None

    async def hand_in(self, returned: ReturnedChanges, body: bytes, owner: str) -> bool:
        """Keep what a task changed; False, and nothing is kept, when `owner` runs it no more."""
        told = msgspec.json.encode(returned).decode()
        named = (returned.task, storable(told), list(returned.parcel.packs), returned.commit)
        return bool(await self._link.fetch(_HAND_IN, *named, body, owner))

    async def returned(self, task: str) -> tuple[ReturnedChanges, bytes] | None:
        """What a task changed elsewhere, with its pack."""
        for row in await self._link.fetch(_RETURNED, storable(task)):
            return msgspec.structs.replace(_read(row[0]), taken=row[1]), row[2]
        return None

    async def waiting(self) -> list[ReturnedChanges]:
        """All that was changed elsewhere and not taken over yet, the oldest first."""
        return [_read(row[0]) for row in await self._link.fetch(_WAITING, MOST_TOLD)]

    async def taken(self, task: str, commit: str) -> bool:
        """Note that what a task changed was taken over; False where that was known."""
        return bool(await self._link.fetch(_TAKEN, task, commit))

    async def report_problem(self, task: str, worker: str, why: str, lacks: MissingPart) -> None:
        """Note why a worker cannot run a task."""
        await self._link.fetch(_HINDER, task, worker, storable(why[:1_000]), FRESH_SECONDS / 2, lacks.value)

    async def hindrances(self, tasks: Sequence[str]) -> dict[str, list[WorkerProblem]]:
        """Why workers could not run tasks that nobody is at, of each the newest first."""
        found: dict[str, list[WorkerProblem]] = {}
        for task, worker, why, seconds, lacks in await self._link.fetch(_HINDRANCES, list(tasks)):
            found.setdefault(task, []).append(WorkerProblem(worker, why, seconds, MissingPart(lacks)))
        return found

    async def forget(self) -> None:
        """Remove what nobody needs any more; what nobody has taken over stays."""
        for statement in _FORGET:
            values: tuple[Any, ...] = (KEPT_DAYS,) if "$1" in statement else ()
            await self._link.fetch(statement, *values)


def _read(told: str) -> ReturnedChanges:
    try:
        return msgspec.json.decode(told, type=ReturnedChanges)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UserMistake(f"What came back of a task cannot be read: {error}.") from None
