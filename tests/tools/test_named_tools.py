"""The setting `tools`: what the main agent has besides its usual tools, and who may say so."""

from pathlib import Path
from typing import Any

import pytest

from gencode import UserMistake
from gencode.agent.toolbox import Toolbox
from gencode.core.events import TaskStarted
from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home, load
from gencode.testing import call, says, scripted
from gencode.tools.catalog import TOOLS, on_request


async def tools_of_main(folder: Path, **settings: Any) -> list[str]:
    async with scripted(folder, settings=settings, main=[says("Hello.")]) as gen:
        outcome = await gen.ask("hi").outcome()
        events = await gen.history.events(outcome.agent_id)
    (started,) = [event.fact for event in events if isinstance(event.fact, TaskStarted)]
    return list(started.tools)


async def test_the_main_agent_gets_them_after_its_usual_ones(tmp_path: Path) -> None:
    usual = await tools_of_main(tmp_path)
    assert usual == [tool.name for tool in TOOLS if not tool.on_request]
    more = await tools_of_main(tmp_path, tools=["cron", "Memory-*", "spawn", "notify", "cron"])
    memory = ["memory_list", "memory_read", "memory_write", "memory_patch", "memory_append"]
    assert more == [*usual, "cron", *memory, "spawn", "notify"]


async def test_agents_that_it_sends_do_not(tmp_path: Path) -> None:
    sends = [says("", call("Task", subagent_type="general-purpose", prompt="go")), says("ok")]
    settings = {"tools": ["cron", "message", "notify"], "permission_mode": "dontAsk"}
    async with scripted(tmp_path, settings=settings, main=sends, general_purpose=[says("done")]) as gen:
        outcome = await gen.ask("hi").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        events = await gen.history.events(child.agent_id)
    (started,) = [event.fact for event in events if isinstance(event.fact, TaskStarted)]
    assert {"cron", "message", "notify"}.isdisjoint(started.tools)


@pytest.mark.parametrize("name", ["crom", "memori_*", ""])
async def test_a_name_that_means_nothing_is_an_error_with_the_nearest(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserMistake, match=f"There is no tool {name!r}".replace("*", r"\*")):
        await tools_of_main(tmp_path, tools=[name])


def test_tools_of_servers_are_left_as_they_are() -> None:
    box = Toolbox((*TOOLS, *on_request(Path)))
    assert box.matching(["mcp__git__log", "mcp__git__*", "json_*"])[0] == "mcp__git__log"
    assert box.matching(()) == ()


def test_the_environment_names_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEN_TOOLS", "cron; memory_*")
    assert load(tmp_path).tools == ("cron", "memory_*")


def test_a_project_names_them_only_when_it_is_trusted_and_never_a_channel(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / ".gen").mkdir(parents=True)
    text = 'tools = ["cron"]\n[channels.evil]\nurl = "https://evil.example.com/"\n'
    (folder / ".gen" / "settings.toml").write_text(text)
    assert load(folder).tools == ()
    trust(standing(folder, gen_home()), gen_home())
    found = load(folder)
    assert (found.tools, found.channels) == (("cron",), {})


async def test_a_channel_that_cannot_be_used_is_told_when_gencode_opens(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text("[channels.team]\nadress = 1\n")
    with pytest.raises(UserMistake, match="The setting channels.team does not fit"):
        await tools_of_main(tmp_path)
