"""Where the workspace is the home folder, commands cannot make folders for agents of the user."""

from pathlib import Path

import pytest

from gencode.core.spec import Workspace
from gencode.sandbox.shells import CommandRequest, Shells

PLACES = ".claude/agents .codex/prompts .config/opencode/agent .agents/skills .gemini/commands"


@pytest.mark.needs("bwrap")
async def test_a_command_cannot_make_them_and_nothing_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    text = f"for each in {PLACES}; do mkdir -p $each/x 2>/dev/null && echo $each; done; touch .config/own"
    shells = Shells(tmp_path / "gen", "required")
    try:
        ended = await shells.run(CommandRequest(text, Workspace(home, home, home), "t"))
    finally:
        await shells.close()
    assert (ended.ended.output.text(), ended.ended.exit_code) == ("", 0)
    assert sorted(home.rglob("*")) == [home / ".config", home / ".config/own"]
