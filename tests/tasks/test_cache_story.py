"""Results that are given again: when a setting says so, while nothing they rest on has changed."""

import os
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode, components
from gencode.core.errors import StoreUnavailable
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from gencode.core.outcome import Outcome
from gencode.core.questions import Answer, Question, Reach
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks import result_cache as cache
from gencode.testing import Overhearing, call, says, scripted
from gencode.workspaces import content_hash
from tests.tasks.minds import MODEL, say, thinking
from tests.waiting import until

ON = {"result_cache": True}
READS = [says("", call("Read", file_path="a.txt")), says("it says one")]
Meanwhile = Callable[[str], Awaitable[object]]


def marked(outcome: Outcome) -> bool:
    return bool(outcome.answered_from)


async def settled() -> None:
    """Whatever was changed so far was changed before what begins now, also by the clock of the disk."""
    now = time.time()
    await until(
        lambda: time.time() > now + 2 * content_hash.TICK_SECONDS, "the clock of the disk has moved on"
    )


async def asked_thrice(
    folder: Path, change: Callable[[], object], *calls: Mapping[str, Any], **settings: Any
) -> list[bool]:
    """Whether the same work is answered from the journal: at first, a second time, and after a change."""
    found: list[bool] = []
    turns = [says("", *calls), says("so")]
    async with scripted(folder, settings={**ON, **settings}, general_purpose=turns) as gen:
        for before in (None, None, change):
            if before is not None:
                before()
            await settled()
            outcome = await gen.task("general-purpose", "look")
            assert outcome.evidence.refused == ()
            found.append(marked(outcome))
    return found


ONCE_MORE = [False, True, False]
NEVER = [False, False, False]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a file and a folder."""
    inside = tmp_path / "inside"
    (inside / "src").mkdir(parents=True)
    (inside / "a.txt").write_text("one\n")
    (inside / "src" / "b.txt").write_text("two\n")
    return inside


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace, with a file."""
    other = tmp_path / "outside"
    other.mkdir()
    (other / "o.txt").write_text("alpha\n")
    return other


async def test_the_same_work_is_answered_from_the_journal_until_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with scripted(tmp_path, settings=ON, Explore=READS) as gen:
        await settled()
        first = await gen.task("Explore", "what does a.txt say?")
        second = await gen.task("Explore", "what does a.txt say?")
        other = await gen.task("Explore", "what else?")
        (tmp_path / "a.txt").write_text("two\n")
        third = await gen.task("Explore", "what does a.txt say?")
    assert [marked(each) for each in (first, second, other, third)] == [False, True, False, False]
    assert [each.turns for each in (first, second, other, third)] == [2, 0, 2, 2]
    assert (second.success, second.result, second.agent_id != first.agent_id) == (True, "it says one", True)


async def test_another_model_of_the_same_name_is_asked_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that a program brought along are called like their class; two servers may have any model."""
    store, answers = MemoryStore(), list[tuple[str, bool]]()
    for words in ("from one", "from another"):
        own = ScriptedProvider.of({"Explore": [says(words)]})
        async with GenCode.open(tmp_path, model=own, settings=ON, store=store) as gen:
            for _ in range(2):
                outcome = await gen.task("Explore", "who are you?")
                answers.append((outcome.result, marked(outcome)))
    for words in ("from here", "from there"):
        async with (
            thinking(lambda _, words=words: say(words), monkeypatch),
            GenCode.open(tmp_path, model=MODEL, settings=ON, store=store) as gen,
        ):
            for _ in range(2):
                outcome = await gen.task("Explore", "who are you?")
                answers.append((outcome.result, marked(outcome)))
    places = ("from one", "from another", "from here", "from there")
    assert answers == [(words, again) for words in places for again in (False, True)]


async def test_a_task_that_was_answered_from_the_journal_knows_its_answer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    model = Overhearing(ScriptedProvider.of({"Explore": [*READS, says("because")]}))
    async with GenCode.open(tmp_path, model=model, settings=ON, store=MemoryStore()) as gen:
        await settled()
        first, second = [await gen.task("Explore", "what does a.txt say?") for _ in range(2)]
        shown = (await gen.show(second.agent_id)).transcript or []
        assert shown[1:] == [{"role": "assistant", "text": "it says one", "again": first.agent_id}]
        assert (second.turns, second.usage, marked(second)) == (0, type(second.usage)(), True)
        fork = await gen.fork(second.agent_id, "why?")
        again = await gen.resume(second.agent_id, "why?")
    answer = AssistantMessage("it says one", again=first.agent_id)
    for request in model.requests[-2:]:
        assert [each for each in request.messages if each == answer or each == UserMessage("why?")] == [
            answer,
            UserMessage("why?"),
        ]
    assert (fork.turns, again.turns, marked(again)) == (1, 1, False)


async def test_work_that_did_more_than_read_is_done_again(tmp_path: Path) -> None:
    turns = [says("", call("Bash", command="echo hello")), says("said hello")]
    settings = {**ON, "permission_mode": "dontAsk"}
    async with scripted(tmp_path, settings=settings, general_purpose=turns) as gen:
        outcomes = [await gen.task("general-purpose", "say hello") for _ in range(2)]
    assert [(marked(each), each.turns) for each in outcomes] == [(False, 2), (False, 2)]


async def test_without_the_setting_everything_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with scripted(tmp_path, Explore=READS) as gen:
        await settled()
        outcomes = [await gen.task("Explore", "what does a.txt say?") for _ in range(2)]
    assert [(marked(each), each.turns) for each in outcomes] == [(False, 2), (False, 2)]


async def test_what_was_not_there_may_be_there_now(folder: Path) -> None:
    def made() -> None:
        (folder / "missing.txt").write_text("here\n")

    assert await asked_thrice(folder, made, call("Read", file_path="missing.txt")) == NEVER


@pytest.mark.parametrize("tool", ["Grep", "Glob", "LS", "Read"])
async def test_what_lies_outside_of_the_workspace_is_not_known(
    folder: Path, outside: Path, tool: str
) -> None:
    where = {"Read": {"file_path": f"{outside}/o.txt"}, "LS": {"path": str(outside)}}
    wish = call(tool, **where.get(tool, {"pattern": "alpha*", "path": str(outside)}))

    def changed() -> None:
        (outside / "o.txt").write_text("beta\n")
        (outside / "alpha.txt").write_text("alpha\n")

    assert await asked_thrice(folder, changed, wish, permission_mode="dontAsk") == NEVER


async def test_what_git_keeps_is_not_known(folder: Path) -> None:
    def git(*words: str) -> None:
        names = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    listed = call("LS", path=".git/refs/heads")
    assert await asked_thrice(folder, lambda: git("branch", "another"), listed) == NEVER


class Minded:
    """A model that reads a file and answers; before its first answer of all something happens."""

    def __init__(self) -> None:
        self.meanwhile: Meanwhile | None = None

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if not any(isinstance(each, ToolMessage) for each in request.messages):
            yield CallPart(ToolCall("c1", "Read", {"file_path": "a.txt"}))
        else:
            happens, self.meanwhile = self.meanwhile, None
            if happens is not None:
                await happens(request.task)
            yield TextPart("so")
        yield EndPart("minded")


async def twice(folder: Path, meanwhile: Callable[[GenCode], Meanwhile]) -> list[bool]:
    """Whether work is answered from the journal in whose first run something happened."""
    model = Minded()
    async with GenCode.open(folder, model=model, settings=ON, store=MemoryStore()) as gen:
        await settled()
        model.meanwhile = meanwhile(gen)
        found = [marked(await gen.task("Explore", "look")) for _ in range(2)]
        return [*found, marked(await gen.task("Explore", "look"))]


async def test_what_was_said_to_a_task_while_it_worked_was_not_said_to_another(folder: Path) -> None:
    def steers(gen: GenCode) -> Meanwhile:
        return lambda task: gen.send(task, "answer only in French")

    assert await twice(folder, steers) == [False, False, True]


async def test_a_file_that_changed_while_the_task_worked_may_have_been_read_before(folder: Path) -> None:
    def rewrites(_: GenCode) -> Meanwhile:
        async def rewrite(_: str) -> None:
            rewritten(folder / "a.txt", "eno\n")
            await settled()

        return rewrite

    assert await twice(folder, rewrites) == [False, False, True]


@pytest.mark.parametrize(
    "wish",
    [
        call("LS", path="link"),
        call("Glob", pattern="link/*"),
        call("Glob", pattern="*", path="link"),
        call("Grep", pattern="alpha", path="link"),
        call("Read", file_path="link/o.txt"),
    ],
)
async def test_what_a_link_leads_to_is_not_known(folder: Path, outside: Path, wish: dict[str, Any]) -> None:
    (folder / "link").symlink_to(outside)

    def changed() -> None:
        (outside / "o.txt").write_text("alpha beta\n")
        (outside / "p.txt").write_text("alpha\n")

    assert await asked_thrice(folder, changed, wish, permission_mode="dontAsk") == NEVER


async def test_a_link_in_the_workspace_may_lead_elsewhere_tomorrow(folder: Path) -> None:
    (folder / "link.txt").symlink_to("a.txt")

    def led_on() -> None:
        (folder / "link.txt").unlink()
        (folder / "link.txt").symlink_to("src/b.txt")

    assert await asked_thrice(folder, led_on, call("Read", file_path="link.txt")) == NEVER


async def test_a_new_empty_folder_is_something_new(folder: Path) -> None:
    assert await asked_thrice(folder, (folder / "empty").mkdir, call("LS", path=".")) == ONCE_MORE


def rewritten(file: Path, text: str) -> None:
    """Another content of the same size, with the time that the file had."""
    before = file.stat()
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_files_that_were_searched_are_known_by_their_hash(folder: Path) -> None:
    wish = call("Grep", pattern="two")
    assert await asked_thrice(folder, lambda: rewritten(folder / "src/b.txt", "owt\n"), wish) == ONCE_MORE


@pytest.mark.parametrize(
    "wish", [call("Glob", pattern="*.txt", path="src"), call("Grep", pattern="two", path="src")]
)
async def test_a_search_rests_on_the_ignore_files_above_it(folder: Path, wish: dict[str, Any]) -> None:
    def ignored() -> None:
        (folder / ".gitignore").write_text("b.txt\n")

    assert await asked_thrice(folder, ignored, wish) == ONCE_MORE


async def test_a_search_does_not_rest_on_what_it_did_not_look_into(folder: Path) -> None:
    wish = call("Glob", pattern="src/*.txt")
    found = await asked_thrice(folder, lambda: (folder / "a.txt").write_text("three\n"), wish)
    assert found == [False, True, True]


async def test_a_search_through_too_much_is_not_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = call("Grep", pattern="two")
    monkeypatch.setattr(content_hash, "MOST_NAMES", 2)
    assert await asked_thrice(folder, lambda: None, wish) == NEVER
    monkeypatch.setattr(content_hash, "MOST_NAMES", 3)
    monkeypatch.setattr(content_hash, "MOST_BYTES", 7)
    assert await asked_thrice(folder, lambda: None, wish) == NEVER
    monkeypatch.setattr(content_hash, "MOST_BYTES", 8)
    assert await asked_thrice(folder, lambda: None, wish) == [False, True, True]


async def test_a_task_that_was_woken_or_forked_is_no_answer_to_its_first_prompt(folder: Path) -> None:
    async with scripted(folder, settings=ON, Explore=[says("first"), says("second")]) as gen:
        task = await gen.task("Explore", "look")
        await gen.resume(task.agent_id, "and there?")
        fork = await gen.fork(task.agent_id, "or there?")
        again = [await gen.task("Explore", prompt) for prompt in ("look", "and there?", "or there?")]
    assert fork.success
    assert [marked(each) for each in again] == NEVER


async def test_what_was_imported_is_no_answer_to_anything(folder: Path) -> None:
    async with scripted(folder, settings=ON, Explore=READS) as gen:
        await settled()
        exported = await gen.export((await gen.task("Explore", "look")).agent_id)
    async with scripted(folder, settings=ON, Explore=READS) as gen:
        await gen.take_in(exported)
        assert not marked(await gen.task("Explore", "look"))


class Agreeing:
    """A person who says yes to each call."""

    def __init__(self, reach: Reach) -> None:
        self._reach: Reach = reach

    async def ask(self, question: Question) -> Answer:
        return Answer(True, self._reach)


@pytest.mark.parametrize("reach", ["call", "session"])
async def test_what_a_person_agreed_to_is_asked_again(folder: Path, reach: Reach) -> None:
    settings = {**ON, "ask": ["Read(a.txt)"]}
    async with scripted(folder, settings=settings, asker=Agreeing(reach), Explore=READS) as gen:
        await settled()
        outcomes = [await gen.task("Explore", "look") for _ in range(2)]
    assert [(marked(each), each.evidence.files_read) for each in outcomes] == [(False, ("a.txt",))] * 2


async def test_work_around_which_a_hook_runs_is_done_again(folder: Path) -> None:
    hooks = {"PostToolUse": [{"hooks": [{"type": "command", "command": "date"}]}]}
    assert await asked_thrice(folder, lambda: None, call("Read", file_path="a.txt"), hooks=hooks) == NEVER


async def test_an_agent_with_another_file_does_its_own_work(folder: Path) -> None:
    file = Path(os.environ["GEN_HOME"]) / "agents" / "reader.md"
    file.parent.mkdir(parents=True)
    found: list[bool] = []
    async with scripted(folder, settings=ON, reader=READS) as gen:
        await settled()
        for more in ("", "", "effort: high\n", "temperature: 0.5\n"):
            file.write_text(f"---\nname: reader\ndescription: reads\ntools: Read\n{more}---\nRead.\n")
            found.append(marked(await gen.task("reader", "look")))
    assert found == [False, True, False, False]


async def test_no_result_is_lost_because_nobody_can_say_what_it_rests_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("the database cannot be reached")

    monkeypatch.setattr(cache, "readable_events", away)
    async with scripted(folder, settings=ON, Explore=READS) as gen:
        outcome = await gen.task("Explore", "what?")
        assert (outcome.status, outcome.result) == (Status.COMPLETED, "it says one")
        assert not await components(gen).store.owned()
