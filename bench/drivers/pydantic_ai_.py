"""pydantic-ai: an Agent, and a tool that runs another one."""

from importlib import import_module
from typing import Any

from bench.workload import MAIN_SYSTEM, OBSERVATION, SYSTEM, main


class PydanticAI:
    """The framework as its documentation uses it."""

    task_tool = "task childarg=prompt"

    async def open(self, url: str, streamed: bool) -> None:
        """Make the agents."""
        agents: Any = import_module("pydantic_ai")
        models: Any = import_module("pydantic_ai.models.openai")
        providers: Any = import_module("pydantic_ai.providers.openai")
        client = import_module("openai").AsyncOpenAI(base_url=f"{url}/v1", api_key="x", timeout=120)
        model = models.OpenAIChatModel("fake-model", provider=providers.OpenAIProvider(openai_client=client))
        self._limits: Any = import_module("pydantic_ai.usage").UsageLimits(request_limit=None)
        self._streamed = streamed

        async def lookup(key: str) -> str:
            """Look a key up and return its row."""
            return OBSERVATION

        async def task(prompt: str) -> str:
            """Start a subagent."""
            return await self.one(prompt)

        self._worker: Any = agents.Agent(model, system_prompt=SYSTEM, tools=[lookup])
        self._main: Any = agents.Agent(model, system_prompt=MAIN_SYSTEM, tools=[task])

    async def one(self, script: str) -> str:
        """Run one agent."""
        if not self._streamed:
            return (await self._worker.run(script, usage_limits=self._limits)).output
        async with self._worker.iter(script, usage_limits=self._limits) as run:
            async for node in run:
                if type(node).__name__ == "ModelRequestNode":
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            pass
            return run.result.output

    async def spawn(self, script: str) -> str:
        """Run a main agent."""
        return (await self._main.run(script, usage_limits=self._limits)).output


if __name__ == "__main__":
    main(PydanticAI())
