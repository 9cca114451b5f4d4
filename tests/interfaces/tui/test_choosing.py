"""Choosing from lists, colours and keys from the settings."""

import os
from pathlib import Path

import pytest

from gencode.core.errors import UserMistake
from gencode.core.rules import Mode
from gencode.interfaces.tui.key_settings import key_map
from gencode.testing import call, says
from tests.interfaces.cli.running import gen, script
from tests.interfaces.tui.driving import seated, turns
from tests.interfaces.tui.tmux_terminal import tmux


async def test_modes_models_agents_and_conversations_are_chosen_from_lists(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("first answer"), says("other")])) as setup:
        await setup.type("/mode")
        await setup.assert_sees("Permission mode of all agents")
        await setup.press("up", "enter")
        await setup.until(lambda: setup.app.mode is Mode.PLAN, "the mode above the one that was in effect")
        await setup.type("/model")
        await setup.assert_sees("Model for the next turns")
        await setup.press(*"offline", "enter")
        await setup.until(lambda: setup.app.model_name == "offline-search", "the model")
        await setup.type("/model")
        await setup.press(*"anthropic", "enter")
        await setup.until(lambda: setup.app.main.composer.text == "/model anthropic/", "a name to finish")
        await setup.type("/agents")
        await setup.press(*"explore", "enter")
        await setup.assert_sees("gen agents show Explore")
        await setup.press("escape")
        await setup.type("where is it?")
        await setup.rests()
        first = setup.chat.session
        await setup.type("/new")
        await setup.until(lambda: setup.chat.session is None, "the new conversation")
        await setup.type("/resume")
        await setup.assert_sees("Conversations of this folder")
        await setup.press("enter")
        await setup.until(lambda: setup.chat.session == first, "the conversation")


async def test_a_line_of_a_list_that_is_too_long_is_cut(tmp_path: Path) -> None:
    script = turns(main=[says("ok")])
    async with seated(tmp_path, size=(60, 24), script=script) as setup:
        await setup.type("where is the very first function of this program?")
        await setup.rests()
        await setup.type("/resume")
        await setup.assert_sees("Conversations of this folder")
        listed = [line for line in setup.screen.splitlines() if "completed" in line]
        assert len(listed) == 1 and listed[0].rstrip(" │").endswith("…")


async def test_init_asks_the_agent_to_write_the_instructions_of_the_folder(tmp_path: Path) -> None:
    write = call("Write", file_path="AGENTS.md", content="Run make test.\n")
    script = turns(main=[says("", write), says("written")])
    async with seated(tmp_path, settings={"permission_mode": "acceptEdits"}, script=script) as setup:
        await setup.type("/init")
        await setup.assert_sees("written")
    assert (tmp_path / "AGENTS.md").read_text() == "Run make test.\n"


async def test_a_theme_of_textual_is_used_by_name_or_from_the_list(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")]), also={"theme": "nord"}) as setup:
        assert setup.app.theme == "nord"
        await setup.type("/theme solarized-light")
        await setup.until(lambda: setup.app.theme == "solarized-light", "the colours")
        await setup.type("/theme")
        await setup.assert_sees("dracula")
        await setup.press(*"drac", "enter")
        await setup.until(lambda: setup.app.theme == "dracula", "the colours")
        await setup.type("/theme nrod")
        await setup.assert_sees("There is no theme 'nrod'. Did you mean nord")


@pytest.mark.needs("tmux")
def test_the_keys_and_colours_of_the_settings_are_used_and_shown(tmp_path: Path) -> None:
    home = Path(os.environ["GEN_HOME"])
    home.mkdir(exist_ok=True)
    settings = home / "settings.toml"
    settings.write_text('theme = "nord"\n[keys]\ntree = "f2, alt+t"\nhistory = "ctrl+y"\n')
    with tmux(tmp_path, "--model", script(tmp_path, main=[{"text": "It was found."}])) as terminal:
        terminal.assert_sees("Ask something", "F2, Alt+T  agent tree")
        terminal.press("C-t")
        terminal.press("F2")
        terminal.assert_sees("No agents yet.")
        terminal.press("Escape")
        terminal.assert_sees("Ask something")
        terminal.press("M-t")
        terminal.assert_sees("No agents yet.")
        terminal.press("Escape")
        terminal.press("C-y")
        terminal.assert_sees("Earlier prompts")
    settings.write_text('theme = "nrod"\n')
    (again := tmp_path / "again").mkdir()
    with tmux(again) as terminal:
        terminal.assert_sees("There is no theme 'nrod'. Did you mean nord", "ended 2")
    assert gen("models", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    "keys",
    [
        {"tre": "f2"},
        {"tree": "t"},
        {"tree": "ctrl+nothing"},
        {"tree": "ctrl+c"},
        {"tree": "ctrl+r"},
        {"tree": "f2", "history": "f2"},
        {"tree": ""},
    ],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, str]) -> None:
    with pytest.raises(UserMistake, match=r"keys?[ .]"):
        key_map(keys)
