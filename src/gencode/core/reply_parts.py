"""The parts of a reply, in the order in which they come (runtime)."""

from msgspec import Struct

from gencode.core.messages import ToolCall, Usage
from gencode.core.reasons import WaitFor


class TextPart(Struct, frozen=True):
    """Some more of the answer."""

    text: str


class ThinkingPart(Struct, frozen=True):
    """Some more of the reasoning; the last piece of a block carries its signature."""

    text: str
    signature: str = ""


class CallPart(Struct, frozen=True):
    """One whole tool call."""

    call: ToolCall


class AgainPart(Struct, frozen=True):
    """What was said of this reply so far is void: it broke off and is asked for anew."""

    why: str


class WaitPart(Struct, frozen=True):
    """The model is not asked yet, for this reason; with `note` a person is to see that at once.

    Who is stopped now has cost nothing with this request, until the wait is `over`. Without a reason nobody
    needs to hear of it.
    """

    why: str = ""
    note: bool = False
    over: bool = False
    waits_for: WaitFor = WaitFor.MODEL


class EndPart(Struct, frozen=True):
    """The reply is whole: who really answered, why it stopped, what it cost (None: not applicable)."""

    model: str
    stop: str = ""
    usage: Usage | None = None


Part = TextPart | ThinkingPart | CallPart | AgainPart | WaitPart | EndPart
