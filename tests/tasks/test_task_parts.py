"""What most sessions never use is not built for them."""

from functools import cached_property
from pathlib import Path

from gencode.app import components
from gencode.tasks.task_parts import TaskParts
from gencode.testing import call, says, scripted
from gencode.wiring import Components

PARTS = {name for name, part in vars(TaskParts).items() if isinstance(part, cached_property)}


def built(parts: Components) -> set[str]:
    """Those that were needed so far."""
    return PARTS & vars(parts.tasks).keys()


async def test_an_answer_without_subagents_builds_only_what_starts_and_reads_it(tmp_path: Path):
    async with scripted(tmp_path, main=[says("", call("LS", path=".")), says("Done.")]) as gen:
        await gen.ask("look").outcome()
        assert built(components(gen)) == {"service", "planner", "starter", "records"}


async def test_what_looks_back_and_controls_is_built_when_it_is_used(tmp_path: Path):
    async with scripted(tmp_path, main=[says("Done.")]) as gen:
        outcome = await gen.ask("look").outcome()
        assert (await gen.get(outcome.agent_id)).result == "Done."
        used = built(components(gen))
    assert {"records"} <= used
    assert not used & {"delegation", "questions", "processes"}
