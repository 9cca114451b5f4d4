"""Seed 001, the Task tool: research stays out of the main context, agents run side by side, and can go on."""

from pathlib import Path
from typing import Any

from tests.interfaces.cli.running import gen, script
from tests.stories.seeds import answers, auth_project, on_disk, transcript

from gencode import GenCode
from gencode.agent.ports import Request
from gencode.core.status import Status
from gencode.interfaces.render.agent_view import View, fold
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says, scripted

FOUND = "src/auth/errors.py:1 - the class; src/middleware/auth.py:4 - where it is handled"
LOOK = [
    says("", call("Grep", pattern="AuthError", output_mode="content")),
    says("", call("Read", file_path="src/auth/errors.py"), call("Read", file_path="src/middleware/auth.py")),
    says("", call("Read", file_path="notes.txt")),
]
ASK = "Find where authentication errors are handled"


def told_to_main(requests: list[Request]) -> int:
    """How many characters of messages the main model was sent in all."""
    return sum(len(repr(request.messages)) for request in requests if request.agent == "main")


async def overheard(folder: Path, **agents: Any) -> Overhearing:
    provider = Overhearing(ScriptedProvider.of(agents))
    async with GenCode.open(folder, model=provider, store=MemoryStore()) as gen:
        assert (await gen.ask(ASK).outcome()).status is Status.COMPLETED
    return provider


async def test_delegated_research_costs_the_main_context_less_than_half(tmp_path: Path) -> None:
    auth_project(tmp_path)
    (tmp_path / "notes.txt").write_text("".join(f"line {n} of some notes\n" for n in range(400)))
    send = says("", call("Task", subagent_type="Explore", description="Find auth error handling", prompt=ASK))
    alone = await overheard(tmp_path, main=[*LOOK, says(FOUND)])
    apart = await overheard(tmp_path, main=[send, says(FOUND)], Explore=[*LOOK, says(FOUND)])
    assert told_to_main(apart.requests) < 0.45 * told_to_main(alone.requests)
    assert "line 7 of some notes" not in repr([each for each in apart.requests if each.agent == "main"])


async def test_agents_of_one_reply_run_side_by_side_and_a_screen_knows_all_of_them(tmp_path: Path) -> None:
    tasks = [
        call("Task", subagent_type="Explore", description=title, prompt=f"Look for {title}", model=model)
        for title, model in (("Auth", "haiku"), ("Authorization", "sonnet"))
    ]
    main = [says("I search for both.", *tasks), says("Found both.")]
    view, during = View(), list[int]()
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, main=main, Explore=[says("5 files", delay_ms=200)]) as gen,
    ):
        async for event in gen.ask("Find authentication and authorization code"):
            view = fold(view, event)
            during.append(sum(each.status is Status.RUNNING for each in view.agents.values() if each.parent))
    assert max(during) == 2
    (root, first, second) = view.agents.values()
    assert [(each.agent, each.title, each.status, each.result) for each in (first, second)] == [
        ("Explore", "Auth", Status.COMPLETED, "5 files"),
        ("Explore", "Authorization", Status.COMPLETED, "5 files"),
    ]
    assert (first.parent, first.turns, bool(first.model)) == (root.id, 1, True)
    assert first.elapsed(second.ended_at or "") > 0


def test_the_result_of_a_task_has_the_fields_of_the_source(tmp_path: Path) -> None:
    auth_project(tmp_path)
    model = script(tmp_path, Explore=[says("", call("Grep", pattern="AuthError")), says(FOUND)])
    done = gen("task", "run", "Explore", ASK, "--model", model, "--json", cwd=tmp_path)
    told = done.json
    assert (done.code, told["success"], told["result"], told["error"]) == (0, True, FOUND, None)
    assert (len(told["agentId"]), told["outputFile"], told["evidence"]["toolCalls"]) == (8, None, 1)
    behind = gen("task", "run", "Explore", ASK, "--background", "--model", model, "--json", cwd=tmp_path).json
    waited = gen("task", "output", f"agent-{behind['agentId']}", "--json", cwd=tmp_path).json
    assert (waited["status"], waited["result"], waited["background"]) == ("completed", FOUND, True)
    assert FOUND in Path(waited["outputFile"]).read_text()
    again = gen("task", "resume", told["agentId"], "And now?", "--json", cwd=tmp_path).json
    assert (again["agentId"], again["success"]) == (told["agentId"], True)


async def test_an_agent_goes_on_where_it_was_in_a_later_conversation_turn(tmp_path: Path) -> None:
    first = says("", call("Task", subagent_type="Plan", prompt="Plan the migration"))
    again = says("", call("Task", subagent_type="Plan", prompt="Now the tests", resume="00000002"))
    main = [first, says("Planned."), again, says("Planned all.")]
    plan = [says("1. Move it."), says("2. Test it.")]
    async with on_disk() as store:
        async with scripted(tmp_path, store=store, main=main, Plan=plan) as gen:
            session = (await gen.ask("plan").outcome()).agent_id
        async with scripted(tmp_path, store=store, main=main, Plan=plan) as gen:
            outcome = await gen.ask("and the tests", session=session).outcome()
            told = answers(await transcript(gen, session))
            child = await gen.get("00000002")
    assert (outcome.result, told, child.turns) == ("Planned all.", ["1. Move it.", "2. Test it."], 2)
