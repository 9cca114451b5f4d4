"""The scripted model: replays a JSON file, for demos and tests.

{"agents": {"main": [turn, …], "Explore": [turn, …], "*": [turn, …]}}, a turn being
{"text": "…", "calls": [{"name": "Task", "input": {…}}], "delay_ms": 0, "error": "rate_limit"}.
It keeps no state: the place in an agent's list is the number of replies in its transcript. Summaries of long
conversations are the first turn of "summary"; without that list GenCode writes them.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    Part,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
)
from gencode.core.spec import same_name
from gencode.core.text import counted

SUMMARY = "summary"
RETRYABLE = {"rate_limit", "overloaded", "server_error", "timeout"}


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call in a scripted turn."""

    name: str
    input: dict[str, Any] = {}


class ScriptedUsage(Usage, frozen=True, forbid_unknown_fields=True):
    """The usage of a turn; unknown names are an error, as they would count nothing."""


class ScriptedTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """One scripted reply."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    delay_ms: float = 0
    error: str = ""
    usage: ScriptedUsage | None = None


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """Turns for each agent by name; `*` is for all others."""

    agents: dict[str, tuple[ScriptedTurn, ...]]


class ScriptedProvider:
    """Plays a script; every agent instance plays its own list from the start."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._turns = {same_name(agent): turns for agent, turns in script.agents.items()}
        self._name = name

    @classmethod
    def of(cls, agents: Mapping[str, Sequence[Mapping[str, Any]]]) -> Self:
        """A script written in Python, in the same form as the file."""
        return cls(msgspec.convert(msgspec.to_builtins({"agents": agents}), Script))

    @classmethod
    def load(cls, file: str) -> "ScriptedProvider":
        """A script from a file."""
        path = Path(file).expanduser()
        try:
            return cls(msgspec.json.decode(path.read_bytes(), type=Script), f"scripted:{file}")
        except OSError as error:
            raise UserMistake(f"The script {file} cannot be read: {error.strerror}.") from None
        except msgspec.MsgspecError as error:
            raise UserMistake(f"The script {file} is not in the form of a script: {error}.") from None

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Play the next turn of this agent's list."""
        number, turn = self._next(request)
        if turn.delay_ms:
            await asyncio.sleep(turn.delay_ms / 1000)
        for piece in re.findall(r"\S+\s*|\s+", turn.text):
            yield TextPart(piece)
        if turn.error:
            message = f"{self._name} answered with the scripted error {turn.error!r}"
            raise ProviderError(message, retryable=turn.error in RETRYABLE)
        for place, call in enumerate(turn.calls):
            yield CallPart(ToolCall(f"call_{number}_{place}", call.name, call.input))
        usage = Usage() + turn.usage if turn.usage else None
        yield EndPart(self._name, "tool_use" if turn.calls else "end_turn", usage)

    def _next(self, request: Request) -> tuple[int, ScriptedTurn]:
        if request.sums_up:
            if not (turns := self._turns.get(SUMMARY)):
                raise ProviderError(f"{self._name} has no turn for a summary.")
            return 0, turns[0]
        turns = self._turns.get(same_name(request.agent), self._turns.get("*"))
        if turns is None:
            raise ProviderError(
                f"{self._name} has no turns for the agent {request.agent!r} and none for '*'."
            )
        place = _place(request.messages, len(turns))
        if (
            place == len(turns)
            and turns
            and not (turns[-1].text.strip() or turns[-1].calls or turns[-1].error)
        ):
            place -= 1  # an empty reply is repeated when it is asked for again
        if place >= len(turns):
            count = counted(len(turns), "turn")
            raise ProviderError(
                f"{self._name} has only {count} for the agent {request.agent!r}; all are played."
            )
        return place, turns[place]


def _place(messages: Sequence[Message], length: int) -> int:
    """How many turns were played; a new word of the user starts a list that is used up again."""
    played = 0
    for message in messages:
        if isinstance(message, AssistantMessage):
            played += 1
        elif isinstance(message, UserMessage) and message.replaces:
            played += message.replaces
        elif isinstance(message, UserMessage) and message.sender == "user" and played >= length:
            played = 0
    return played
