"""How a task ended, and what its receipt says: told by the harness, never by the task itself."""

import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode import GenCode
from gencode.agent.loop import ASK_AGAIN, NOT_DONE
from gencode.agent.ports import Request
from gencode.app import components
from gencode.core.messages import CommandRun, EndPart, FileChange, Part, TextPart, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.core.task import Evidence, transcript_of
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted

LOOK_ELSEWHERE = says("", call("Glob", pattern="*.nothing"))


async def explored(folder: Path, *turns: dict[str, object], prompt: str = "look") -> Outcome:
    async with scripted(folder, Explore=turns) as gen:
        return await gen.task("Explore", prompt)


async def test_the_receipt_of_a_piece_of_work(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")
    turns = [
        says("", call("Read", file_path="a.py"), call("Write", file_path="b.py", content="new\n")),
        says("", call("Bash", command="echo done; exit 3")),
        says("I read a.py, wrote b.py and ran a command."),
    ]
    settings = {"permission_mode": "dontAsk", "sandbox": "off"}
    async with scripted(tmp_path, settings=settings, general_purpose=turns) as gen:
        outcome = await gen.task("general-purpose", "work")
    assert outcome.evidence == Evidence(
        tool_calls=3,
        files_read=("a.py",),
        files_changed=(FileChange("b.py", hashlib.sha256(b"new\n").hexdigest()),),
        commands=(CommandRun("echo done; exit 3", 3),),
    )


async def test_a_report_without_a_single_call_is_warned_of(tmp_path: Path) -> None:
    outcome = await explored(tmp_path, says("I looked everywhere."))
    assert (outcome.status, outcome.evidence.warnings) == (Status.COMPLETED, ("no tool was called",))


async def test_a_conversation_may_answer_without_a_tool(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("Hello.")]) as gen:
        outcome = await gen.ask("hello").outcome()
    assert outcome.evidence == Evidence()


@pytest.mark.parametrize(
    ("commands", "warned"),
    [
        (("exit 3 # pytest -q",), "its last test run, `exit 3 # pytest -q`, failed with exit code 3"),
        (
            ("npm test || exit 1", "echo seen"),
            "its last test run, `npm test || exit 1`, failed with exit code 1",
        ),
        (("exit 1 # make check", "true # make check"), ""),
        (("exit 1 # grep pytests",), ""),
    ],
)
async def test_failed_tests_are_warned_of_whatever_the_report_says(
    tmp_path: Path, commands: tuple[str, ...], warned: str
) -> None:
    turns = [*(says("", call("Bash", command=each)) for each in commands), says("All tests pass.")]
    settings = {"permission_mode": "dontAsk", "sandbox": "off"}
    async with scripted(tmp_path, settings=settings, general_purpose=turns) as gen:
        outcome = await gen.task("general-purpose", "work")
    assert (outcome.status, outcome.evidence.warnings) == (Status.COMPLETED, (warned,) if warned else ())


async def test_an_agent_without_tools_is_not_told_that_it_used_none(tmp_path: Path, home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "thinker.md").write_text("---\nname: thinker\ndescription: thinks\ntools: []\n---\nThink.\n")
    async with scripted(tmp_path, thinker=[says("I thought.")]) as gen:
        outcome = await gen.task("thinker", "think")
    assert outcome.evidence.warnings == ()


@pytest.mark.parametrize(
    ("said", "unread"),
    [
        ("It is in `src/b.py:12`.", "src/b.py"),
        ("It is in src/b.py, and in ./src/b.py#L3.", "src/b.py"),
        ("See (src/b.py) and README.md.", "src/b.py, README.md"),
        ("See {root}/src/b.py.", "src/b.py"),
        ("It is in src/a.py.", ""),
        ("It is in src/missing.py.", ""),
        ("It is in the folder src/deep.", ""),
        ("It is in ../outside.py, /etc/hostname or src/../../outside.py.", ""),
        ("It is in .env.", ""),
        ("Use e.g. foo.bar() or a/b testing.", ""),
    ],
)
async def test_files_that_a_report_names_and_nobody_read_are_warned_of(
    tmp_path: Path, said: str, unread: str
) -> None:
    root = tmp_path / "ws"
    (root / "src" / "deep").mkdir(parents=True)
    for name in ("src/a.py", "src/b.py", "README.md", ".env", "../outside.py"):
        (root / name).write_text("text\n")
    read = says("", call("Read", file_path="src/a.py"))
    outcome = await explored(root, read, says(said.format(root=root)))
    expected = (f"the report names files that were never read: {unread}",) if unread else ()
    assert outcome.evidence.warnings == expected


async def test_a_report_of_endless_words_is_looked_at_only_so_far(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("text\n")
    said = "a" * 5_000_000 + "/" * 5_000_000 + " b.py"
    outcome = await explored(tmp_path, LOOK_ELSEWHERE, says(said))
    assert (outcome.status, outcome.evidence.warnings) == (Status.COMPLETED, ())


@pytest.mark.parametrize(
    "seen",
    [
        call("Grep", pattern="text"),
        call("Glob", pattern="**/*.py"),
        call("Grep", pattern="nothing like it", path="b.py"),
    ],
)
async def test_files_that_a_call_found_or_took_count_as_seen(tmp_path: Path, seen: dict[str, object]) -> None:
    (tmp_path / "b.py").write_text("text\n")
    outcome = await explored(tmp_path, says("", seen), says("It is in b.py."), prompt="what is in b.py?")
    assert outcome.evidence.warnings == ()


async def test_agents_that_did_not_end_well_are_named(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look")
    async with scripted(
        tmp_path, main=[says("", send, send), says("ok")], Explore=[says("", error="auth")]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        children = await gen.tasks(parent=outcome.agent_id)
    assert [child.status for child in children] == [Status.FAILED, Status.FAILED]
    assert outcome.evidence.children == tuple(child.agent_id for child in children)
    assert outcome.evidence.warnings == tuple(
        f"the task {child.agent_id} of Explore failed: {child.error}" for child in children
    )


async def test_an_agent_that_said_nothing_is_named_with_that_reason(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look")
    async with scripted(tmp_path, main=[says("", send), says("ok")], Explore=[says("")]) as gen:
        outcome = await gen.ask("go").outcome()
    (child,) = outcome.evidence.children
    assert outcome.evidence.warnings == (
        f"the task {child} of Explore finished without an answer: the model's reply was empty",
    )


async def test_an_agent_that_was_still_out_is_named(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    main = [says("", send), says("that is all")]
    settings = {"max_turns": 1}
    explore = [says("late", delay_ms=60_000)]
    async with scripted(tmp_path, settings=settings, main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
    (child,) = outcome.evidence.children
    assert outcome.status is Status.LIMIT_REACHED
    assert outcome.evidence.warnings == (f"the task {child} of Explore had not ended",)


async def test_a_command_that_was_still_running_is_named(tmp_path: Path) -> None:
    begin = call("Bash", command="sleep  300", run_in_background=True)
    settings = {"permission_mode": "dontAsk", "sandbox": "off"}
    async with scripted(tmp_path, settings=settings, main=[says("", begin), says("Begun.")]) as gen:
        outcome = await gen.ask("go").outcome()
        (shell,) = components(gen).session.shells.all().of_task(outcome.agent_id)  # pyright: ignore[reportPrivateUsage]
    (warning,) = outcome.evidence.warnings
    assert f"`sleep 300` ({shell}) was still running at the end" in warning


LOOK = says("", call("Glob", pattern="*"))


async def test_a_reply_that_announces_work_is_asked_for_again_once(tmp_path: Path) -> None:
    turns = [LOOK, says("I will now read the file."), says("It is empty.")]
    async with scripted(tmp_path, Explore=turns) as gen:
        outcome = await gen.task("Explore", "look")
        told = transcript_of(await gen.history.events(outcome.agent_id))
    assert (outcome.status, outcome.result, outcome.turns) == (Status.COMPLETED, "It is empty.", 3)
    assert outcome.evidence.warnings == ()
    assert isinstance(told[-2], UserMessage)
    assert (told[-2].text, told[-2].sender) == (ASK_AGAIN, "system")


async def test_a_second_announcement_is_taken_as_it_is_with_a_warning(tmp_path: Path) -> None:
    turns = [LOOK, says("Let me read it."), says("", call("Glob", pattern="*")), says("Let me read it now:")]
    outcome = await explored(tmp_path, *turns)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "Let me read it now:")
    assert outcome.evidence.warnings == (NOT_DONE,)


async def test_an_announcement_before_any_call_is_an_answer(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("I will now read the file.")]) as gen:
        outcome = await gen.ask("go").outcome()
    assert (outcome.status, outcome.turns, outcome.evidence.warnings) == (Status.COMPLETED, 1, ())


async def test_who_waits_for_results_may_say_so(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
    main = [says("", send), says("Let me look at what it finds."), says("It found one.")]
    async with scripted(tmp_path, main=main, Explore=[says("one", delay_ms=50)]) as gen:
        outcome = await gen.ask("go").outcome()
    assert (outcome.result, outcome.turns, outcome.evidence.warnings) == ("It found one.", 3, ())


class Ending:
    """A model that says one thing and stops for a reason of its own."""

    def __init__(self, text: str, stop: str) -> None:
        self._text = text
        self._stop = stop

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """One reply."""
        yield TextPart(self._text)
        yield EndPart(request.model, self._stop)


@pytest.mark.parametrize(
    ("text", "stop", "status", "error"),
    [
        ("whole", "end_turn", Status.COMPLETED, None),
        ("whole", "", Status.COMPLETED, None),
        (" \n", "end_turn", Status.EMPTY, None),
        ("hal", "max_tokens", Status.LIMIT_REACHED, "the reply reached the model's limit of output tokens"),
        ("I c", "refusal", Status.FAILED, "the model's vendor withheld the answer"),
    ],
)
async def test_only_a_whole_answer_is_a_success(
    tmp_path: Path, text: str, stop: str, status: Status, error: str | None
) -> None:
    async with GenCode.open(tmp_path, model=Ending(text, stop), store=MemoryStore()) as gen:
        outcome = await gen.task("Explore", "look")
    assert (outcome.status, outcome.error, outcome.success) == (status, error, status is Status.COMPLETED)
    assert outcome.result == text.strip()


async def test_what_an_empty_answer_leaves_is_the_last_text_there_was(tmp_path: Path) -> None:
    outcome = await explored(tmp_path, says("I found it.", call("Glob", pattern="*")), says(" \n"))
    assert (outcome.status, outcome.result) == (Status.EMPTY, "I found it.")
