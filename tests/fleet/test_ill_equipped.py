"""Workers that are not set up for a task: it is left to others, and who waits hears what is missing where."""

import pytest

from gencode.core.status import Status
from gencode.stores.pg_fleet_status import fleet_status
from tests.contracts.provider import Play
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet, Process, ended, submit
from tests.interfaces.cli.running import gen as typed
from tests.providers.dialects import messages
from tests.providers.fake_server import fake_server, streamed
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

MODEL = "anthropic/claude-sonnet-5"


async def hindered(fleet: Fleet, worker: Process, why: str) -> None:
    """Wait until it is known of everything that waits that this worker cannot run it, and why."""

    async def known() -> bool:
        told = {each.missing_worker.why.partition(". ")[0] for each in (await fleet_status(fleet.url)).stuck}
        return told == {f"{worker.told['worker']}: {why}"}

    await until(known, f"the worker says that {why}")


async def test_a_worker_whose_settings_went_bad_leaves_its_tasks_to_others(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "done"}]})
    [spoiled] = fleet.start(1, *PATIENT)
    await until(lambda: fleet.rows("SELECT count(*) FROM gen_worker") == [["1"]], "it has begun")
    file = spoiled.log / "settings.toml"
    file.write_text("nonsense = 1\n")
    async with fleet.open() as gen:
        tasks = await submit(gen, 2, "Explore")
        await hindered(fleet, spoiled, f"{file}: There is no setting 'nonsense'")
        assert [(await gen.find(task)).status for task in tasks] == [Status.PENDING] * 2
        fleet.start(1, *PATIENT)
        found = await ended(gen, [*tasks, *await submit(gen, 2, "Explore")])
    assert [(task.status, task.result) for task in found] == [(Status.COMPLETED, "done")] * 4


async def test_a_task_waits_for_a_worker_with_the_key_that_neither_its_sender_nor_another_worker_has(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    [keyless] = fleet.start(1, *PATIENT)
    words = ("task", "run", "Explore", "go", "--model", MODEL, "--background", "--json")
    sent = typed(*words, cwd=fleet.folder, GEN_DATABASE_URL=fleet.url)
    assert sent.code == 0, sent.err
    task = sent.json["agentId"]
    key = "anthropic needs a key: set ANTHROPIC_API_KEY, or choose another model"
    await hindered(fleet, keyless, key)
    async with fake_server(streamed(*messages(Play(texts=("done",))))) as vendor, fleet.open() as gen:
        assert (await gen.find(task)).status is Status.PENDING
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", vendor.url)
        [equipped] = fleet.start(1, *PATIENT)
        [found] = await ended(gen, [task])
        equipped.close()
        await vendor.hung_up.wait()
    assert (found.status, found.result, found.terms.model) == (Status.COMPLETED, "done", MODEL)


def test_what_is_done_here_still_needs_the_key_here(fleet: Fleet) -> None:
    for words in (("-p", "go"), ("task", "run", "Explore", "go")):
        refused = typed(*words, "--model", MODEL, cwd=fleet.folder, GEN_DATABASE_URL=fleet.url)
        assert (refused.code, "anthropic needs a key" in refused.err) == (2, True)
