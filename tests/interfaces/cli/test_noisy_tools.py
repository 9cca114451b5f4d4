"""Tools of other packages that print and read: neither answers nor the line of a worker are theirs."""

import os
from pathlib import Path

import pytest

from tests.interfaces.cli.running import Turn, gen, script, send

CODE = '''
import os, sys

from gencode import ToolContext, tool

print("loaded")


@tool(effect="read")
async def noisy(ctx: ToolContext) -> str:
    """Print, also behind Python's back, and read what there is to read."""
    print("printed", flush=True)
    os.write(1, b"written\\n")
    return f"read {sys.stdin.read()!r}"
'''
AGENT = "---\nname: loud\ndescription: Is loud.\ntools: noisy, Task\n---\nYou are loud.\n"
LOUD: list[Turn] = [{"calls": [{"name": "noisy", "input": {}}]}, {"text": "done"}]
ALLOWED = ("--allow", "noisy", "--allow", "Task")


@pytest.fixture
def site(tmp_path: Path, home: Path) -> str:
    """A folder with an installed package, and an agent that has its tool."""
    folder = tmp_path / "site"
    info = folder / "loud_one-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "loud_one.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud_one\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gencode.tools]\nloud = loud_one:noisy\n")
    (home / ".gen" / "agents").mkdir(parents=True)
    (home / ".gen" / "agents" / "loud.md").write_text(AGENT)
    return os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))).rstrip(os.pathsep)


def test_what_a_tool_prints_is_not_among_the_lines_for_programs(tmp_path: Path, site: str) -> None:
    words = ("-p", "go", "--agent", "loud", "--output-format", "stream-json", *ALLOWED)
    ended = gen(*words, "--model", script(tmp_path, loud=LOUD), cwd=tmp_path, PYTHONPATH=site)
    assert (ended.code, ended.lines[-1]["result"]) == (0, "done")
    assert {"loaded", "printed", "written"} <= set(ended.err.splitlines())


def test_a_tool_that_reads_in_a_process_of_its_own_finds_nothing_there(tmp_path: Path, site: str) -> None:
    sent = send("a look", agent="loud")
    sent[0]["input"]["isolation"] = "process"
    model = script(tmp_path, main=[{"calls": sent}, {"text": "back"}], loud=LOUD)
    ended = gen("-p", "go", *ALLOWED, "--model", model, "--json", cwd=tmp_path, PYTHONPATH=site)
    assert (ended.code, ended.json["result"]) == (0, "back")
    shown = gen("task", "list", "--all", "--json", cwd=tmp_path).json
    assert [task["status"] for task in shown["tasks"] if task["agent"] == "loud"] == ["completed"]
