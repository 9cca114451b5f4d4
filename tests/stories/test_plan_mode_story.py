"""A model in plan mode tries everything it knows to change something, and nothing changes."""

from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.events import CallDecided
from gencode.core.messages import ToolMessage
from gencode.core.rules import Action
from gencode.core.task import transcript_of
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says, scripted

PLAN = {"permission_mode": "plan"}
WRITING = {"Write", "Edit"}
AUTONOMOUS = """---
name: autonomous
description: Does everything without asking.
permission-mode: dontAsk
---
Work.
"""


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: what it is, what it holds, its rights and when it changed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        holds = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path)] = (holds, status.st_mode, status.st_ino, status.st_mtime_ns, status.st_nlink)
    return found


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace with a file, a link to it, a second name of it, and something outside."""
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_text("x = 1\n")
    (folder / "link.py").symlink_to("src/a.py")
    (folder / "twice.py").hardlink_to(folder / "src/a.py")
    (folder / ".git/hooks").mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("not ours")
    return folder


def attacks(ws: Path) -> list[dict[str, Any]]:
    """Calls that would change something, by every name and spelling."""
    paths = [
        *("src/a.py", "link.py", "twice.py", "new.txt", "new/er.txt", "./src/../src/a.py", "~/x", ""),
        *("../outside.txt", str(ws / "src/a.py"), "/dev/null", ".git/hooks/x", ".gen/settings.json"),
    ]
    edit = {"old_string": "x", "new_string": "y"}
    calls = [
        call(name, file_path=path, **more)
        for path in paths
        for name, more in (
            *((name, {"content": "evil"}) for name in ("Write", "write_file", "WRITE", "write-file")),
            *((name, edit) for name in ("Edit", "edit_file", "MultiEdit", "multi_edit")),
            ("Edit", {"edits": [edit, {**edit, "replace_all": True}]}),
            ("Edit", {"old_string": "", "new_string": "evil"}),
        )
    ]
    commands = ("echo x > src/a.py", "rm -rf src", "touch new", "sed -i s/x/y/ src/a.py", "git init")
    return [*calls, *(call("Bash", command=command) for command in commands)]


async def test_the_main_agent_in_plan_mode_changes_not_one_byte(ws: Path) -> None:
    tries = attacks(ws)
    turns = [says("", call("Read", file_path="src/a.py"), call("TodoWrite", todos=[])), says("", *tries)]
    provider = Overhearing(ScriptedProvider.of({"main": [*turns, says("I could not.")]}))
    before = state(ws.parent)
    async with GenCode.open(ws, model=provider, settings=PLAN, store=MemoryStore()) as gen:
        outcome = await gen.ask("change everything").outcome()
        events = await gen.history.events(outcome.agent_id)
    assert state(ws.parent) == before
    seen = {schema.name for request in provider.requests for schema in request.tools}
    assert (seen & WRITING, {"Read", "TodoWrite"} <= seen) == (set(), True)
    looked, tried = [message for message in transcript_of(events) if isinstance(message, ToolMessage)]
    assert [result.error for result in looked.results] == [False, False]
    assert [result.error for result in tried.results] == [True] * len(tries)
    decided = [event.fact.decision.action for event in events if isinstance(event.fact, CallDecided)]
    assert decided[2:] == [Action.DENY] * len(decided[2:])
    assert outcome.evidence.files_changed == ()


@pytest.mark.parametrize("agent", ["Explore", "Plan", "general-purpose", "autonomous"])
async def test_no_agent_that_is_sent_from_plan_mode_changes_a_byte(ws: Path, home: Path, agent: str) -> None:
    (home / ".gen/agents").mkdir(parents=True)
    (home / ".gen/agents/autonomous.md").write_text(AUTONOMOUS)
    send = says("", call("Task", subagent_type=agent, prompt="change everything"))
    turns = [says("", call("Read", file_path="src/a.py")), says("", *attacks(ws)), says("I could not.")]
    before = state(ws.parent)
    async with scripted(ws, settings=PLAN, main=[send, says("done")], others=turns) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
    assert state(ws.parent) == before
    assert (child.result, child.evidence.files_changed) == ("I could not.", ())


async def test_an_agent_that_plans_stays_read_only_below_one_that_may_do_everything(ws: Path) -> None:
    send = says("", call("Task", subagent_type="Explore", prompt="change everything"))
    turns = [says("", call("Read", file_path="src/a.py")), says("", *attacks(ws)), says("I could not.")]
    before = state(ws.parent)
    free = {"permission_mode": "dontAsk"}
    async with scripted(ws, settings=free, main=[send, says("done")], Explore=turns) as gen:
        outcome = await gen.ask("go").outcome()
    assert (state(ws.parent), outcome.result) == (before, "done")


async def test_the_same_calls_do_change_something_where_they_are_allowed(ws: Path) -> None:
    """Without this the tests above could pass because the calls were wrong."""
    turns = [says("", call("Read", file_path="src/a.py")), says("", *attacks(ws)[:10]), says("done")]
    async with scripted(ws, settings={"permission_mode": "dontAsk"}, main=turns) as gen:
        outcome = await gen.ask("go").outcome()
    assert (ws / "src/a.py").read_text() != "x = 1\n"
    assert {change.path for change in outcome.evidence.files_changed} == {"src/a.py"}
