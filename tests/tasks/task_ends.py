"""The ends of tasks."""

from gencode.journal.store import Store, TaskQuery


async def all_have_ended(store: Store) -> bool:
    return all(each.status.ended for each in await store.tasks(TaskQuery()))
