"""The floor: an agent loop by hand on aiohttp and orjson, without any of the things an assistant needs."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from bench.workload import LOOKUP, MAIN_SYSTEM, OBSERVATION, SEND, SYSTEM, main

orjson: Any = importlib.import_module("orjson")

RunTool = Callable[[Any], Awaitable[str]]


def described(name: str, description: str, argument: str) -> dict[str, Any]:
    """A tool with one text argument."""
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


async def heard(content: aiohttp.StreamReader) -> dict[str, Any]:
    """A message put together from server-sent events."""
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    rest = b""
    async for piece in content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            choices = orjson.loads(line[6:])["choices"]
            if not choices:
                continue
            delta = choices[0]["delta"]
            if delta.get("content"):
                text.append(delta["content"])
            for call in delta.get("tool_calls") or ():
                if call["index"] in calls:
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
                else:
                    calls[call["index"]] = call
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    return {**message, "tool_calls": list(calls.values())} if calls else message


class Floor:
    """The loop."""

    task_tool = "task childarg=prompt"

    async def open(self, url: str, streamed: bool) -> None:
        """Make the client."""
        self._url = f"{url}/v1/chat/completions"
        self._streamed = streamed
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def one(self, script: str) -> str:
        """Run one agent."""

        async def lookup(_: Any) -> str:
            return OBSERVATION

        return await self._loop(SYSTEM, script, described("lookup", LOOKUP, "key"), lookup)

    async def spawn(self, script: str) -> str:
        """Run a main agent."""

        async def task(given: Any) -> str:
            return await self.one(given["prompt"])

        return await self._loop(MAIN_SYSTEM, script, described("task", SEND, "prompt"), task)

    async def _loop(self, system: str, prompt: str, tool: dict[str, Any], run: RunTool) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": prompt},
        ]
        while True:
            message = await self._ask(messages, tool)
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return message["content"]
            inputs = [orjson.loads(call["function"]["arguments"]) for call in calls]
            results = [await run(inputs[0])] if len(inputs) == 1 else await asyncio.gather(*map(run, inputs))
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def _ask(self, messages: list[dict[str, Any]], tool: dict[str, Any]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": "fake-model", "messages": messages, "tools": [tool]}
        if self._streamed:
            request["stream"] = True
        headers = {"Content-Type": "application/json", "Authorization": "Bearer x"}
        async with self._session.post(self._url, data=orjson.dumps(request), headers=headers) as response:
            if self._streamed:
                return await heard(response.content)
            return orjson.loads(await response.read())["choices"][0]["message"]


if __name__ == "__main__":
    main(Floor())
