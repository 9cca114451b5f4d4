"""What both MCP transports share: parsing of messages, and the orderly shutdown of the server."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

import mcp_types as types
from msgspec import Struct
from pydantic import ValidationError

from gencode.interfaces.cli.foreground_run import tell_stopped
from gencode.interfaces.json_rpc import Id, decode_leniently, id_in
from gencode.interfaces.mcp_server.workspaces import ClientWorkspaces

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NO_JSON = "json_invalid"
RESPONSE_FIELDS = ("result", "error")


class InvalidMessage(Struct, frozen=True):
    """Why something is not a message; `is_response`: it was meant to answer a request of ours."""

    code: int
    why: str
    id: Id = None
    is_response: bool = False

    def error_response(self) -> types.JSONRPCError:
        """The response to its sender."""
        error = types.ErrorData(code=self.code, message=self.why)
        return types.JSONRPCError(jsonrpc="2.0", id=self.id, error=error)


def parse_message(content: bytes, called: str) -> types.JSONRPCMessage | InvalidMessage:
    """The message in a line or a body, whichever it is `called`."""
    guessed = decode_leniently(content) or {}
    found = id_in(guessed.get("id"))
    is_response = (
        found is not None and "method" not in guessed and not guessed.keys().isdisjoint(RESPONSE_FIELDS)
    )
    try:
        message = types.jsonrpc_message_adapter.validate_json(content, by_name=False)
    except ValidationError as error:
        if any(each["type"] == NO_JSON for each in error.errors(include_url=False, include_input=False)):
            return InvalidMessage(types.PARSE_ERROR, f"This {called} is not valid JSON.", found, is_response)
        why = f"This {called} is not a JSON-RPC message."
        return InvalidMessage(types.INVALID_REQUEST, why, found, is_response)
    if "id" in guessed and "method" in guessed and found is None:
        why = "The id of a request must be a string or an integer."
        return InvalidMessage(types.INVALID_REQUEST, why)
    return message


class Shutdown:
    """When the server stops, and with which exit code. The tasks it stops are reported first, once."""

    def __init__(self, workspaces: ClientWorkspaces) -> None:
        self._workspaces = workspaces
        self.begun = asyncio.Event()
        self.code = 0

    def begin(self) -> None:
        """Stop the server in order."""
        if not self.begun.is_set():
            self.begun.set()
            for gen in self._workspaces.all_open():
                tell_stopped(gen)

    def on_signal(self, number: int) -> None:
        """Stop because of a signal; a second one exits at once."""
        if self.code:
            os._exit(self.code)
        self.code = 128 + number
        self.begin()


@contextmanager
def signal_handlers(on_signal: Callable[[int], None]) -> Generator[None, None, None]:
    """Handle signals inside of this block; one that the parent process ignores stays ignored."""
    loop = asyncio.get_running_loop()
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
