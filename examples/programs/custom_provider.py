"""A provider of your own: any program that answers can be the model of every agent.

    python custom_provider.py

A provider is one method: it gets the whole request (system prompt, messages, tools) and yields the parts of
one reply, an `EndPart` last. This one is a set of rules; put a call of your own service in its place.
"""

import asyncio
from collections.abc import AsyncGenerator

from gencode import GenCode, ProviderError
from gencode.agent.ports import Request
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall, ToolMessage, Usage, UserMessage


class Rules:
    """Looks for the last word of the question, then says how often it was found."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the parts of one reply."""
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            word = last.text.strip(" ?.!\n").split()[-1]
            if "Grep" not in {each.name for each in request.tools}:
                raise ProviderError("These rules need the tool Grep.")
            yield TextPart(f"I look for {word!r}. ")
            yield CallPart(ToolCall("call_1", "Grep", {"pattern": word, "output_mode": "content"}))
            yield EndPart("rules-1", "tool_use", Usage(input_tokens=len(last.text)))
        elif isinstance(last, ToolMessage):
            lines = [line for result in last.results for line in result.text.splitlines() if ":" in line]
            yield TextPart(f"It is in {len(lines)} lines.")
            yield EndPart("rules-1", "end_turn", Usage(output_tokens=len(lines)))


async def main() -> None:
    async with GenCode.open(model=Rules()) as gen:
        outcome = await gen.task("Explore", "Where is the word database?")
    print(outcome.status, outcome.result)


if __name__ == "__main__":
    asyncio.run(main())
