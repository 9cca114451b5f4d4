"""A process that is suspended, as by Ctrl-Z: it keeps what it works on, whatever others want meanwhile."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from gencode.app import GenCode, components
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.status import stop_cause
from gencode.journal.owner import new_owner
from gencode.tasks.liveness import BUSY, lease_task
from gencode.testing import says
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.suspending import suspend
from tests.tasks.budget_tree import tokens, woken
from tests.tasks.first_call import CALL, COSTS, FIRST, FOUND
from tests.tasks.leases import leases_run_out
from tests.waiting import Gate, wait_until


def test_a_conversation_that_is_only_suspended_goes_on_after_others_spent_from_its_budget(
    tmp_path: Path, home: Path
) -> None:
    pipe = Gate(tmp_path)
    main = [*FIRST, says("", pipe.call, usage=COSTS), says("the whole answer", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[FOUND, says("found more", usage=COSTS)])
    words = ("--model", model, "--json")
    session = gen("-p", "go", "--max-tokens-total", "300000", *words, cwd=tmp_path).json["sessionId"]
    task = gen("task", "list", "--json", cwd=tmp_path).json["tasks"][0]["agentId"]

    async def more() -> tuple[Outcome | str, str]:
        async with GenCode.open(tmp_path, model=model) as opened:
            with pytest.raises(UserMistake) as busy:
                await opened.start_turn("and I?", session)
            return await woken(opened, task), str(busy.value)

    leader = start("-p", "wait", "--session", session, *words, cwd=tmp_path)
    wait_until(lambda: tokens(home, session) == 5 * CALL, "the conversation waits at its gate")
    suspend(leader.pid)
    leases_run_out(home)
    found, refused = asyncio.run(more())
    status = gen("task", "show", session, "--json", cwd=tmp_path).json["status"]
    os.kill(leader.pid, signal.SIGCONT)
    pipe.open()
    assert isinstance(found, Outcome)
    assert (found.result, refused, status) == ("found more", BUSY.format(task=session), "running")
    said, _ = leader.communicate(timeout=SECONDS)
    assert (leader.returncode, json.loads(said)["result"]) == (0, "the whole answer")


def test_a_stop_frees_a_task_at_rest_that_a_process_has_which_does_not_answer(
    tmp_path: Path, home: Path
) -> None:
    session = gen("-p", "go", "--model", script(tmp_path, main=[says("hello")]), "--json", cwd=tmp_path)
    task = session.json["sessionId"]

    async def freed() -> str:
        async with GenCode.open(tmp_path) as opened:
            await components(opened).store.take(task, new_owner())  # as if it hung while it summed up
            leases_run_out(home)
            with pytest.raises(UserMistake) as busy:
                await lease_task(components(opened).store, task, "me")
            await components(opened).tasks.control.stop(task, stop_cause("it hangs"))
            await components(opened).store.release(await lease_task(components(opened).store, task, "me"))
            return str(busy.value)

    assert asyncio.run(freed()) == BUSY.format(task=task)
