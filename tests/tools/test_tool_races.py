"""Read, Write and Edit behind a real gate, while another process swaps what they are led to."""

import os
from collections import Counter
from pathlib import Path

import pytest
from bench.races import SWAPS, THEIRS, Scene, attacker

from gencode.agent.gate import Approvals, CallingAgent, Gate
from gencode.agent.toolbox import Tool, Toolbox, ToolContext
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall
from gencode.core.rules import Mode, Policy
from gencode.files.file_versions import SeenFiles
from gencode.tools.edit import EDIT
from gencode.tools.read import READ
from gencode.tools.write import WRITE

RACES = int(os.environ.get("GEN_RACES", "60"))
CALLS = {
    "Read": ToolCall("1", "Read", {"file_path": "a/b/f"}),
    "Write": ToolCall("2", "Write", {"file_path": "a/b/f", "content": "ours"}),
    "Edit": ToolCall("3", "Edit", {"file_path": "a/b/f", "old_string": "s", "new_string": "s."}),
}


class Racer:
    """One agent that reads, writes and edits the file that is being swapped."""

    def __init__(self, root: Path, kind: str) -> None:
        self.scene = Scene(root)
        self.kind = kind
        self.seen = SeenFiles()
        self.box = Toolbox([READ, WRITE, EDIT])
        self.gate = Gate(
            chain=(Policy(Mode.ACCEPT_EDITS),),
            toolbox=self.box,
            workspace=self.scene.workspace,
            agent=CallingAgent("0000abcd", "main"),
            approvals=Approvals(once=set()),
        )

    async def attempt(self, tool: Tool) -> str:
        """How one call ended."""
        call = CALLS[tool.name]
        ctx = ToolContext(
            task="0000abcd",
            agent="main",
            call=call,
            workspace=self.scene.workspace,
            may_read=self.gate.may_read,
            progress=print,
            place=lambda text: self.gate.place(call, text, frozenset()),
            seen=self.seen,
        )
        try:
            output = await tool.run(ctx, tool.parse(call))
        except ToolError:
            return "refused"
        # A hard link that was there when the path was judged is no secret way: reading it is allowed.
        led_away = tool is READ and THEIRS in output.text and self.kind != "file for a hard link"
        return "outside" if led_away or not self.scene.untouched() else "done"


@pytest.mark.parametrize("kind", SWAPS)
async def test_no_race_through_the_tools_ends_outside(tmp_path: Path, kind: str) -> None:
    racer = Racer(tmp_path, kind)
    racer.scene.build()
    counts: Counter[str] = Counter()
    with attacker(kind, racer.scene.root):
        for _ in range(RACES):
            for tool in (READ, WRITE, READ, EDIT):
                counts[await racer.attempt(tool)] += 1
    assert (counts.total(), counts["outside"], racer.scene.untouched()) == (4 * RACES, 0, True)
    left = [path.name for path in racer.scene.inside.rglob(".gen-*")]
    assert left == []
