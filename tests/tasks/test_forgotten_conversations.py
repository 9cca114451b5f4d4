"""A long life with many budgets: what nobody can spend from any more is forgotten, and nothing else."""

import gc
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.files.file_versions import SeenFiles
from gencode.tasks import service
from gencode.testing import call, says
from tests.interfaces.cli.running import script
from tests.tasks.call_costs import COSTS, LOOK

LEADS = 25
FEW = 12
"""So many may be left of those who ended last, while they are put away."""
SENT = [call("Task", subagent_type="Explore", prompt=f"look {number}") for number in range(2)]
LEAD = [says("", *SENT, usage=COSTS), says("led", usage=COSTS)]
EXPLORE = [says("found", usage=COSTS), *[{**LOOK, "delay_ms": 20}] * 60]
SETTINGS = {"max_depth": 2}


@pytest.fixture(autouse=True)
def only_what_is_made_here_is_counted() -> None:
    """To search all that the tests before have left in this process takes a second each time."""
    gc.collect()
    gc.freeze()


def there_are(kind: type) -> int:
    """How many of a kind the test has made and something still holds."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


async def test_of_many_conversations_only_the_last_are_remembered_beyond_their_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_LED", 2)
    (notes := tmp_path / "notes.txt").write_text("one\n")
    edit = call("Edit", file_path="notes.txt", old_string="one", new_string="two")
    turns = [says("", call("Read", file_path="notes.txt")), says("read"), says("", edit), says("written")]
    model = script(tmp_path, main=turns)
    async with GenCode.open(tmp_path, model=model, settings={"permission_mode": "acceptEdits"}) as gen:
        before = there_are(SeenFiles)
        first = (await gen.ask("go").outcome()).agent_id
        for _ in range(LEADS):
            await gen.ask("go").outcome()
        assert there_are(SeenFiles) - before <= FEW
        await gen.ask("more", session=first).outcome()
        assert notes.read_text() == "two\n"
