"""What an agent wants the person to see is seen at once, on every screen, and can do nothing to it."""

import json
from pathlib import Path

import pytest

from gencode.core.events import Event, ProgressMade, TaskCreated
from gencode.interfaces.cli.foreground_run import renderer_for
from gencode.interfaces.render import plain_text
from gencode.interfaces.render.rich_panels import RichRenderer
from tests.interfaces.cli.running import gen

AT = "2026-11-15T02:32:00.123456Z"
TOLD = [
    Event("0000abcd", 1, AT, TaskCreated(agent="Explore", prompt="look", parent="0000beef")),
    Event("0000abcd", None, AT, ProgressMade("only a step")),
    Event("0000abcd", None, AT, ProgressMade("half\nway \x1b[31m", note=True)),
]
WANTED = {
    "Read": ("read", "builtin", False),
    "notify": ("read", "builtin", True),
    "http_post": ("write", "builtin", True),
}
LINE = "[Explore] half way \\x1b[31m\n"


def test_a_note_is_the_only_thing_a_quiet_screen_shows(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = renderer_for("json", verbose=False)
    for event in TOLD:
        quiet.hear(event)
    assert (type(quiet), capsys.readouterr()) == (plain_text.NoteRenderer, ("", LINE))


def test_a_note_stands_between_the_steps_and_the_panels(capsys: pytest.CaptureFixture[str]) -> None:
    for painter in (plain_text.StepRenderer(), RichRenderer(live=False)):
        for event in TOLD:
            painter.hear(event)
        said, noted = capsys.readouterr()
        assert LINE in said + noted


def test_a_program_reads_it_as_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    lines = plain_text.JsonLineRenderer()
    for event in TOLD:
        lines.hear(event)
    parts = [json.loads(line).get("partType") for line in capsys.readouterr().out.splitlines()]
    assert parts == [None, "progress", "note"]


def test_headless_a_note_is_on_stderr_and_the_answer_on_stdout(tmp_path: Path, home: Path) -> None:
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    (agents / "host.md").write_text("---\nname: host\ndescription: x\ntools: [notify]\n---\nX.\n")
    turns = [{"calls": [{"name": "notify", "input": {"message": "half way"}}]}, {"text": "Done."}]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"agents": {"host": turns}}))
    ended = gen("-p", "go", "--agent", "host", "--model", f"scripted:{script}", cwd=tmp_path)
    assert (ended.code, ended.out, ended.err) == (0, "Done.\n", "[host] half way\n")


def test_every_tool_is_listed_with_whether_it_has_to_be_named(tmp_path: Path) -> None:
    listed = {tool["name"]: tool for tool in gen("tools", "--json", cwd=tmp_path).json["tools"]}
    shown = {
        name: (listed[name]["effect"], listed[name]["source"], listed[name]["onRequest"]) for name in WANTED
    }
    assert shown == WANTED
    assert "read_file" in listed["Read"]["aliases"]
