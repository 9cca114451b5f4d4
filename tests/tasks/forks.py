"""Forks of a task."""

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome


async def forks(gen: GenCode, task: str) -> Outcome | str:
    """What becomes of a fork, or why it is none."""
    try:
        return await gen.fork(task, "again")
    except UserMistake as refusal:
        return str(refusal)
