"""The system prompt of an agent: its parts, and where the task stands."""

from datetime import datetime
from pathlib import Path

from gencode.testing import says
from tests.seeds.playing import asks_for, play, task
from tests.seeds.rows import seed
from tests.stories.agent_file import write_agent


async def prompt_of(folder: Path, agent: str, mode: str = "default") -> str:
    """The system prompt that an agent is sent."""
    played = await play(
        folder, asks_for(task(agent)), settings={"permission_mode": mode}, others=[says("Done.")]
    )
    return played.requests_of(agent)[0].system


@seed("000", "1 Identity", use="gen task show ID")
async def test_an_agent_is_told_that_it_is_a_subagent_of_gencode(tmp_path: Path) -> None:
    first = (await prompt_of(tmp_path, "Explore")).splitlines()[0]
    assert first.startswith("You are Explore, a subagent of GenCode, a coding assistant.")


@seed("000", "4 Mode plan / dontAsk", use='gen task run general-purpose "…" --permission-mode dontAsk')
async def test_the_mode_is_explained_to_the_agent(tmp_path: Path) -> None:
    reads, acts = await prompt_of(tmp_path, "Explore"), await prompt_of(tmp_path, "Bash", "dontAsk")
    assert "Change nothing" in reads
    assert "without approval" in acts
    assert "Change nothing" not in acts


@seed("000", "5 `## Additional Instructions`", use="the text below the front matter of `.gen/agents/NAME.md`")
async def test_the_body_of_a_file_is_in_the_prompt_as_it_is(tmp_path: Path, home: Path) -> None:
    body = "# Tester\n\nYou run tests.\n\n## Rules\n- Never skip one."
    write_agent(home, "tester", "Read", body)
    assert body in await prompt_of(tmp_path, "tester")


@seed("000", "6 Environment: directory, platform, date", use="gen task show ID")
async def test_the_environment_names_the_folder_the_system_and_the_day(tmp_path: Path) -> None:
    prompt = await prompt_of(tmp_path, "Explore")
    _, _, environment = prompt.partition("## Environment")
    assert str(tmp_path) in environment
    assert "- System: " in environment
    assert str(datetime.now().astimezone().year) in environment


@seed("000", "7 Guidelines", use="gen task show ID")
async def test_an_agent_is_told_to_finish_to_report_and_to_admit_errors(tmp_path: Path) -> None:
    prompt = await prompt_of(tmp_path, "Explore")
    for words in ("## How to work", "## Report", "`path:line`"):
        assert words in prompt
