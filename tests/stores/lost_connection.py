"""A connection that is lost after something was done and before that could be told."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def first_replies_lost(store: Any, *, all_of_them: bool = False) -> Generator[None]:
    """What a store of Postgres does meanwhile is done, and then done again, because nobody heard of it."""
    patiently = store.link.patiently

    async def unlucky(step: Any, patience: float | None = None) -> Any:
        async def losing(connection: Any, again: bool) -> Any:
            told = await step(connection, again)
            if all_of_them or not again:
                raise ConnectionResetError
            return told

        return await patiently(losing, 0.0 if all_of_them else patience)

    store.link.patiently = unlucky
    try:
        yield
    finally:
        store.link.patiently = patiently
