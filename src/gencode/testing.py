"""The public test kit: scripts in Python, a provider that overhears, a GenCode in memory.

async with scripted(folder, main=[says("", call("Task", subagent_type="Explore", prompt="look")), says("ok")],
                    Explore=[says("found it")]) as gen:
    outcome = await gen.ask("go").outcome()
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gencode.agent.ports import Provider, Request
from gencode.app import GenCode
from gencode.core.messages import Part
from gencode.core.questions import Asker
from gencode.core.structs import replace
from gencode.core.text import unquoted
from gencode.journal.store import Store
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore

Turns = Sequence[Mapping[str, Any]]
_FRAME = re.compile(r"Report of .+:\Z|\[Task [0-9a-f]{8} \(.+\): .+\]\Z")


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call of a scripted turn."""
    return {"name": name, "input": arguments}


def says(text: str = "", *calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A scripted turn: text, calls, and `delay_ms`, `error` or `usage`."""
    return {"text": text, "calls": list(calls), **more}


def reported(text: str) -> str:
    """What its parent's model reads of an agent, without the frame: no heading, no quotes, no receipt."""
    lines = [line for line in text.split("\n") if not _FRAME.match(line)]
    return "\n".join(unquoted(line) if line.startswith(">") else line for line in lines)


class Overhearing:
    """A provider that keeps a copy of every request before it hands it on."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self.requests: list[Request] = []

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Remember, then let the other one answer."""
        self.requests.append(replace(request, messages=tuple(request.messages)))
        return self._inner.stream(request)


@asynccontextmanager
async def scripted(
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    store: Store | None = None,
    asker: Asker | None = None,
    **agents: Turns,
) -> AsyncGenerator[GenCode, None]:
    """A GenCode that plays a script, in memory by default; `_` in a name stands for `-`, `others` for `*`."""
    spelled = {"*" if name == "others" else name.replace("_", "-"): turns for name, turns in agents.items()}
    provider = ScriptedProvider.of(spelled)
    kept = store or MemoryStore()
    async with GenCode.open(folder, model=provider, settings=settings, store=kept, asker=asker) as gen:
        yield gen
