"""The scripted model keeps the promises of the port."""

import asyncio

import pytest

from gencode.providers.scripted import ScriptedProvider
from tests.contracts.provider import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.provider import Play, Stage, Staged


@pytest.fixture
def staged() -> Staged:
    async def set_stage(play: Play) -> Stage:
        turn = {
            "text": "".join(play.texts),
            "calls": [{"name": name, "input": given} for name, given in play.calls],
            "error": "server_error" if play.breaks else "",
            "delay_ms": 600_000 if play.waits else 0,
        }
        return Stage(ScriptedProvider.of({"*": [turn]}), "scripted", nothing_runs)

    return set_stage


async def nothing_runs() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}
