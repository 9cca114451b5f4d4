"""How far an agent's mode reaches: grants, ceilings, switches of the mode while agents run."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode, Outcome, ToolContext, tool
from gencode.agent.tool_calls import CHANGED
from gencode.core.events import CallDecided, TaskCreated
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.questions import Answer, Question
from gencode.core.rules import Action, DecidedBy, Mode
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.journal.store import Store
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says

SEND = call("Task", subagent_type="autonomous", prompt="deploy it")
GRANTED = (
    "Task: the agent 'autonomous' works in the wider mode dontAsk: if approved, it may run any command and "
    "change any file without asking, except where a rule says otherwise."
)


class Person:
    """Answers every question alike, and keeps what was asked."""

    def __init__(self, answer: bool) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question.decision.why)
        return Answer(self._answer)


@tool(effect="execute")
async def deploy(ctx: ToolContext) -> str:
    """Send it out."""
    return "deployed"


@pytest.fixture(autouse=True)
def autonomous(home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    for name, more in (("autonomous", "permission-mode: dontAsk\n"), ("modest", "")):
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: Works.\n{more}---\nWork.\n")


@asynccontextmanager
async def opened(
    folder: Path,
    turns: Mapping[str, Sequence[Any]],
    person: Person | None = None,
    store: Store | None = None,
    **settings: Any,
) -> AsyncGenerator[GenCode, None]:
    provider = Overhearing(ScriptedProvider.of(turns))
    store = store or MemoryStore()
    given: dict[str, Any] = {"model": provider, "settings": settings, "store": store, "asker": person}
    async with GenCode.open(folder, tools=[deploy], **given) as gen:
        yield gen


async def decisions(gen: GenCode, task: str) -> list[CallDecided]:
    return [event.fact for event in await gen.history.events(task) if isinstance(event.fact, CallDecided)]


async def only_child(gen: GenCode, parent: Outcome) -> Outcome:
    (child,) = await gen.tasks(parent=parent.agent_id)
    return child


async def notes(gen: GenCode, task: str) -> list[str]:
    told = transcript_of(await gen.history.events(task))
    return [each.text for each in told if isinstance(each, UserMessage) and each.sender == "system"]


DEPLOYS = [says("", call("deploy")), says("done")]
SENDS = [says("", SEND), says("sent")]


async def test_a_yes_to_a_wider_agent_is_a_grant_that_lives_with_the_task(tmp_path: Path) -> None:
    person = Person(True)
    async with opened(tmp_path, {"main": SENDS, "autonomous": DEPLOYS}, person) as gen:
        child = await only_child(gen, await gen.ask("go").outcome())
        (decided,) = await decisions(gen, child.agent_id)
        created = (await gen.history.events(child.agent_id))[0].fact
        kept = await gen.history.task(child.agent_id)
        assert await notes(gen, child.agent_id) == []
    assert person.asked == [GRANTED]
    assert (decided.decision.action, decided.chain) == (
        Action.ALLOW,
        ("session by grant: dontAsk", "agent autonomous: dontAsk"),
    )
    assert isinstance(created, TaskCreated)
    assert (created.grant, kept and kept.created.grant) == (Mode.DONT_ASK, Mode.DONT_ASK)
    assert [policy.mode for policy in created.policies] == [Mode.DEFAULT, Mode.DONT_ASK]


async def test_a_grant_is_still_there_when_the_task_is_read_again(tmp_path: Path) -> None:
    given: dict[str, Any] = {"model": ScriptedProvider.of({"main": SENDS, "autonomous": DEPLOYS})}
    async with GenCode.open(tmp_path, tools=[deploy], asker=Person(True), **given) as gen:
        child = await only_child(gen, await gen.ask("go").outcome())
    async with GenCode.open(tmp_path, **given) as again:
        assert (await again.find(child.agent_id)).created.grant is Mode.DONT_ASK


async def test_a_no_sends_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path, {"main": SENDS}, Person(False)) as gen:
        outcome = await gen.ask("go").outcome()
        assert await gen.tasks(parent=outcome.agent_id) == []
        assert [each.decision.action for each in await decisions(gen, outcome.agent_id)] == [
            Action.ASK,
            Action.DENY,
        ]


async def test_a_wider_agent_is_granted_once_in_a_session_for_one_sender(tmp_path: Path) -> None:
    person = Person(True)
    twice = [says("", SEND), says("", SEND), says("sent")]
    async with opened(tmp_path, {"main": twice, "autonomous": DEPLOYS}, person) as gen:
        first = await gen.ask("go").outcome()
        grants = [
            (await gen.find(each.agent_id)).created.grant for each in await gen.tasks(parent=first.agent_id)
        ]
        await gen.ask("another conversation asks anew").outcome()
    assert grants == [Mode.DONT_ASK, Mode.DONT_ASK]
    assert person.asked == [GRANTED, GRANTED]


@pytest.mark.parametrize(("file", "flags"), [("", ["Task"]), ('allow = ["Task(autonomous)"]', [])])
async def test_an_allow_rule_sends_the_agent_but_grants_nothing(
    tmp_path: Path, home: Path, file: str, flags: list[str]
) -> None:
    """Only one that names the agent for this very run does."""
    (home / ".gen").mkdir(exist_ok=True)
    (home / ".gen" / "settings.toml").write_text(file)
    person = Person(False)
    turns = {"main": SENDS, "autonomous": DEPLOYS}
    async with opened(tmp_path, turns, person, allow=flags) as gen:
        child = await only_child(gen, await gen.ask("go").outcome())
        assert (await gen.find(child.agent_id)).created.grant is None
        (note,), asked = await notes(gen, child.agent_id), [*person.asked]
        await gen.resume(child.agent_id, "go on")
        assert await notes(gen, child.agent_id) == [note], "what it was told once it knows"
    assert note.startswith("[This agent's mode dontAsk is limited by session, which runs in mode default")
    assert note in child.evidence.warnings
    assert asked == ["deploy: an added tool that does more than read needs approval."]


async def test_an_ask_rule_does_not_hide_what_a_yes_would_grant(tmp_path: Path) -> None:
    person = Person(True)
    turns = {"main": SENDS, "autonomous": DEPLOYS}
    async with opened(tmp_path, turns, person, ask=["Task"]) as gen:
        await gen.ask("go").outcome()
    (asked,) = person.asked
    assert asked.startswith("Task: the rule ask Task(*) from the flag --ask matches. Also, the agent")
    assert "wider mode dontAsk" in asked


@pytest.mark.parametrize(("mode", "agent"), [("plan", "autonomous"), ("default", "modest")])
async def test_nothing_is_granted_where_it_would_lift_nothing(tmp_path: Path, mode: str, agent: str) -> None:
    person = Person(True)
    sends = [says("", call("Task", subagent_type=agent, prompt="x")), says("sent")]
    async with opened(tmp_path, {"main": sends, agent: [says("ok")]}, person, permission_mode=mode) as gen:
        child = await only_child(gen, await gen.ask("go").outcome())
        assert (await gen.find(child.agent_id)).created.grant is None
    assert person.asked == [f"Task: starting '{agent}' needs approval once per session."]


async def test_where_nobody_can_be_asked_the_agent_runs_without_a_grant(tmp_path: Path) -> None:
    async with opened(tmp_path, {"main": SENDS, "autonomous": DEPLOYS}) as gen:
        child = await only_child(gen, await gen.ask("go").outcome())
        (decided,) = await decisions(gen, child.agent_id)
        assert (await gen.find(child.agent_id)).created.grant is None
    assert (decided.decision.action, decided.decision.policy) == (Action.DENY, "session")


async def test_the_ceiling_is_what_the_agents_prompt_tells(tmp_path: Path) -> None:
    provider = Overhearing(ScriptedProvider.of({"autonomous": [says("ok")]}))
    async with GenCode.open(tmp_path, model=provider, store=MemoryStore()) as gen:
        await gen.task("autonomous", "x")
    assert "## Permissions: default" in provider.requests[0].system


class Later:
    """Tools that need the GenCode they are given to."""

    gen: GenCode


async def run_switched(folder: Path, before: str, after: Mode, *turns: Any) -> list[CallDecided]:
    later = Later()

    @tool(effect="execute")
    async def switch(ctx: ToolContext) -> str:
        """The person changes the mode while the agents run."""
        later.gen.switch_mode(after)
        return "switched"

    script = {"main": [says("", call("Task", subagent_type="modest", prompt="x")), says("")], "modest": turns}
    given: dict[str, Any] = {"model": ScriptedProvider.of(script), "settings": {"permission_mode": before}}
    async with GenCode.open(folder, tools=[deploy, switch], store=MemoryStore(), **given) as gen:
        later.gen = gen
        child = await only_child(gen, await gen.ask("go").outcome())
        told = transcript_of(await gen.history.events(child.agent_id))
        assert sum(len(each.results) for each in told if isinstance(each, ToolMessage)) == 3
        return await decisions(gen, child.agent_id)


async def test_a_switch_of_the_mode_reaches_agents_that_run(tmp_path: Path) -> None:
    turns = [says("", call("deploy")), says("", call("switch")), says("", call("deploy")), says("done")]
    found = await run_switched(tmp_path, "dontAsk", Mode.PLAN, *turns)
    assert [(each.tool, each.decision.action, each.chain) for each in found] == [
        ("deploy", Action.ALLOW, ("session: dontAsk", "agent modest: dontAsk")),
        ("switch", Action.ALLOW, ("session: dontAsk", "agent modest: dontAsk")),
        ("deploy", Action.DENY, ("session: plan", "agent modest: plan")),
    ]


async def test_a_switch_between_the_decision_and_the_run_refuses_the_call_and_is_written_down(
    tmp_path: Path,
) -> None:
    turns = [says("", call("switch"), call("deploy"), call("deploy")), says("done")]
    found = await run_switched(tmp_path, "dontAsk", Mode.DEFAULT, *turns)
    assert [(each.tool, each.decision.action) for each in found] == [
        ("switch", Action.ALLOW),
        ("deploy", Action.ALLOW),
        ("deploy", Action.ALLOW),
        ("deploy", Action.DENY),
        ("deploy", Action.DENY),
    ]
    assert found[-1].decision.why.endswith(CHANGED)
    assert found[-1].chain == ("session: default", "agent modest: default")


async def test_a_background_agent_asks_nobody(tmp_path: Path) -> None:
    person = Person(True)
    async with opened(tmp_path, {"modest": DEPLOYS}, person, background_questions=False) as gen:
        job = await gen.start_task(TaskRequest("modest", "x", background=True))
        outcome = await gen.outcome(job)
        (decided,) = await decisions(gen, outcome.agent_id)
    assert (outcome.background, decided.decision.action, person.asked) == (True, Action.DENY, [])
    assert decided.decision.by is DecidedBy.NOBODY


async def test_a_call_that_waits_for_a_person_holds_up_no_call_beside_or_before_it(tmp_path: Path) -> None:
    looked = asyncio.Event()

    @tool(effect="read")
    async def look(ctx: ToolContext) -> str:
        """Look."""
        looked.set()
        return "seen"

    class Slow(Person):
        async def ask(self, question: Question) -> Answer:
            await asyncio.wait_for(looked.wait(), 60)
            return await super().ask(question)

    person = Slow(True)
    modest = call("Task", subagent_type="modest", prompt="look")
    turns = {
        "main": [says("", SEND, modest, SEND), says("", call("look"), call("deploy")), says("sent")],
        "autonomous": DEPLOYS,
        "modest": [says("", call("look")), says("looked")],
    }
    model = ScriptedProvider.of(turns)
    told = {"allow": ["Task(modest)"]}
    async with GenCode.open(tmp_path, tools=[deploy, look], model=model, asker=person, settings=told) as gen:
        outcome = await gen.ask("go").outcome()
        sent = [each.status for each in await gen.tasks(parent=outcome.agent_id)]
    assert (outcome.result, sent) == ("sent", [Status.COMPLETED] * 3)
    assert person.asked[0] == GRANTED and len(person.asked) == 2  # once for both, and for deploy
