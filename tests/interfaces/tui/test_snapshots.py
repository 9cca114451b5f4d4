"""The main screens as they look; `GEN_SNAPSHOTS=write` draws them anew after a change that was meant."""

import os
import re
from pathlib import Path

import pytest

from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated

WRITES = os.environ.get("GEN_SNAPSHOTS") == "write"  # before the tests forget our settings
FOLDER = Path(__file__).parent / "snapshots"
SCRIPT = {
    "main": [
        says(
            "I look for both.",
            *(
                call("Task", subagent_type="Explore", prompt=f"find {name}", description=name)
                for name in ("alpha", "beta")
            ),
        ),
        says("## Found\n\n- `alpha` in **a.py**\n- beta\n\n```python\ndef f(x):\n    return x\n```"),
    ],
    "Explore": [
        says("", call("Glob", pattern="*.py")),
        says("found in a.py:1", usage={"inputTokens": 1200, "outputTokens": 34}),
    ],
}


def steady(text: str) -> str:
    """A screen without what differs from run to run: ids, times, places."""
    text = re.sub(r"\b[0-9a-f]{8}\b", "########", text)
    text = re.sub(r"\d+\.\d s", "0.0 s", text)
    text = re.sub(r"(GenCode  )\S+ +", r"\1FOLDER  ", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


async def compare(setup: Seat, name: str) -> None:
    file = FOLDER / f"{name}.txt"
    if WRITES:
        await setup.pilot.pause(1.5)
        FOLDER.mkdir(exist_ok=True)
        file.write_text(steady(setup.screen), "utf-8")
    wanted = file.read_text("utf-8")
    for _ in range(300):
        if steady(setup.screen) == wanted:
            break
        await setup.pilot.pause(0.1)
    assert steady(setup.screen) == wanted


@pytest.mark.parametrize("size", [(80, 24), (160, 40)], ids=["small", "large"])
async def test_the_screens_look_as_they_did(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "a.py").touch()
    name = f"{size[0]}x{size[1]}"
    async with seated(tmp_path, size=size, script=SCRIPT) as setup:
        await setup.assert_sees("Needs approval to change anything")
        await compare(setup, f"empty-{name}")
        await setup.type("find both")
        await setup.rests()
        await compare(setup, f"conversation-{name}")
        await setup.press("ctrl+t")
        await setup.assert_sees("Enter opens")
        await compare(setup, f"tree-{name}")
        await setup.press("down", "enter")
        await setup.assert_sees("main › Explore")
        await setup.assert_sees("found in a.py:1")
        await compare(setup, f"agent-{name}")
        await setup.press("escape")
        await setup.type("/help")
        await setup.assert_sees("Commands and keys")
        await compare(setup, f"help-{name}")
