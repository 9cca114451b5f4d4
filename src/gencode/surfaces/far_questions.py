"""Questions of other processes, brought to whoever is asked in this one, and of this one to others."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.runtime.asking import Asker
from gencode.runtime.questions import Presence, QuestionBox, Relaying

NOT_KEPT = "Questions travel only through a database, and this journal is not in one."
MOST_SECONDS = 5.0
"""So long it may take at most until others know that somebody can be asked here."""


def no_conversation() -> str:
    """What is followed where no conversation is looked at."""
    return ""


def box_of(gen: GenCode) -> QuestionBox:
    """Where questions of other processes lie; UserMistake where there are none."""
    if not isinstance(gen.store, Relaying):
        raise UserMistake(NOT_KEPT)
    return gen.store.questions


@asynccontextmanager
async def asked_anywhere(
    opener: Callable[[Asker], AbstractAsyncContextManager[GenCode]],
    asker: Asker,
    follows: Callable[[], str] = no_conversation,
) -> AsyncGenerator[GenCode, None]:
    """GenCode whose questions can be answered here and by others who look at the same conversation.

    What agents of other processes ask is asked here, too; `follows` names the conversation that is looked at.
    """
    from gencode.delegation.shared_asking import SharedAsker

    shared = SharedAsker(asker)
    async with opener(shared) as gen:
        if not isinstance(gen.store, Relaying):
            yield gen
            return
        shared.open(gen.store, gen.store.questions, gen.supervisor.owner)
        background = gen.settings.background_questions
        try:
            async with far_questions(gen, asker, background=background, follows=follows):
                yield gen
        finally:
            await shared.close()


@asynccontextmanager
async def far_questions(
    gen: GenCode,
    asker: Asker,
    *,
    background: bool,
    everywhere: bool = False,
    follows: Callable[[], str] = no_conversation,
) -> AsyncGenerator[None, None]:
    """Ask here what agents of this folder in other processes ask; with `background`, also what those ask for
    whom nobody waits, and `everywhere` also those of other folders.
    """
    from gencode.delegation.far_asking import FarQuestions

    place = "" if everywhere else str(gen.workspace.cwd)

    def presence() -> Presence:
        return Presence(gen.supervisor.owner, place, background, follows())

    questions = FarQuestions(box_of(gen), asker, presence)
    bringing = asyncio.get_running_loop().create_task(questions.run())
    try:
        # Who is not known to be here is not asked, and what is sent from here may ask at once.
        with suppress(TimeoutError):
            async with asyncio.timeout(MOST_SECONDS):
                await questions.tried.wait()
        yield
    finally:
        bringing.cancel()
        await asyncio.wait([bringing])
