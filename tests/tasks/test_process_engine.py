"""Workers: how they are started, and what they say when they cannot begin."""

import subprocess
import sys
from pathlib import Path

import pytest

from gencode import GenCode, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.rules import Policy
from gencode.journal.dispatch import Handover
from gencode.tasks.process_engine import ProcessEngine

WORKER = (sys.executable, "-P", "-m", "gencode.interfaces.task_process")
SCRIPT = '{"agents": {"*": [{"text": "done"}]}}'


def handover(folder: Path, agent: str = "Explore", model: str = "") -> Handover:
    (folder / "script.json").write_text(SCRIPT)
    created = TaskCreated(
        agent=agent, prompt="look", cwd=str(folder), depth=1, policies=(Policy(), Policy()), max_turns=3
    )
    return Handover(model=model or f"scripted:{folder}/script.json", created=created)


def test_an_order_that_cannot_be_read_is_refused() -> None:
    for order in (b"", b"nonsense\n", b'{"handover": {}, "cwd": "."}\n'):
        ended = subprocess.run(WORKER, input=order, capture_output=True, check=False, timeout=60)
        assert ended.returncode == 1
        assert b"The order for a task cannot be read" in ended.stdout


@pytest.mark.parametrize(
    ("agent", "model", "sentence"),
    [
        ("nobody", "", "There is no agent 'nobody'"),
        ("Explore", "nonsense", "There is no model 'nonsense'"),
    ],
)
async def test_what_a_worker_cannot_do_is_told_as_its_own_sentence(
    tmp_path: Path, home: Path, agent: str, model: str, sentence: str
) -> None:
    engine = ProcessEngine(home / ".gen", tmp_path, {})
    with pytest.raises(UserMistake, match=sentence):
        await engine.start(handover(tmp_path, agent, model))


async def test_a_worker_that_is_not_bound_ends_by_itself(tmp_path: Path, home: Path) -> None:
    worker = await ProcessEngine(home / ".gen", tmp_path, {}).start(handover(tmp_path))
    async with GenCode.open(tmp_path, model="offline") as gen:
        task = await gen.history.ended(worker.task, 30)
    assert (task.agent, task.result, task.created.depth) == ("Explore", "done", 1)


async def test_a_log_that_cannot_be_written_is_named(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "logs").write_text("in the way")
    with pytest.raises(UserMistake, match="No process can be started for the task"):
        await ProcessEngine(home / ".gen", tmp_path, {}).start(handover(tmp_path))


async def test_code_that_lies_in_the_folder_is_not_run(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gencode", "msgspec", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'evil')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    worker = await ProcessEngine(home / ".gen", tmp_path, {}).start(handover(tmp_path))
    async with GenCode.open(tmp_path, model="offline") as gen:
        assert (await gen.history.ended(worker.task, 30)).result == "done"
    assert not (tmp_path / "evil").exists()
