"""Wraps a provider of a program: checks what it yields and names it in its errors."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from gencode.agent.plugin_calls import PluginErrors, error_text, stream_detached
from gencode.agent.ports import Provider, Request
from gencode.core.errors import ProviderError
from gencode.core.messages import AgainPart, CallPart, EndPart, Part, TextPart, ThinkingPart, WaitPart

PARTS = (TextPart, ThinkingPart, CallPart, EndPart, AgainPart, WaitPart)


class CustomProvider:
    """A provider of a program, which is held to the protocol `Provider`."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self._name = f"the provider {type(inner).__name__}"

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Its reply. A connection or a time that ran out passes; anything else it raises is marked.

        One that does not heed a stop is left alone.
        """
        whole = False
        whose = f"{self._name} of task {request.task}"
        try:
            with PluginErrors(self._name):
                async with aclosing(stream_detached(self._inner.stream(request), whose)) as parts:
                    async for part in parts:
                        self._check(part)
                        whole = isinstance(part, EndPart)
                        yield part
        except (TimeoutError, ConnectionError) as error:
            raise ProviderError(f"{self._name} failed: {error_text(error)}", retryable=True) from error
        if not whole:
            raise ProviderError(f"the reply of {self._name} ended without an EndPart; yield one last")

    def _check(self, part: object) -> None:
        if not isinstance(part, PARTS):
            kind = type(part).__name__
            raise ProviderError(f"{self._name} yielded a {kind}, not a part of a reply (TextPart, …)")
