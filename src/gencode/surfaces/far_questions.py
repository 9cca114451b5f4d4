"""Questions from other machines, brought to whoever is asked in this process (surfaces)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.runtime.asking import Asker
from gencode.runtime.questions import Presence, QuestionBox, Relaying

NOT_SHARED = (
    "Questions travel only through a shared database (GEN_DATABASE_URL); without one they are asked where "
    "the agent runs."
)


def box_of(gen: GenCode) -> QuestionBox:
    """Where questions of other machines lie; UserMistake where there are none."""
    if not isinstance(gen.store, Relaying):
        raise UserMistake(NOT_SHARED)
    return gen.store.questions


@asynccontextmanager
async def far_questions(
    gen: GenCode, asker: Asker, *, background: bool, everywhere: bool = False
) -> AsyncGenerator[None, None]:
    """Ask here what agents of this folder on other machines ask; with `background`, also what those ask for
    whom nobody waits, and `everywhere` also those of other folders.
    """
    from gencode.delegation.far_asking import FarQuestions

    presence = Presence(gen.supervisor.owner, "" if everywhere else str(gen.workspace.cwd), background)
    bringing = asyncio.get_running_loop().create_task(FarQuestions(box_of(gen), asker, presence).run())
    try:
        yield
    finally:
        bringing.cancel()
        await asyncio.wait([bringing])
