"""Results that are too long for a transcript: kept whole in files that their agent pages and searches."""

import stat
from collections.abc import Sequence
from pathlib import Path

from gencode import GenCode
from gencode.agent.output_files import LARGEST_RESULT, keep_result, result_files, result_place
from gencode.agent.toolbox import ToolContext, tool
from gencode.app import components
from gencode.core.messages import Message, ToolMessage, ToolResult
from gencode.core.task import transcript_of
from gencode.core.text import CLIP
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted


@tool(effect="read", name="Flood")
async def FLOOD(ctx: ToolContext, lines: int = 4_000) -> str:
    """Give back very many lines."""
    return "".join(f"line {number} of many\n" for number in range(1, lines + 1))


def results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for each in messages if isinstance(each, ToolMessage) for result in each.results]


def numbered() -> MemoryStore:
    numbers = iter(range(1, 100))
    return MemoryStore(draw=lambda: f"{next(numbers):08x}")


async def ran(folder: Path, *turns: dict[str, object], store: MemoryStore | None = None) -> list[ToolResult]:
    """The results of the calls that the main agent makes in these turns, with a tool that floods."""
    provider = ScriptedProvider.of({"main": [*turns, says("done")]})
    async with GenCode.open(folder, model=provider, tools=[FLOOD], store=store or numbered()) as gen:
        outcome = await gen.ask("go").outcome()
        return results(transcript_of(await gen.history.events(outcome.agent_id)))


def file_in(text: str) -> Path:
    """The file that the note at the end of a result names."""
    return Path(text.rpartition(" is in ")[2].partition(" (page it")[0])


async def test_a_long_result_is_cut_and_all_of_it_is_in_a_private_file(tmp_path: Path, home: Path) -> None:
    (result,) = await ran(tmp_path, says("", call("Flood")))
    file = file_in(result.text)
    assert result.text.endswith(
        f"characters were left out; all of it is in {file} (page it with Read, search it with Grep)]"
    )
    assert len(result.text) < CLIP + 300 and result.text.startswith("line 1 of many\n")
    assert file.parent == home / ".gen" / "outputs" / "00000001"
    assert file.read_text() == "".join(f"line {number} of many\n" for number in range(1, 4_001))
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]


async def test_a_result_that_fits_leaves_no_file(tmp_path: Path, home: Path) -> None:
    (result,) = await ran(tmp_path, says("", call("Flood", lines=10)))
    assert "left out" not in result.text and not (home / ".gen" / "outputs").exists()


async def test_its_agent_pages_and_searches_it_and_nobody_else_does(tmp_path: Path) -> None:
    store = numbered()
    (first,) = await ran(tmp_path, says("", call("Flood")), store=store)
    file = str(file_in(first.text))
    looks = (
        call("Read", file_path=file, offset=3_999),
        call("Grep", pattern="line 3210 ", path=file, output_mode="content"),
    )
    provider_turns = [says("", call("Flood")), says("done"), says("", *looks), says("done")]
    async with scripted(tmp_path, store=store, main=provider_turns) as gen:
        again = await gen.ask("go on", session="00000001").outcome()
        _, read, found = results(transcript_of(await store.events(again.agent_id)))
    assert "line 3999 of many" in read.text and not read.error
    assert found.text.endswith(f"{Path(file).name}\n3210:line 3210 of many") and not found.error
    async with scripted(tmp_path, store=store, main=[says("", *looks), says("done")]) as gen:
        stranger = await gen.ask("spy").outcome()
        refused = results(transcript_of(await store.events(stranger.agent_id)))
    assert [result.error for result in refused] == [True, True]


async def test_the_folder_of_an_agents_outputs_cannot_be_searched_as_a_whole(tmp_path: Path) -> None:
    store = numbered()
    (first,) = await ran(tmp_path, says("", call("Flood")), store=store)
    look = call("Grep", pattern="line", path=str(file_in(first.text).parent))
    (_, refused) = await ran(tmp_path, says("", call("Flood")), says("", look), store=numbered())
    assert refused.error


async def test_it_goes_with_its_task(tmp_path: Path) -> None:
    store = numbered()
    (result,) = await ran(tmp_path, says("", call("Flood")), store=store)
    async with scripted(tmp_path, store=store) as gen:
        await components(gen).tasks.records.delete(await gen.find("00000001"))
    assert not file_in(result.text).parent.exists()


async def test_where_no_file_can_be_written_the_result_is_only_cut(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "outputs").write_text("a file where a folder should be")
    (result,) = await ran(tmp_path, says("", call("Flood")))
    assert result.text.endswith("characters were left out]") and not result.error


async def test_a_command_keeps_its_own_file_and_the_end_of_its_output(tmp_path: Path, home: Path) -> None:
    order = call("Bash", command="seq 1 20000; exit 3")
    settings = {"allow": ["Bash(seq 1 20000)", "Bash(exit 3)"]}
    async with scripted(
        tmp_path, settings=settings, store=numbered(), main=[says("", order), says("x")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        (result,) = results(transcript_of(await gen.history.events(outcome.agent_id)))
    assert result.text.endswith("20000") and "3" in result.note
    assert [each.name.partition("_")[0] for each in (home / ".gen/outputs/00000001").iterdir()] == ["bash"]


def test_very_long_lines_are_broken_and_nothing_else_is(tmp_path: Path) -> None:
    text = "short\n" + "a" * 5_000 + "\nend"
    lines = keep_result(tmp_path / "t", text).read_text().split("\n")
    assert (lines[0], lines[-1], {len(line) for line in lines[1:-1]}) == ("short", "end", {500})
    assert "".join(lines) == text.replace("\n", "")


def test_a_result_beyond_all_bounds_is_kept_as_far_as_the_bound(tmp_path: Path) -> None:
    file = keep_result(tmp_path / "t", "ab\n" * (LARGEST_RESULT // 2))
    assert file.stat().st_size == LARGEST_RESULT
    assert result_place(file, LARGEST_RESULT + 1) == (
        f"; the first 10,000,000 are in {file} (page it with Read, search it with Grep)"
    )


def test_halves_of_characters_and_a_folder_that_is_a_link_do_no_harm(tmp_path: Path) -> None:
    assert keep_result(tmp_path / "t", "x\ud800y").read_text() == "x?y"
    assert [each.name for each in result_files(tmp_path / "t")] == [
        each.name for each in (tmp_path / "t").iterdir()
    ]
    assert list(result_files(tmp_path / "none")) == []
