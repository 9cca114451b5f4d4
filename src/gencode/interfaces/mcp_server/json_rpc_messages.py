"""Messages of JSON-RPC as a client sends them, and what is said about what is none (MCP server)."""

import mcp_types as types
from msgspec import Struct
from pydantic import ValidationError

from gencode.interfaces.json_rpc import Id, id_in, roughly

NO_JSON = "json_invalid"
ANSWERS = ("result", "error")


class Wrong(Struct, frozen=True):
    """What is to be said about something that is no message."""

    code: int
    why: str
    id: Id = None
    is_answer: bool = False

    def answer(self) -> types.JSONRPCError:
        """The answer to whoever sent it."""
        error = types.ErrorData(code=self.code, message=self.why)
        return types.JSONRPCError(jsonrpc="2.0", id=self.id, error=error)


def understood(content: bytes, called: str) -> types.JSONRPCMessage | Wrong:
    """The message that was sent; it is `called` a line, or what else it came as, when it is none."""
    meant = roughly(content) or {}
    found = id_in(meant.get("id"))
    answers = found is not None and "method" not in meant and not meant.keys().isdisjoint(ANSWERS)
    try:
        message = types.jsonrpc_message_adapter.validate_json(content, by_name=False)
    except ValidationError as error:
        if any(each["type"] == NO_JSON for each in error.errors(include_url=False, include_input=False)):
            return Wrong(types.PARSE_ERROR, f"This {called} is not JSON.", found, answers)
        return Wrong(types.INVALID_REQUEST, f"This {called} is no JSON-RPC message.", found, answers)
    if "id" in meant and "method" in meant and found is None:
        return Wrong(types.INVALID_REQUEST, "The id of a request is a text or a whole number.")
    return message
