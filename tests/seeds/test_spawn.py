"""Spawn: work beside a conversation, whose result is announced where it was asked for."""

import re
from pathlib import Path
from typing import Any

from gencode import GenCode
from gencode.channels.address import Address
from gencode.core.messages import UserMessage
from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks.delivery import TELL_THE_USER
from gencode.testing import Overhearing, call, says, scripted
from tests.seeds.playing import FIRST, Played, numbered, play
from tests.seeds.rows import seed
from tests.seeds.setup import on_disk, posts
from tests.seeds.type_files import ours
from tests.stories.agent_file import write_agent
from tests.virtual_clock import virtual_time

TURNED_ON = {"tools": ["spawn", "message", "cron"]}
FREE = {**TURNED_ON, "permission_mode": "dontAsk"}
CATS = call("spawn", task="count the cats", label="cats")


class Person:
    """Somebody who sits there and answers every question in the same way."""

    def __init__(self, *, allows: bool) -> None:
        self._allows = allows
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Answer:
        """Answer at once."""
        self.asked.append(question.call.name)
        return Answer(self._allows)


async def spawned(folder: Path, *turns: dict[str, Any], spawn: dict[str, Any] = CATS, **more: Any) -> Played:
    """A conversation that spawns one agent, which has these turns."""
    main = [says("", spawn), says("It works."), says("Cats are fine.")]
    settings = {**FREE, **more.pop("settings", {})}
    return await play(folder, main, settings=settings, general_purpose=turns or [says("3 cats")], **more)


def announced(played: Played) -> UserMessage:
    """The only message about what was spawned."""
    (post,) = posts(played.messages)
    return post


@seed("004", "spawn {task, label}", use='`GEN_TOOLS=spawn gen`; then spawn(task="…", label="cats")')
async def test_spawn_is_on_by_one_setting_that_its_error_names(tmp_path: Path) -> None:
    off = await play(tmp_path, [says("", CATS), says("I cannot.")])
    assert off.results[0].error and "GEN_TOOLS=spawn" in off.results[0].text
    on = await spawned(tmp_path)
    assert (on.task.description, on.task.prompt) == ("cats", "count the cats")
    empty = await play(tmp_path, [says("", call("spawn", task=" ")), says("Oh.")], settings=FREE)
    assert empty.results[0].error and empty.tasks == []


@seed("004", "Label left out", use='spawn(task="…")')
async def test_without_a_label_the_beginning_of_the_task_is_one(tmp_path: Path) -> None:
    long = "count all the cats in all the gardens of the town"
    played = await spawned(tmp_path, spawn=call("spawn", task=long))
    assert played.results[0].text.startswith(f"Subagent [{long[:39]}…] started")


@seed("004", "8-hex id", use="gen task show 9f3a1c2e")
async def test_a_spawned_agent_has_an_id_of_eight_digits(tmp_path: Path) -> None:
    async with scripted(
        tmp_path, settings=FREE, main=[says("", CATS), says("ok"), says("ok")], others=[says("3 cats")]
    ) as gen:
        await gen.ask("go").outcome()
        (made,) = await gen.tasks()
    assert re.fullmatch("[0-9a-f]{8}", made.agent_id)


@seed("004", '"Subagent [label] started (id: …)" at once', use='spawn(task="…", label="cats")')
@virtual_time
async def test_the_call_is_answered_at_once(tmp_path: Path) -> None:
    played = await spawned(tmp_path, says("3 cats", delay_ms=60_000))
    assert played.results[0].text == f"Subagent [cats] started (id: {FIRST})\n1 running"


@seed("004", "Detached: survives the request", use="Esc ends the turn; the spawned agent works on")
@virtual_time
async def test_a_spawned_agent_outlives_the_turn_that_started_it(tmp_path: Path) -> None:
    main = [says("", CATS), says("slow", delay_ms=600_000), says("Cats are fine.")]
    async with (
        on_disk() as store,
        scripted(
            tmp_path, store=store, settings=FREE, main=main, others=[says("3 cats", delay_ms=60_000)]
        ) as gen,
    ):
        turn = await gen.start_turn("go")
        while not await gen.tasks():
            await gen.history.changes.after(gen.history.changes.count, 1.0)
        await gen.interrupt(turn.id)
        done = await gen.history.ended(FIRST)
    assert (done.status, done.result) == (Status.COMPLETED, "3 cats")


@seed("004", "Cancel function / running map", use="`TaskStop`, `gen task stop ID`, `x` in the agent tree")
@virtual_time
async def test_a_spawned_agent_can_be_stopped(tmp_path: Path) -> None:
    main = [says("", CATS), says("", call("TaskStop", task_id=FIRST)), says("Stopped."), says("Stopped.")]
    slow = [says("x", delay_ms=600_000)]
    played = await play(tmp_path, main, settings=FREE, general_purpose=slow)
    assert played.task.status is Status.CANCELLED


@seed("004", "RunningCount", use="The answer of each `spawn` says how many are running")
@virtual_time
async def test_the_answer_counts_what_is_running(tmp_path: Path) -> None:
    spawns = says("", *(call("spawn", task=f"count {each}") for each in ("cats", "dogs", "cows")))
    main = [spawns, *[says("ok")] * 4]
    played = await play(tmp_path, main, settings=FREE, others=[says("3", delay_ms=60_000)])
    assert [each.text.split("\n")[1] for each in played.results] == ["1 running", "2 running", "3 running"]


@seed(
    "004",
    "Announcement \"[Subagent 'x' completed/failed] Task: Result:\"",
    use='spawn(task="…", label="cats")',
)
async def test_the_end_is_announced_with_the_task_and_the_result(tmp_path: Path) -> None:
    well, badly = await spawned(tmp_path), await spawned(tmp_path, says("", error="no luck"))
    text = announced(well).text
    assert text == f"[Subagent 'cats' completed]\nTask: count the cats\nResult:\n3 cats\n\n{TELL_THE_USER}"
    assert announced(badly).text.startswith("[Subagent 'cats' failed]\nTask: count the cats\nResult: ")


@seed("004", "To the origin channel:chat", use="POST /api/conversations/telegram/42")
async def test_the_result_goes_to_where_the_conversation_came_from(tmp_path: Path) -> None:
    main = [says("", call("message", content="I begin.")), says("", CATS), says("ok"), says("Fine.")]
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, settings=FREE, main=main, others=[says("3 cats")]) as gen,
    ):
        sent: list[tuple[str, str]] = []

        class Phone:
            async def send(self, chat: str, text: str, mark: str) -> None:
                sent.append((chat, text))

        gen.outbox.register("phone", Phone())
        turn = await gen.start_turn("go", named="000000aa")
        gen.reply_through(turn.id, Address("phone", "+41"))
        outcome = await gen.outcome(turn)
    assert outcome.result == "Fine."
    assert sent == [("+41", "I begin.")]


@seed("004", "As system message of the subagent", use="gen task show ID --json")
async def test_the_announcement_is_a_message_of_the_system_that_names_the_task(tmp_path: Path) -> None:
    post = announced(await spawned(tmp_path))
    assert (post.sender, post.delivers) == ("system", (FIRST,))


@seed("004", "Main agent makes one more call and tells", use="gen -p … with `GEN_TOOLS=spawn`")
async def test_the_main_agent_sums_up_what_came_back(tmp_path: Path) -> None:
    played = await spawned(tmp_path)
    assert [each.agent for each in played.requests].count("main") == 3
    assert played.outcome.result == "Cats are fine."


@seed("004", "Tools read/write/edit/list/exec/search/fetch", use="general-purpose has them all")
async def test_a_spawned_agent_has_the_tools_of_the_seed(tmp_path: Path) -> None:
    offered = (await spawned(tmp_path)).offered("general-purpose")
    seeds = ours("read_file", "write_file", "edit_file", "web_search")
    assert seeds | {"Bash", "WebFetch"} <= set(offered)


@seed(
    "004",
    "… and they can be used",
    use="The person at the screen approves; a refused call is shown and reported",
)
async def test_the_person_who_sits_there_approves_what_a_spawned_agent_does(tmp_path: Path) -> None:
    turns = (
        says("", call("list_dir", path="."), call("write_file", path="a.txt", content="a\n")),
        says("", call("exec", command="echo b > b.txt")),
        says("Done."),
    )
    ask = {"permission_mode": "default"}
    yes = Person(allows=True)
    allowed = await spawned(tmp_path, *turns, settings=ask, asker=yes)
    assert [each.error for each in allowed.results_of(FIRST)] == [False] * 3
    assert yes.asked == ["spawn", "write_file", "exec"]
    assert (tmp_path / "a.txt").exists() and (tmp_path / "b.txt").exists()
    alone = await spawned(tmp_path, *turns, settings={**ask, "allow": ["spawn"]})
    assert [each.tool for each in alone.task.evidence.refused] == ["write_file", "exec"]
    (posted,) = [each for each in alone.messages if isinstance(each, UserMessage) and each.delivers]
    assert "2 calls refused" in posted.text


@seed("004", "No message", use="A spawned agent has no `message`")
async def test_a_spawned_agent_sends_no_messages(tmp_path: Path) -> None:
    played = await spawned(tmp_path, says("", call("message", content="hello")), says("Done."))
    assert played.results_of(FIRST)[0].error and "message" not in played.offered("general-purpose")


@seed("004", "No spawn", use="A spawned agent has no `spawn`")
async def test_a_spawned_agent_spawns_nobody(tmp_path: Path) -> None:
    played = await spawned(tmp_path, says("", call("spawn", task="more")), says("Done."))
    assert played.results_of(FIRST)[0].error and len(played.tasks) == 1
    assert {"spawn", "spawn_subagent", "Task"}.isdisjoint(played.offered("general-purpose"))


@seed("004", "No cron", use="A spawned agent has no `cron`")
async def test_a_spawned_agent_plans_nothing(tmp_path: Path) -> None:
    played = await spawned(tmp_path, says("", call("cron", action="list")), says("Done."))
    assert played.results_of(FIRST)[0].error and "cron" not in played.offered("general-purpose")


@seed("004", "No history shared", use='spawn(task="everything it needs to know")')
async def test_a_spawned_agent_begins_with_its_task_alone(tmp_path: Path) -> None:
    played = await spawned(tmp_path, prompt="A long story")
    (request,) = played.requests_of("general-purpose")
    assert request.messages == (UserMessage("count the cats"),)
    assert "A long story" not in request.system


@seed(
    "004", "Prompt: current time and timezone", use="In the prompt of a spawned agent; others have the date"
)
async def test_the_prompt_has_the_time_and_its_zone(tmp_path: Path) -> None:
    system = (await spawned(tmp_path)).requests_of("general-purpose")[0].system
    assert re.search(r"\d{4}-\d\d-\d\d \(\w+\) \d\d:\d\d .*UTC", system)


@seed("004", "Prompt: role, rules, capabilities, workspace, OS", use="In the prompt of every agent")
async def test_the_prompt_has_role_rules_workspace_and_system(tmp_path: Path) -> None:
    system = (await spawned(tmp_path)).requests_of("general-purpose")[0].system
    for part in ("a subagent of GenCode", "## How to work", "## Permissions", str(tmp_path), "Linux"):
        assert part.casefold() in system.casefold()


@seed("004", "15 iterations", use='spawn(task="…")')
async def test_a_spawned_agent_has_fifteen_turns(tmp_path: Path) -> None:
    look = [says("", call("Glob", pattern="*")) for _ in range(20)]
    played = await spawned(tmp_path, *look)
    assert (played.task.status, played.task.evidence.tool_calls) == (Status.LIMIT_REACHED, 15)


async def asked_with(folder: Path, more: str, home: Path, **settings: Any) -> Any:
    """How the model of an agent is asked that a leader with these fields spawns."""
    write_agent(home, "lead", "spawn", more=more)
    main = [says("", CATS), says("ok"), says("ok")]
    provider = Overhearing(ScriptedProvider.of({"lead": main, "*": [says("3 cats")]}))
    store = MemoryStore(draw=numbered())
    async with GenCode.open(folder, model=provider, settings={**FREE, **settings}, store=store) as gen:
        await gen.ask("go", agent="lead").outcome()
    (request,) = [each for each in provider.requests if each.agent == "general-purpose"]
    return request


@seed(
    "004", "Same provider, model, temperature", use="`temperature: 0.3` in the file of the agent that leads"
)
async def test_a_spawned_agent_is_asked_as_its_parent_is(tmp_path: Path, home: Path) -> None:
    request = await asked_with(tmp_path, "temperature: 0.3\neffort: low\n", home)
    assert (request.model, request.temperature, request.effort) == ("Overhearing", 0.3, "low")


@seed(
    "004",
    "Same maxTokens",
    use="`max_tokens = 4000` in the settings, `max-tokens: 4000` in a file, `max_tokens` of Task",
)
async def test_a_spawned_agent_has_the_token_limit_of_its_parent(tmp_path: Path, home: Path) -> None:
    assert (await asked_with(tmp_path, "max-tokens: 3000\n", home, max_tokens=4_000)).max_tokens == 3_000
    assert (await asked_with(tmp_path, "", home, max_tokens=4_000)).max_tokens == 4_000
    assert (await asked_with(tmp_path, "", home)).max_tokens is None
