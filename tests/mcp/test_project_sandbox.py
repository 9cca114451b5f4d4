"""MCP servers of a project run in the sandbox of commands, whatever they are trusted with."""

import json
import sys
from pathlib import Path

import pytest

from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home
from tests.interfaces.cli.running import Ended, gen, script
from tests.mcp.fleet import ODD_SERVER

START = """
import os, sys
for path in sys.argv[1].split(":"):
    try:
        with open(path, "w") as file:
            file.write("reached")
    except OSError:
        pass
os.execv(sys.executable, [sys.executable, "-S", "-E", *sys.argv[2:]])
"""
IN_PLAN = ("--permission-mode", "plan")


def project(folder: Path, targets: list[Path], **more: object) -> Path:
    """A trusted workspace whose server writes to these files when it starts."""
    workspace = folder / "ws"
    workspace.mkdir(parents=True)
    (workspace / "odd.json").write_text(json.dumps({"log": "/dev/null", "tools": [{"name": "one"}]}))
    (workspace / "start.py").write_text(START)
    (workspace / "odd_server.py").write_text(ODD_SERVER.read_text())
    args = ["start.py", ":".join(map(str, targets)), "odd_server.py", "odd.json"]
    servers = {"odd": {"command": sys.executable, "args": args, **more}}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    trust(standing(workspace, gen_home()), gen_home())
    return workspace


def started(workspace: Path, *words: str) -> Ended:
    model = script(workspace.parent, main=[{"text": "done"}])
    return gen("-p", "go", "--model", model, "--output-format", "json", *words, cwd=workspace)


def written(paths: list[Path]) -> list[bool]:
    return [path.exists() for path in paths]


@pytest.mark.needs("bwrap")
def test_a_server_of_a_project_writes_in_the_workspace_and_where_its_sandbox_says(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    targets = [tmp_path / "ws" / "mark", tmp_path / "mark", tmp_path / "allowed" / "mark"]
    workspace = project(tmp_path, targets, sandbox={"write": [str(tmp_path / "allowed")]})
    ended = started(workspace)
    assert (ended.code, [each["state"] for each in ended.json["servers"]]) == (0, ["ready"]), ended
    assert written(targets) == [True, False, True]


@pytest.mark.needs("bwrap")
def test_in_plan_mode_it_writes_nothing(tmp_path: Path) -> None:
    targets = [tmp_path / "ws" / "mark", tmp_path / "mark"]
    ended = started(project(tmp_path, targets), *IN_PLAN)
    assert [each["state"] for each in ended.json["servers"]] == ["ready"], ended
    assert written(targets) == [False, False]


def test_where_there_is_no_sandbox_plan_mode_does_not_start_it_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_SANDBOX", "off")
    targets = [tmp_path / "ws" / "mark"]
    ended = started(project(tmp_path, targets), *IN_PLAN)
    assert [each["state"] for each in ended.json["servers"]] == ["failed"], ended
    assert "no sandbox" in ended.err
    assert written(targets) == [False]


def test_what_a_server_has_beside_the_workspace_is_part_of_what_is_approved(tmp_path: Path) -> None:
    workspace = project(tmp_path, [], sandbox={"network": True, "write": ["/var/cache"]})
    shown = gen("trust", "--show", cwd=workspace)
    assert "network, writes /var/cache" in shown.out
