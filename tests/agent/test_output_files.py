"""The output file of a background task, as text and as a file."""

import stat
from pathlib import Path

import pytest

from gencode.agent import output_files
from gencode.agent.output_files import TaskOutputFile, is_whole, rewrite
from gencode.core.events import (
    CallDecided,
    DurableFact,
    Event,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
)
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from gencode.core.rules import Action, Decision
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, replay

FULL = Path("/dev/full")
AT = "2026-11-15T02:32:00.000000Z"
LIFE: tuple[DurableFact, ...] = (
    TaskCreated(agent="Explore", prompt="look", description="a look", cwd="/w", background=True),
    TaskStarted(model="m"),
    MessageAdded(UserMessage("look\nwell")),
    MessageAdded(AssistantMessage("I look.", (ToolCall("1", "Read", {"file_path": "a.py"}),))),
    CallDecided("1", "Read", Decision(Action.ALLOW, "reads")),
    MessageAdded(ToolMessage((ToolResult("1", "Read", "line one\nline two"),))),
    MessageAdded(AssistantMessage("", (ToolCall("2", "Bash", {"command": "x" * 300}),))),
    MessageAdded(ToolMessage((ToolResult("2", "Bash", "", error=True),))),
    MessageAdded(UserMessage("Hurry.", sender="system")),
    MessageAdded(AssistantMessage("It is \x1b[31mthere\x07.")),
    TaskEnded(Status.COMPLETED, "It is \x1b[31mthere\x07.", reason=EndReason.FINISHED),
)
WHOLE = f"""# Explore: a look

Task: 9f3a1c2e
Folder: /w
Started: {AT}
Model: m

> look
> well

I look.
- Read(a.py)
  → Read: line one

- Bash({"x" * 200}…)
  failed Bash: -

> [system]
> Hurry.

## Result

It is [31mthere.

[task 9f3a1c2e has finished (completed) at {AT}]
"""


def journal(*facts: DurableFact) -> list[Event]:
    return [Event("9f3a1c2e", number, AT, fact) for number, fact in enumerate(facts, 1)]


def folded(events: list[Event]) -> Task:
    task = replay(events)
    assert task is not None
    return task


def grown(path: Path, events: list[Event], step: int = 1) -> TaskOutputFile:
    """A file that grew by a few facts at a time."""
    file = TaskOutputFile(path)
    for first in range(0, len(events), step):
        file.add(folded(events[: first + step]), events[first : first + step])
    return file


@pytest.mark.parametrize("step", [2, 4, 11])
def test_a_file_is_the_same_whether_it_grew_or_was_written_anew(tmp_path: Path, step: int) -> None:
    events = journal(*LIFE)
    file = grown(tmp_path / "outputs" / "a.md", [*events[:-2]], step)
    file.add(folded(events), events[-2:])
    rewrite(tmp_path / "b.md", events)
    assert file.path.read_text() == (tmp_path / "b.md").read_text() == WHOLE
    assert file.trouble == ""
    assert is_whole(file.path, folded(events))
    assert is_whole(tmp_path / "b.md", folded(events))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b.md", "outputs"]


def test_a_run_that_goes_on_is_set_apart_from_the_one_before(tmp_path: Path) -> None:
    again = (
        TaskStarted(model="n"),
        MessageAdded(UserMessage("And?")),
        TaskEnded(Status.COMPLETED, "No more.", reason=EndReason.FINISHED),
    )
    events = journal(*LIFE, *again)
    file = grown(tmp_path / "a.md", events[:9], 9)
    file.add(folded(events[:11]), events[9:11])
    file.add(folded(events[:13]), events[11:13])
    file.add(folded(events), events[13:])
    rewrite(tmp_path / "b.md", events)
    last = f"\n## Result\n\nNo more.\n\n[task 9f3a1c2e has finished (completed) at {AT}]\n"
    assert file.path.read_text() == f"{WHOLE}\nResumed: {AT}\nModel: n\n\n> And?\n{last}"
    assert f"\n\nResumed: {AT}\nModel: n\n\n> And?\n{last}" in (tmp_path / "b.md").read_text()


def test_a_run_that_waits_to_go_on_says_so_before_what_it_was_told(tmp_path: Path) -> None:
    events = journal(*LIFE, TaskQueued(), MessageAdded(UserMessage("And?")), TaskStarted(model="n"))
    rewrite(tmp_path / "b.md", events)
    waits = f"\nWaits in the queue: {AT}\n\n> And?\n\nResumed: {AT}\nModel: n\n"
    assert (tmp_path / "b.md").read_text().endswith(waits)


def test_a_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / "outputs" / "a.md"
    grown(path, journal(*LIFE))
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_a_file_of_an_earlier_task_with_the_same_id_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("of somebody else\n")
    grown(path, journal(*LIFE[:1]))
    assert path.read_text() == "# Explore: a look\n\nTask: 9f3a1c2e\nFolder: /w\n"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (tmp_path / "a.md").symlink_to(victim)
    file = grown(tmp_path / "a.md", journal(*LIFE))
    assert victim.read_text() == "mine\n"
    assert file.trouble.startswith("its output file could not be written: ")


def test_a_task_that_comes_to_the_background_later_says_where_its_beginning_is(tmp_path: Path) -> None:
    events = journal(*LIFE)
    TaskOutputFile(tmp_path / "a.md").add(folded(events[:6]), events[5:6])
    assert (tmp_path / "a.md").read_text() == (
        "# Explore: a look\n\nTask: 9f3a1c2e\nFolder: /w\n"
        "It has been in the background since here; its earlier steps: gen task show 9f3a1c2e\n"
        "  → Read: line one\n"
    )


def test_a_long_life_is_cut_and_its_result_is_there_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files, "MOST_STEPS", 1_000)
    steps = [MessageAdded(AssistantMessage(f"Step {number} of many. " * 10)) for number in range(100)]
    events = journal(*LIFE[:3], *steps, LIFE[-1])
    path = grown(tmp_path / "a.md", events).path
    text = path.read_text()
    assert len(text) < 1_500
    assert text.count("[more steps: gen task show 9f3a1c2e]") == 1
    assert text.endswith(f"It is [31mthere.\n\n[task 9f3a1c2e has finished (completed) at {AT}]\n")
    rewrite(path, events)
    assert path.stat().st_size < 1_500
    assert is_whole(path, folded(events))


def test_a_task_that_failed_says_why_before_what_it_said(tmp_path: Path) -> None:
    rewrite(
        tmp_path / "a.md",
        journal(*LIFE[:3], TaskEnded(Status.FAILED, "half", "no network", reason=EndReason.FAILED)),
    )
    assert (
        (tmp_path / "a.md")
        .read_text()
        .endswith(
            f"## Result\n\nError: no network\n\nhalf\n\n[task 9f3a1c2e has finished (failed) at {AT}]\n"
        )
    )


def test_a_file_without_its_end_is_not_whole(tmp_path: Path) -> None:
    events = journal(*LIFE)
    path = grown(tmp_path / "a.md", events[:-1]).path
    assert not is_whole(path, folded(events))
    assert not is_whole(tmp_path / "missing.md", folded(events))
    path.write_text(WHOLE)
    assert not is_whole(path, folded(events)), "anybody can write how it would end"
    rewrite(path, events)
    assert is_whole(path, folded(events))


def test_where_nothing_can_be_written_the_file_says_so_and_nobody_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file where a folder should be")
    file = grown(tmp_path / "outputs" / "a.md", journal(*LIFE))
    assert file.trouble == "its output file could not be written: Not a directory"
    with pytest.raises(NotADirectoryError):
        rewrite(file.path, journal(*LIFE))


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_is_told_and_stops_nobody() -> None:
    file = grown(FULL, journal(*LIFE))
    assert file.trouble == "its output file could not be written: No space left on device"


def test_half_a_surrogate_pair_does_not_keep_a_file_from_being_written(tmp_path: Path) -> None:
    rewrite(
        tmp_path / "a.md",
        journal(LIFE[0], TaskEnded(Status.COMPLETED, "half \ud800 pair", reason=EndReason.FINISHED)),
    )
    assert "half ? pair" in (tmp_path / "a.md").read_text()
