"""The permission modes: what an agent may do in each."""

from pathlib import Path
from typing import Any

import pytest

from gencode.core.rules import Action
from gencode.testing import scripted
from tests.seeds.rows import seed

ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
CALLS: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "a.py"},
    "Glob": {"pattern": "*.py"},
    "Grep": {"pattern": "x"},
    "WebSearch": {"query": "x"},
    "WebFetch": {"url": "https://example.com/", "prompt": "x"},
    "Write": {"file_path": "a.py", "content": "x"},
    "Edit": {"file_path": "a.py", "old_string": "x", "new_string": "y"},
    "Bash": {"command": "make"},
}


async def decisions(folder: Path, mode: str, *, agent: str = "") -> dict[str, Action]:
    """What is decided about one call of each tool."""
    async with scripted(folder, settings={"permission_mode": mode}) as gen:
        return {name: gen.explain(name, arguments, agent=agent).decision for name, arguments in CALLS.items()}


async def decided(folder: Path, mode: str, command: str) -> Action:
    async with scripted(folder, settings={"permission_mode": mode}) as gen:
        return gen.explain("Bash", {"command": command}).decision


@seed(
    "000",
    "plan: only Read/Glob/Grep/WebFetch/WebSearch",
    use='`gen --permission-mode plan`, with `web_read_hosts = ["docs.python.org"]` in settings.toml',
)
async def test_plan_mode_reads_and_changes_nothing(tmp_path: Path) -> None:
    found = await decisions(tmp_path, "plan")
    assert [found[name] for name in ("Read", "Glob", "Grep", "WebSearch")] == [ALLOW] * 4
    assert [found[name] for name in ("Write", "Edit", "Bash")] == [DENY] * 3
    assert (found["WebFetch"], await fetches(tmp_path, "plan", hosts=["*"])) == (ASK, ALLOW)


async def test_agents_that_only_read_fetch_from_the_hosts_of_the_setting_also_in_scripts(
    tmp_path: Path,
) -> None:
    for hosts, expected in ((["example.com"], ALLOW), (["*.com"], ALLOW), (["example.org"], DENY)):
        assert await fetches(tmp_path, "default", agent="Explore", hosts=hosts, background=True) is expected
    assert await fetches(tmp_path, "default", agent="general-purpose", hosts=["*"]) is ASK
    assert await fetches(tmp_path, "default", hosts=["*"]) is ASK
    denied = ("WebFetch(domain:example.com)",)
    assert await fetches(tmp_path, "default", agent="Explore", hosts=["*"], deny=denied) is DENY


async def fetches(
    folder: Path,
    mode: str,
    *,
    agent: str = "",
    hosts: list[str],
    background: bool = False,
    deny: tuple[str, ...] = (),
) -> Action:
    settings = {"permission_mode": mode, "web_read_hosts": hosts, "deny": deny}
    async with scripted(folder, settings=settings) as gen:
        call = ("WebFetch", CALLS["WebFetch"])
        return gen.explain(*call, agent=agent, background=background).decision


@seed("000", "default", use="gen --permission-mode default")
async def test_the_default_mode_reads_and_asks_before_anything_else(tmp_path: Path) -> None:
    found = await decisions(tmp_path, "default")
    assert [found[name] for name in ("Read", "Glob", "Grep", "WebSearch")] == [ALLOW] * 4
    assert [found[name] for name in ("Write", "Edit", "Bash", "WebFetch")] == [ASK] * 4


@seed("000", "acceptEdits", use="gen --permission-mode acceptEdits")
async def test_accept_edits_changes_files_and_asks_before_commands(tmp_path: Path) -> None:
    found = await decisions(tmp_path, "acceptEdits")
    assert [found[name] for name in ("Write", "Edit", "Bash")] == [ALLOW, ALLOW, ASK]


@seed("000", "dontAsk: all operations auto-approved", use="gen --permission-mode dontAsk")
async def test_dont_ask_runs_everything_of_everyday(tmp_path: Path) -> None:
    assert {*(await decisions(tmp_path, "dontAsk")).values()} == {ALLOW}


@pytest.mark.parametrize("command", ["trap '' TERM INT; make", "eval ''", "bash -c ''", "rm -rf build"])
async def test_dont_ask_runs_ordinary_shell(tmp_path: Path, command: str) -> None:
    assert await decided(tmp_path, "dontAsk", command) is ALLOW


@pytest.mark.parametrize("command", ["rm -rf /", "rm -rf ~", "mkfs.ext4 /dev/sda1", "dd if=a of=/dev/sda"])
async def test_dont_ask_asks_before_what_destroys(tmp_path: Path, command: str) -> None:
    assert await decided(tmp_path, "dontAsk", command) is ASK
