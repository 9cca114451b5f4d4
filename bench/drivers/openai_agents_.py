"""openai-agents: an Agent with a Runner, and another one that has it as a tool."""

import os
from importlib import import_module
from typing import Any

from bench.workload import LOOKUP, MAIN_SYSTEM, OBSERVATION, SEND, SYSTEM, main

TURNS = 1000


class OpenAIAgents:
    """The framework as its documentation uses it."""

    task_tool = "task childarg=input"

    async def open(self, url: str, streamed: bool) -> None:
        """Make the agents."""
        os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
        agents: Any = import_module("agents")
        agents.set_tracing_disabled(True)
        client = import_module("openai").AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        model = agents.OpenAIChatCompletionsModel(model="fake-model", openai_client=client)

        async def lookup(key: str) -> str:
            return OBSERVATION

        looking = agents.function_tool(lookup, description_override=LOOKUP)
        self._runner: Any = agents.Runner
        self._streamed = streamed
        self._worker: Any = agents.Agent(name="worker", instructions=SYSTEM, model=model, tools=[looking])
        sending = self._worker.as_tool(tool_name="task", tool_description=SEND, max_turns=TURNS)
        self._main: Any = agents.Agent(name="main", instructions=MAIN_SYSTEM, model=model, tools=[sending])

    async def one(self, script: str) -> str:
        """Run one agent."""
        if not self._streamed:
            return (await self._runner.run(self._worker, script, max_turns=TURNS)).final_output
        run = self._runner.run_streamed(self._worker, script, max_turns=TURNS)
        async for _ in run.stream_events():
            pass
        return run.final_output

    async def spawn(self, script: str) -> str:
        """Run a main agent."""
        return (await self._runner.run(self._main, script, max_turns=TURNS)).final_output


if __name__ == "__main__":
    main(OpenAIAgents())
