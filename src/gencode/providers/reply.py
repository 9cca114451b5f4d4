"""How a reply is heard over the wire: what every dialect of this rack shares."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

import msgspec

from gencode.core.errors import ProviderError
from gencode.core.messages import ToolCall
from gencode.providers.http import Answer, Endpoint
from gencode.providers.trouble import Speaker
from gencode.runtime.ports import EndPart, Part

_inputs = msgspec.json.Decoder(dict[str, Any])


class Reply(Protocol):
    """One reply on its way in, in one dialect."""

    over: bool
    """Whether the last event of the reply was heard."""

    def take(self, raw: bytes, parts: list[Part]) -> None:
        """Understand one event and add the parts it brings."""
        ...

    def is_whole(self) -> bool:
        """Whether nothing is missing if the stream ends here, though its last event may be."""
        ...

    def rest(self) -> Sequence[Part]:
        """The parts that are only known when the reply is whole."""
        ...

    def read(self, whole: bytes) -> None:
        """Understand an answer that was not streamed; `rest` gives its parts."""
        ...

    def end(self) -> EndPart:
        """How the reply ended and what it cost."""
        ...


async def heard(endpoint: Endpoint, body: bytes, reply: Reply) -> AsyncGenerator[Part, None]:
    """Ask, and give the parts of the reply as they come; what came before an error is given first."""
    answer = await endpoint.ask(body)
    try:
        if answer.whole is not None:
            reply.read(answer.whole)
        else:
            while not reply.over:
                parts: list[Part] = []
                trouble = await _listen(answer, reply, parts, endpoint.speaker)
                for part in parts:
                    yield part
                if trouble is not None:
                    raise trouble
        for part in reply.rest():
            yield part
        if answer.whole is None:
            await answer.finish()
        yield reply.end()
    finally:
        answer.close()


async def _listen(answer: Answer, reply: Reply, parts: list[Part], speaker: Speaker) -> ProviderError | None:
    """Add the parts of the next events, up to the end or to what went wrong."""
    try:
        events = await answer.events()
    except ProviderError as trouble:
        reply.over = reply.is_whole()
        return None if reply.over else trouble
    try:
        for raw in events:
            reply.take(raw, parts)
            if reply.over:
                return None
    except ProviderError as trouble:
        return trouble
    if reply.is_whole():
        answer.hurry()
        reply.over = not events
        return None
    return None if events else speaker.half()


def whole_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """A call from the text of its arguments; no text at all means no arguments."""
    if not arguments.strip():
        return ToolCall(call_id, name, {})
    try:
        return ToolCall(call_id, name, _inputs.decode(arguments))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ToolCall(call_id, name, {}, broken=arguments)
