"""agno: an Agent, and a tool that runs another one. It is not asked to stream."""

import os
from importlib import import_module
from typing import Any

from bench.workload import MAIN_SYSTEM, OBSERVATION, SYSTEM, main


class Agno:
    """The framework as its documentation uses it."""

    task_tool = "task childarg=prompt"

    async def open(self, url: str, streamed: bool) -> None:
        """Make the agents."""
        os.environ["AGNO_TELEMETRY"] = "false"
        agent: Any = import_module("agno.agent").Agent
        model: Any = import_module("agno.models.openai").OpenAILike

        async def lookup(key: str) -> str:
            """Look a key up and return its row."""
            return OBSERVATION

        async def task(prompt: str) -> str:
            """Start a subagent."""
            return await self.one(prompt)

        def made(instructions: str, tool: object) -> Any:
            asked = model(id="fake-model", base_url=f"{url}/v1", api_key="x")
            return agent(model=asked, instructions=instructions, tools=[tool], telemetry=False)

        self._worker = made(SYSTEM, lookup)
        self._main = made(MAIN_SYSTEM, task)

    async def one(self, script: str) -> str:
        """Run one agent."""
        return (await self._worker.arun(script)).content

    async def spawn(self, script: str) -> str:
        """Run a main agent."""
        return (await self._main.arun(script)).content


if __name__ == "__main__":
    main(Agno())
