"""Which tasks are an agent's own, which are kin, and which are none of its business."""

from pathlib import Path

import pytest

from gencode import GenCode
from gencode.providers.scripted import ScriptedProvider
from gencode.tasks.relatives import TaskTree
from gencode.tasks.supervisor import LocalTask
from gencode.testing import call, says

MAIN, FIRST, SECOND, BELOW, STRANGER = "0000000a", "0000000b", "0000000c", "0000000d", "0000000e"


@pytest.mark.parametrize(
    ("target", "relations"),
    [
        (MAIN, ("foreign", "related", "related", "foreign", "foreign")),
        (FIRST, ("own", "foreign", "related", "related", "foreign")),
        (SECOND, ("own", "related", "foreign", "foreign", "foreign")),
        (BELOW, ("foreign", "own", "foreign", "foreign", "foreign")),
        (STRANGER, ("foreign", "foreign", "foreign", "foreign", "foreign")),
        ("0000000f", ("foreign", "foreign", "foreign", "foreign", "foreign")),
        ("agent-0000000B", ("own", "foreign", "related", "related", "foreign")),
        ("0000", ("foreign", "foreign", "foreign", "foreign", "foreign")),
        ("../0000000b", ("foreign", "foreign", "foreign", "foreign", "foreign")),
    ],
)
def test_children_are_own_and_parents_and_siblings_are_kin(target: str, relations: tuple[str, ...]) -> None:
    family = TaskTree()
    for task, parent in ((MAIN, None), (FIRST, MAIN), (SECOND, MAIN), (BELOW, FIRST), (STRANGER, None)):
        family.learn(task, parent)
    found = tuple(family.relation(each, target) for each in (MAIN, FIRST, SECOND, BELOW, STRANGER))
    assert found == relations


async def test_a_conversation_knows_its_own_agents_also_after_a_restart(tmp_path: Path) -> None:
    send = says("", call("Task", subagent_type="Explore", prompt="look"))
    script = ScriptedProvider.of({"main": [send, says("done"), says("again")], "Explore": [says("seen")]})

    def relations(job: LocalTask, *tasks: str) -> list[str]:
        return [job.setup.gate.relatives.relation(task) for task in tasks]

    async with GenCode.open(tmp_path, model=script) as gen:
        job = await gen.start_turn("go")
        await gen.outcome(job)
        (child,) = await gen.tasks(parent=job.id)
        alone = await gen.task("Explore", "look")
        first = relations(job, child.agent_id, alone.agent_id, job.id)
    async with GenCode.open(tmp_path, model=script) as later:
        job = await later.start_turn("and now?", job.id)
        await later.outcome(job)
        second = relations(job, child.agent_id, alone.agent_id, job.id)
    assert first == second == ["own", "foreign", "foreign"]
