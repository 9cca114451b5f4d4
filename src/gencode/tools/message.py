"""message and notify: send a message through a channel, or show the user a notice."""

from typing import Annotated

from gencode.agent.messaging import Messaging
from gencode.agent.toolbox import Param, Tool, ToolContext, tool
from gencode.channels.address import address
from gencode.channels.outbox import LONGEST, OutgoingMessage
from gencode.core.errors import ToolError
from gencode.core.text import one_line


def message(messaging: Messaging | None) -> Tool:
    """The tool message over the channels of a session."""

    @tool(effect="write", name="message", on_request=True)
    async def run(
        ctx: ToolContext,
        content: Annotated[str, Param("What to say", also=("text", "message"))],
        channel: Annotated[str, "The channel; default: the user's"] = "",
        chat_id: Annotated[
            str, Param("The recipient in that channel; default: the user", also=("chat", "chatId"))
        ] = "",
    ) -> str:
        """Send a message through a channel: to the user at once, or to a chat elsewhere. It does not replace
        your answer, which the user gets anyway.
        """
        if messaging is None:
            raise ToolError("Messages cannot be sent in this run.")
        if not content.strip():
            raise ToolError("The content is empty; say what to send.")
        if len(content) > LONGEST:
            raise ToolError(f"The content is longer than {LONGEST:,} characters; send less.")
        origin = messaging.origin(ctx.task)
        name = channel or origin.channel
        own = name.strip().casefold() in (origin.channel, "terminal" if origin.channel == "cli" else "")
        if not chat_id and not own:
            raise ToolError(f"Set chat_id to the recipient in {name}.")
        to = address(name, chat_id or origin.chat)
        why = await messaging.outbox.send(OutgoingMessage(to, content, ctx.task))
        if why:
            return f"The message to {to} could not be delivered yet and will be retried: {why}"
        return f"The message was delivered to {to}."

    return run


LONGEST_NOTICE = 500


@tool(effect="read", name="notify", on_request=True)
async def NOTIFY(
    ctx: ToolContext,
    message: Annotated[str, Param("One line, at most 500 characters", also=("text", "content"))],
) -> str:
    """Show the user one line about a milestone while you work. It does not replace your answer."""
    line = one_line(message, LONGEST_NOTICE)
    if not line:
        raise ToolError("The message is empty; say in one line what the user should know.")
    ctx.notify(line)
    return "The user was notified."
