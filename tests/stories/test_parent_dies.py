"""A conversation whose process is killed while it waits for agents: it hears what they came to, once."""

import json
import signal
from pathlib import Path

from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import start
from tests.waiting import until

from gencode import GenCode
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.core.task import Task, transcript_of
from gencode.journal.store import TaskQuery
from gencode.testing import call, says

QUICK = call("Task", subagent_type="Explore", prompt="look")
APART = call("Task", subagent_type="Plan", prompt="look", isolation="process")
MAIN = [says("", QUICK, APART), says("I go on."), says("And on.")]
PLAN = [says("I look around.", call("Glob", pattern="*")), says("never said", delay_ms=600_000)]


async def family(gen: GenCode) -> dict[str, Task]:
    """The conversation and its agents, by the names of these."""
    return {each.agent: each for each in await gen.history.tasks(TaskQuery())}


async def test_the_conversation_hears_what_they_came_to_once(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"agents": {"main": MAIN, "Explore": [says("found it")], "Plan": PLAN}}))
    model = f"scripted:{script}"
    parent = start("-p", "go", "--model", model, cwd=tmp_path)
    async with GenCode.open(tmp_path, model=model) as gen:

        async def at_work() -> bool:
            known = await family(gen)
            ready = "Plan" in known and known["Plan"].totals.turns > 0
            return ready and "Explore" in known and known["Explore"].status.ended

        await until(at_work, "one agent is done and the other one at work")
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        known = await family(gen)
        plan = await gen.history.ended(known["Plan"].id, 60)
        assert (plan.status, plan.end.error) == (Status.CANCELLED, "the process that started it is gone")
    session = plan.parent or ""
    for _ in range(2):
        again = command("-p", "go on", "--resume", session, "--model", model, cwd=tmp_path)
        assert again.code == 0, again.err
    async with GenCode.open(tmp_path, model=model) as gen:
        told = transcript_of(await gen.history.events(session))
    (answers,) = [each for each in told if isinstance(each, ToolMessage)]
    ids = [known["Explore"].id, plan.id]
    assert [each.trace.left for each in answers.results] == [(ids[0],), (ids[1],)]
    assert f"Task {ids[0]} (Explore) has ended (completed)" in answers.results[0].text
    assert f"Task {ids[1]} (Plan) " in answers.results[1].text
    (given,) = [each for each in told if isinstance(each, UserMessage) and each.delivers]
    assert sorted(given.delivers) == sorted(ids)
    assert "has finished]\n> found it" in given.text
    assert "was cancelled: the process that started it is gone]\n> I look around." in given.text
