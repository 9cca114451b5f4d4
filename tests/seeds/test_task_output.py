"""The TaskOutput tool: the result of a background task, or how far it is."""

import asyncio
import re
from pathlib import Path
from typing import Any

from gencode.core.status import Status
from gencode.testing import call, says
from tests.seeds.playing import FIRST, Played, play, task
from tests.seeds.rows import seed
from tests.virtual_clock import virtual_time

HOUR = 3_600_000
QUICK = [says("3 modules")]
SLOW = [says("never said", delay_ms=HOUR)]
MINUTE = [says("3 modules", delay_ms=60_000)]
FAILS = [says("half of it", call("Glob", pattern="*")), says("", error="the service is down for good")]

RUNNING = f"""Agent: Explore
Status: still running
Turns: 0
Tokens: 0

Options:
  - Wait longer: TaskOutput(task_id="{FIRST}", timeout=60000)
  - Check status: TaskOutput(task_id="{FIRST}", block=false)
  - Stop: TaskStop(task_id="{FIRST}")"""


async def looked(folder: Path, explore: list[dict[str, Any]], **arguments: Any) -> Played:
    """A background agent that is asked for with TaskOutput and then stopped."""
    main = [
        says("", task("Explore", run_in_background=True)),
        says("", call("TaskOutput", task_id=FIRST, **arguments)),
        says("", call("TaskStop", task_id=FIRST)),
        says("Done."),
    ]
    return await play(folder, main, Explore=explore)


async def seconds(folder: Path, explore: list[dict[str, Any]], **arguments: Any) -> float:
    """How long the same takes on a virtual clock."""
    began = asyncio.get_running_loop().time()
    await looked(folder, explore, **arguments)
    return asyncio.get_running_loop().time() - began


@seed("000", "Name, description, `task_id` required", use='TaskOutput(task_id="9f3a1c2e")')
async def test_task_output_needs_a_task_id(tmp_path: Path) -> None:
    played = await looked(tmp_path, QUICK)
    schema = played.schema("TaskOutput")
    assert (schema["required"], schema["properties"]["task_id"]["type"]) == (["task_id"], "string")
    assert not played.results[1].error
    missing = await play(tmp_path, [says("", call("TaskOutput")), says("Fine.")])
    assert missing.results[0].error
    assert "task_id" in missing.results[0].text


@seed("000", "`block` default true", use='TaskOutput(task_id="9f3a1c2e", block=true)')
@virtual_time
async def test_task_output_waits_unless_it_is_told_not_to(tmp_path: Path) -> None:
    slow = [says("3 modules", delay_ms=20_000)]
    assert "3 modules" in (await looked(tmp_path, slow)).results[1].text


@seed("000", "`timeout` default 30000 ms", use='TaskOutput(task_id="9f3a1c2e")')
@virtual_time
async def test_task_output_waits_for_half_a_minute(tmp_path: Path) -> None:
    waited = await seconds(tmp_path, SLOW) - await seconds(tmp_path, SLOW, block=False)
    assert 29 < waited < 31


@seed("000", "max 600000", use='TaskOutput(task_id="9f3a1c2e", timeout=600000)')
@virtual_time
async def test_a_wait_is_ten_minutes_at_most(tmp_path: Path) -> None:
    played = await looked(tmp_path, SLOW, timeout=700_000)
    assert "700000" in played.results[1].text
    assert "600000 ms" in played.results[1].text
    waited = await seconds(tmp_path, SLOW, timeout=700_000) - await seconds(tmp_path, SLOW, block=False)
    assert 599 < waited < 601


@seed("000", "`timeout` type number", use='TaskOutput(task_id="9f3a1c2e", timeout=1500.5)')
@virtual_time
async def test_a_wait_may_be_any_number_of_milliseconds(tmp_path: Path) -> None:
    played = await looked(tmp_path, SLOW, timeout=1500.5)
    assert played.schema("TaskOutput")["properties"]["timeout"]["type"] == "number"
    assert played.results[1].text == RUNNING


@seed("000", "running, block=true: wait up to timeout", use='TaskOutput(task_id="9f3a1c2e", timeout=60000)')
@virtual_time
async def test_a_running_task_is_waited_for(tmp_path: Path) -> None:
    assert "3 modules" in (await looked(tmp_path, MINUTE, timeout=90_000)).results[1].text
    waited = await seconds(tmp_path, SLOW, timeout=1000) - await seconds(tmp_path, SLOW, block=False)
    assert 0.9 < waited < 1.1


@seed("000", "running, block=false: status at once", use='TaskOutput(task_id="9f3a1c2e", block=false)')
@virtual_time
async def test_a_running_task_is_only_looked_at(tmp_path: Path) -> None:
    assert (await looked(tmp_path, MINUTE, block=False)).results[1].text == RUNNING
    assert await seconds(tmp_path, SLOW, block=False) < 10


@seed("000", "completed: result (both)", use='TaskOutput(task_id="9f3a1c2e", block=false)')
async def test_a_completed_task_gives_its_result_with_and_without_waiting(tmp_path: Path) -> None:
    for block in (True, False):
        main = [
            says("", task("Explore", run_in_background=True)),
            says("", call("TaskOutput", task_id=FIRST)),
            says("", call("TaskOutput", task_id=FIRST, block=block)),
            says("Done."),
        ]
        played = await play(tmp_path, main, Explore=QUICK)
        assert "3 modules" in played.results[2].text


@seed("000", "failed: error + output (both)", use='TaskOutput(task_id="9f3a1c2e")')
async def test_a_failed_task_gives_its_error_and_what_it_had_said(tmp_path: Path) -> None:
    result = (await looked(tmp_path, FAILS)).results[1]
    assert result.error
    for part in ("Status: failed", "the service is down for good", "half of it"):
        assert part in result.text


@seed("000", "timeout: still running + options", use='TaskOutput(task_id="9f3a1c2e", timeout=1000)')
@virtual_time
async def test_after_the_timeout_the_model_reads_what_it_can_do(tmp_path: Path) -> None:
    played = await looked(tmp_path, SLOW, timeout=1000)
    assert played.results[1].text == RUNNING
    assert not played.results[1].error


@seed("000", "Text form, running", use='TaskOutput(task_id="9f3a1c2e", block=false)')
@virtual_time
async def test_the_text_of_a_running_task_is_that_of_the_source(tmp_path: Path) -> None:
    assert (await looked(tmp_path, SLOW, block=False)).results[1].text == RUNNING


@seed("000", "Text form, completed", use='TaskOutput(task_id="9f3a1c2e")')
async def test_the_text_of_a_completed_task_is_that_of_the_source(tmp_path: Path) -> None:
    played = await looked(tmp_path, QUICK)
    assert played.task.status is Status.COMPLETED
    assert re.fullmatch(
        r"Agent: Explore\nStatus: completed\nTurns: 1\nTokens: \d+\nDuration: 0s\n\nOutput:\n3 modules",
        played.answers[1],
    )
