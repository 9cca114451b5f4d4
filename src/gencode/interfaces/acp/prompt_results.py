"""When a prompt is answered, and how that is told: the stop reasons of the protocol (surfaces, ACP).

A turn of ours stays open while agents work in the background; a prompt is answered once the leading agent has
said what it has to say. What comes back later is told as it comes.
"""

import asyncio

from acp.exceptions import RequestError
from acp.schema import StopReason

from gencode.core.events import Event, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage, UserMessage
from gencode.core.status import Status
from gencode.core.visible import visible_line
from gencode.interfaces.acp.json_lines import INTERNAL_ERROR

REST_SECONDS = 0.25
"""So long after its last word an agent at rest may still end its turn by itself."""
_REASONS: dict[Status, StopReason] = {
    Status.COMPLETED: "end_turn",
    Status.EMPTY: "end_turn",
    Status.LIMIT_REACHED: "max_turn_requests",
    Status.TIMED_OUT: "max_turn_requests",
    Status.CANCELLED: "cancelled",
}
_STOPS: dict[str, StopReason] = {
    **dict.fromkeys(("max_tokens", "length", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("refusal", "content_filter"), "refusal"),
}


class Prompt:
    """One prompt that waits for its answer."""

    def __init__(self) -> None:
        self.over: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self.heard = False
        self.cancelled = False

    def end(self, reason: StopReason) -> None:
        """Answer it, if it is not answered yet."""
        if not self.over.done():
            self.over.set_result("cancelled" if self.cancelled else reason)

    def fail(self, why: str) -> None:
        """Answer it with an error, unless the person has cancelled it."""
        if self.cancelled:
            self.end("cancelled")
        elif not self.over.done():
            self.over.set_exception(RequestError(INTERNAL_ERROR, why))


class Prompts:
    """The prompts of one session that wait for their answers."""

    def __init__(self) -> None:
        self._waiting: list[Prompt] = []
        self._stop: StopReason = "end_turn"
        self._resting: asyncio.TimerHandle | None = None

    def begin(self) -> Prompt:
        """One more."""
        prompt = Prompt()
        self._waiting.append(prompt)
        return prompt

    def forget(self, prompt: Prompt) -> None:
        """Nobody waits for it any more."""
        if prompt in self._waiting:
            self._waiting.remove(prompt)

    def cancel(self) -> None:
        """A person has cancelled all of them."""
        for prompt in self._waiting:
            prompt.cancelled = True

    def fail(self, why: str) -> None:
        """Nobody hears any more what becomes of them."""
        for prompt in list(self._waiting):
            prompt.fail(why)

    def end(self) -> None:
        """Nothing runs that could answer them."""
        self._answer(self._waiting, "cancelled")

    def hear(self, event: Event, *, rests: bool, busy: bool) -> None:
        """Take in an event of the leading agent: whether it rests now, and whether others work for it."""
        match event.fact:
            case MessageAdded(UserMessage(sender="user")):
                self._rest_no_more()
                unheard = next((each for each in self._waiting if not each.heard), None)
                if unheard is not None:
                    unheard.heard = True
            case MessageAdded(AssistantMessage(stop=stop)):
                self._stop = _STOPS.get(stop, "end_turn")
                if rests:
                    self._rest(0.0 if busy else REST_SECONDS)
            case MessageAdded():
                self._rest_no_more()
            case TaskEnded() as fact:
                self._rest_no_more()
                self._ended(fact)
            case _:
                pass

    def _ended(self, fact: TaskEnded) -> None:
        if fact.status is Status.COMPLETED:
            self._answer([each for each in self._waiting if each.heard], self._stop)
        elif fact.status in _REASONS:
            self._answer(self._waiting, _REASONS[fact.status])
        else:
            self.fail(visible_line(fact.error or f"The turn ended as {fact.status}.", 2_000))

    def _answer(self, prompts: list[Prompt], reason: StopReason) -> None:
        for prompt in list(prompts):
            prompt.end(reason)

    def _rest(self, seconds: float) -> None:
        self._rest_no_more()
        heard = [each for each in self._waiting if each.heard]
        loop = asyncio.get_running_loop()
        self._resting = loop.call_later(seconds, self._answer, heard, self._stop)

    def _rest_no_more(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
