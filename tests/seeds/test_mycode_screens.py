"""What a person sees of subagents: panels, agents side by side, background work."""

from pathlib import Path
from typing import Any

import pytest

from gencode.testing import call, says
from tests.interfaces.cli.running import in_terminal, script
from tests.interfaces.tui.driving import seated, turns
from tests.seeds.rows import seed

FOUND = "src/auth/errors.py (AuthError class)"
QUICK = [says("", call("Glob", pattern="*.py")), says(FOUND)]
SLOW = [says("never said", delay_ms=600_000)]


def sent(title: str, **more: Any) -> dict[str, Any]:
    return call("Task", subagent_type="Explore", prompt=f"look for {title}", description=title, **more)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `gen -p` shows in a terminal without colours: two agents side by side, one in the background."""
    folder = tmp_path_factory.mktemp("shown")
    main = [
        says("I search for both.", sent("Auth"), sent("Authorization")),
        says("", sent("Later", run_in_background=True)),
        says("It runs."),
        says("Done."),
    ]
    model = script(folder, main=main, Explore=QUICK)
    return in_terminal("-p", "go", "--model", model, cwd=folder, columns=100, TERM="dumb").out


@seed("001", "Panel `Launching Subagent` Type/Task/Model", use="`gen -p` on a terminal")
def test_a_panel_shows_which_agent_starts_with_which_task_and_model(shown: str) -> None:
    panel = shown[shown.index("Launching Subagent") :].splitlines()[1:4]
    for line, (label, value) in zip(
        panel, (("Type:", "Explore"), ("Task:", "Auth"), ("Model:", "scripted:")), strict=True
    ):
        assert label in line
        assert value in line


@seed("001", "`[Explore agent working...]`", use="`gen -p` on a terminal")
def test_a_line_says_that_the_agent_is_working(shown: str) -> None:
    assert "[Explore agent working…]" in shown


@seed("001", "Panel `Subagent Result`", use="`gen -p` on a terminal")
def test_a_panel_shows_what_the_agent_found(shown: str) -> None:
    panel = shown[shown.index("Subagent Result · Explore: Auth ") :].splitlines()
    assert FOUND in panel[1]
    assert any("completed · 2 turns" in line for line in panel[:6])


@seed("001", "`[Launching 2 Explore agents in parallel...]`", use="`gen -p` on a terminal")
def test_a_line_says_how_many_agents_start_side_by_side(shown: str) -> None:
    assert "[Launching 2 Explore agents in parallel…]" in shown


@seed("001", "Panels `Agent 1: Auth` with status and finding", use="`gen`: a line for each agent")
async def test_each_of_several_agents_is_shown_with_its_status_and_finding(tmp_path: Path) -> None:
    main = [says("", sent("Auth"), sent("Authorization")), says("Done.")]
    async with seated(tmp_path, script=turns(main=main, explore=QUICK)) as seat:
        await seat.type("go")
        await seat.rests()
        lines = [line.strip() for line in seat.screen.splitlines()]
    for title in ("Auth ", "Authorization "):
        (at,) = [number for number, line in enumerate(lines) if line.startswith(f"✓ Explore  {title}")]
        assert FOUND in lines[at + 1]


@seed(
    "001",
    "`[Task running in background: agent-…]` + `/task-status` hint",
    use="`gen -p` on a terminal; `/task-status ID` in `gen`",
)
def test_a_line_says_what_runs_in_the_background_and_how_to_look_at_it(shown: str) -> None:
    _, _, line = shown.partition("[Task running in background: agent-")
    agent = line[:8]
    assert line.splitlines()[0] == f"{agent}] Progress: gen task show {agent}"


@seed("001", "`/task-status ID`", use="/task-status 9f3a")
async def test_task_status_shows_a_running_and_an_ended_task(tmp_path: Path) -> None:
    main = [says("", sent("auth", run_in_background=True)), says("You can continue.")]
    async with seated(tmp_path, script=turns(main=main, explore=SLOW)) as seat:
        await seat.type("go")
        await seat.until(lambda: any(each.parent for each in seat.chat.view.agents.values()), "an agent")
        agent = next(each.id for each in seat.chat.view.agents.values() if each.parent)
        await seat.type(f"/task-status agent-{agent}")
        await seat.until(lambda: len(seat.app.screen_stack) > 1, "the page")
        await seat.assert_sees("running")
        await seat.press("escape")
        await seat.chat.gen.stop(agent)
        await seat.type(f"/task-status {agent[:4]}")
        await seat.assert_sees("cancelled")
