"""A worker asks the queue no more often than it has to, and misses nothing."""

import asyncio
import json
from typing import Any

import pytest

pytestmark = pytest.mark.needs("postgres")


def told(operation: str) -> str:
    """A change in the queue as the database tells it to everybody."""
    news = {"channel": "ch", "operation": operation, "sent_at": "2026-01-01T00:00:00Z", "table": "pgqueuer"}
    return json.dumps({**news, "type": "table_changed_event"})


class Listening:
    """What passes a sieve, for a worker that is `full` or not."""

    def __init__(self) -> None:
        from gencode.fleet.queue_reader import NewsFilter

        self.full = False
        self.heard: list[Any] = []
        self.sieve = NewsFilter(self.heard.append, lambda: self.full, "ch")


async def test_new_jobs_that_come_together_are_heard_together_and_the_last_is_not_missed() -> None:
    from pgqueuer.models import AnyEvent

    from gencode.fleet.queue_reader import TOGETHER

    worker = Listening()
    for _ in range(50):
        worker.sieve(told("insert"))
    assert len(worker.heard) == 1
    await asyncio.sleep(2 * TOGETHER)
    assert len(worker.heard) == 2
    event = AnyEvent.model_validate_json(worker.heard[1]).root
    assert (event.type, event.channel) == ("table_changed_event", "ch")


async def test_a_worker_that_has_enough_to_do_hears_of_new_jobs_when_one_of_its_own_ends() -> None:
    worker = Listening()
    worker.full = True
    worker.sieve(told("insert"))
    assert worker.heard == []
    worker.full = False
    worker.sieve.nudge()
    assert len(worker.heard) == 1


async def test_jobs_that_are_gone_are_no_news_and_everything_else_passes() -> None:
    worker = Listening()
    worker.full = True
    for operation in ("delete", "truncate", "update"):
        worker.sieve(told(operation))
    other = json.dumps({"channel": "ch", "type": "cancellation_event", "ids": [1]})
    worker.sieve(other)
    assert worker.heard == [other]
