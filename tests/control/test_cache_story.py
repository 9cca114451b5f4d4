"""Results that are given again: when a setting says so, while nothing they rest on has changed."""

from pathlib import Path

from gencode.core.outcome import Outcome
from gencode.testing import call, says, scripted

ON = {"result_cache": True}
READS = [says("", call("Read", file_path="a.txt")), says("it says one")]


def marked(outcome: Outcome) -> bool:
    return any(each.startswith("answered from the journal: task ") for each in outcome.evidence.warnings)


async def test_the_same_work_is_answered_from_the_journal_until_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with scripted(tmp_path, settings=ON, Explore=READS) as gen:
        first = await gen.task("Explore", "what does a.txt say?")
        second = await gen.task("Explore", "what does a.txt say?")
        other = await gen.task("Explore", "what else?")
        (tmp_path / "a.txt").write_text("two\n")
        third = await gen.task("Explore", "what does a.txt say?")
    assert [marked(each) for each in (first, second, other, third)] == [False, True, False, False]
    assert [each.turns for each in (first, second, other, third)] == [2, 0, 2, 2]
    assert (second.success, second.result, second.agent_id != first.agent_id) == (True, "it says one", True)


async def test_work_that_did_more_than_read_is_done_again(tmp_path: Path) -> None:
    turns = [says("", call("Bash", command="echo hello")), says("said hello")]
    settings = {**ON, "permission_mode": "dontAsk"}
    async with scripted(tmp_path, settings=settings, general_purpose=turns) as gen:
        outcomes = [await gen.task("general-purpose", "say hello") for _ in range(2)]
    assert [(marked(each), each.turns) for each in outcomes] == [(False, 2), (False, 2)]


async def test_without_the_setting_everything_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with scripted(tmp_path, Explore=READS) as gen:
        outcomes = [await gen.task("Explore", "what does a.txt say?") for _ in range(2)]
    assert [(marked(each), each.turns) for each in outcomes] == [(False, 2), (False, 2)]
