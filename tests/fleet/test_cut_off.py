"""A worker that is cut off from the database stops everything before another one begins."""

import pytest

from gencode.core.messages import ToolMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.interfaces.cli.worker import FOUND, LOST
from tests.fleet.driving import Fleet, Process, ended, submit
from tests.fleet.namespace import Namespace, possible
from tests.fleet.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

LEASE = ("--lease-seconds", "8")


async def test_the_commands_of_a_worker_that_is_cut_off_end_before_another_one_begins(fleet: Fleet) -> None:
    first = {"name": "Bash", "input": {"command": "while true; do echo 1 >> beats; sleep 0.02; done"}}
    second = {"name": "Bash", "input": {"command": "echo 2 >> beats; sleep 1"}}
    turns = [{"calls": [first]}, {"calls": [second]}, {"text": "done"}]
    fleet.write({"*": turns, "Explore": [{"text": "done"}]})
    beats = fleet.folder / "beats"
    wire = Namespace if possible() else Relay
    async with wire(fleet.postgres.folder, fleet.url) as way, fleet.open(permission_mode="dontAsk") as gen:
        victim = Process(fleet.folder, way.url, *LEASE, inside=way.inside)
        fleet.workers.append(victim)
        [task] = await submit(gen, 1)
        await until(beats.exists, "its command runs")
        way.cut()
        [other] = fleet.start(1, *LEASE)
        [found] = await ended(gen, [task])
        assert (found.status, found.result) == (Status.COMPLETED, "done")
        told = beats.read_text().split()
        assert told == sorted(told) and told[-1] == "2"
        messages = transcript_of(await gen.history.events(task))
        results = [each for said in messages if isinstance(said, ToolMessage) for each in said.results]
        cut = "Interrupted: the worker that ran it died, was told to end, or could not reach the database."
        assert [(each.error, each.text.startswith(cut)) for each in results] == [(True, True), (False, False)]
        way.heal()
        other.close()
        more = await submit(gen, 2, "Explore")
        assert {each.status for each in await ended(gen, more)} == {Status.COMPLETED}
        said = victim.log / "said"
        # Where a busy machine stops nothing in time, the worker ends, and its service manager starts it.
        await until(lambda: victim.gave_up or FOUND in said.read_text(), "it says that it goes on")
        assert victim.gave_up or LOST in said.read_text()
