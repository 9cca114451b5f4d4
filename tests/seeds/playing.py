"""A whole conversation with a scripted model: what every model was sent, and what came of it.

The tasks of a conversation are called 00000001 (its main agent), 00000002 and so on.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gencode import GenCode
from gencode.agent.ports import Request
from gencode.agent.toolbox import Tool
from gencode.core.messages import Message, ToolResult
from gencode.core.outcome import Outcome
from gencode.core.questions import Asker
from gencode.core.task import transcript_of
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, reported, says
from tests.seeds.setup import results

Turns = Sequence[Mapping[str, Any]]
FIRST = "00000002"
"""The first subagent of a conversation."""
SECOND = "00000003"


@dataclass(frozen=True)
class Played:
    """What came of a conversation."""

    outcome: Outcome
    messages: list[Message]
    """What the main agent said and read."""
    tasks: list[Outcome]
    requests: list[Request]
    transcripts: dict[str, list[Message]]

    @property
    def task(self) -> Outcome:
        """The only subagent."""
        (only,) = self.tasks
        return only

    @property
    def results(self) -> list[ToolResult]:
        """What the calls of the main agent gave."""
        return results(self.messages)

    @property
    def answers(self) -> list[str]:
        """The same as texts, a report without its frame."""
        return [reported(each.text) for each in self.results]

    def results_of(self, task: str) -> list[ToolResult]:
        """What the calls of one task gave."""
        return results(self.transcripts[task])

    def requests_of(self, agent: str) -> list[Request]:
        """What the models of an agent were sent."""
        return [each for each in self.requests if each.agent == agent]

    def offered(self, agent: str) -> list[str]:
        """The tools that an agent was first offered."""
        return [each.name for each in self.requests_of(agent)[0].tools]

    def schema(self, tool: str, agent: str = "main") -> dict[str, Any]:
        """The parameters of a tool as the model of an agent was first sent them."""
        first = self.requests_of(agent)[0]
        (found,) = [each.parameters for each in first.tools if each.name == tool]
        return dict(found)


def numbered() -> Callable[[], str]:
    """Ids that a script can know."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):08x}"


async def play(
    folder: Path,
    main: Turns,
    *,
    prompt: str = "go",
    settings: Mapping[str, Any] | None = None,
    asker: Asker | None = None,
    tools: Sequence[Tool] = (),
    **agents: Turns,
) -> Played:
    """Have one turn of a new conversation, and tell everything of it; `_` in a name stands for `-`."""
    spelled = {"*" if name == "others" else name.replace("_", "-"): turns for name, turns in agents.items()}
    provider = Overhearing(ScriptedProvider.of({"main": main, **spelled}))
    store = MemoryStore(draw=numbered())
    async with GenCode.open(
        folder, model=provider, settings=settings, store=store, asker=asker, tools=tools
    ) as gen:
        outcome = await gen.ask(prompt).outcome()
        tasks = await gen.tasks()
        transcripts = {
            task: transcript_of(await gen.history.events(task))
            for task in (outcome.agent_id, *(each.agent_id for each in tasks))
        }
    messages = transcripts[outcome.agent_id]
    return Played(outcome, messages, tasks, provider.requests, transcripts)


def task(agent: str, prompt: str = "look", **more: Any) -> dict[str, Any]:
    """A call of Task."""
    return call("Task", subagent_type=agent, prompt=prompt, **more)


def asks_for(*calls: Mapping[str, Any], then: str = "Done.") -> list[dict[str, Any]]:
    """A main agent that makes these calls, one in each reply, and then says something."""
    return [*(says("", each) for each in calls), says(then)]
