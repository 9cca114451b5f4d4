"""However much a model says: of all calls that spend from a budget only one at a time could exceed it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gencode.agent.call_budget import LONGEST_REPLY, at_most
from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.budget import Budget, Price
from gencode.core.messages import AssistantMessage, CallPart, EndPart, Part, TextPart, ToolCall, Usage
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import spent_by
from tests.tasks.budget_tree import woken

EXAMPLES = int(os.environ.get("GEN_EXAMPLES", "6"))
ENDLESS = 60_000
"""So many tokens a reply has that nobody bounds."""
AGENTS = 4


class Talker:
    """A model that hears every byte as a token and says all it may, for all processes of a test."""

    def __init__(self, pauses: list[int]) -> None:
        self._pauses = pauses
        self.calls: list[int] = []
        self._unbounded = 0
        self.most_unbounded = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Answer at great length."""
        bounded = request.max_tokens is not None
        self._unbounded += not bounded
        self.most_unbounded = max(self.most_unbounded, self._unbounded)
        try:
            await asyncio.sleep(self._pauses[len(self.calls) % len(self._pauses)] / 1000)
        finally:
            self._unbounded -= not bounded
        usage = Usage(at_most(request, Price())[0] - (request.max_tokens or LONGEST_REPLY))
        usage += Usage(0, request.max_tokens or ENDLESS)
        self.calls.append(usage.input_tokens + usage.output_tokens)
        replies = sum(isinstance(each, AssistantMessage) for each in request.messages)
        if request.agent == "main" and replies == 0:
            for number in range(AGENTS):
                words = {"subagent_type": "Explore", "prompt": "look", "description": "look"}
                yield CallPart(ToolCall(f"c{number}", "Task", words))
        elif request.agent == "main" or replies == 0:
            yield TextPart("done")
        else:
            yield CallPart(ToolCall("c", "LS", {"path": "."}))
        yield EndPart(request.model, usage=usage)


@settings(max_examples=EXAMPLES)
@given(
    tokens=st.integers(300_000, 2_500_000),
    pauses=st.lists(st.integers(0, 8), min_size=1, max_size=5),
    together=st.lists(st.integers(0, 2), min_size=AGENTS, max_size=AGENTS),
)
def test_a_model_that_says_all_it_may_exceeds_a_budget_by_one_call_in_all_processes_together(
    tokens: int, pauses: list[int], together: list[int]
) -> None:
    async def scenario(folder: Path) -> None:
        store, model = MemoryStore(), Talker(pauses)
        async with AsyncExitStack() as stack:
            opened = [GenCode.open(folder, model=model, store=store) for _ in range(3)]
            processes = [await stack.enter_async_context(each) for each in opened]
            await processes[0].budgets.set_all(Budget(tokens=tokens))
            session = (await processes[0].ask("go").outcome()).agent_id
            tasks = [each.agent_id for each in await processes[0].tasks(session)]
            crowd = zip(tasks, together, strict=False)
            await asyncio.gather(*(woken(processes[number], task) for task, number in crowd))
        assert model.most_unbounded <= 1
        assert (await spent_by(store, session)).tokens <= tokens + max(model.calls)

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))
