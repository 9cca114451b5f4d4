"""The error boundary of user actions: an unexpected error is logged and shown, and the app goes on.

Textual ends the whole app when a handler raises. That stays so for what draws the screen, where the next
frame would fail again; for a key, a click or a choice in a list it is one action that did not work.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from textual import events, messages
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump

from gencode.interfaces.chat.notices import Notice, report_errors

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode


def is_user_action(message: Message) -> bool:
    """Whether a message comes from a person: a key, the mouse, or what a widget makes of these."""
    if isinstance(message, events.Event):
        return isinstance(message, events.InputEvent | events.Paste)
    return type(message).__module__ != messages.__name__  # those are Textual's own: to draw, to lay out


class ErrorBoundary(MessagePump):
    """A screen, a widget or the app whose handlers of a person's actions may fail without ending anything."""

    async def _dispatch_message(self, message: Message) -> None:
        dispatched = super()._dispatch_message(message)
        if is_user_action(message):
            await report_errors(dispatched, self._report_error)
        else:
            await dispatched

    def _report_error(self, notice: Notice) -> None:
        app = cast("object", self.app)  # pyright: ignore[reportUnknownMemberType]
        if isinstance(app, ErrorBoundaryApp):
            app.show_notice(notice)


class ErrorBoundaryApp(ErrorBoundary, App[None]):
    """An app that shows what failed."""

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: "DOMNode | None" = None,
        namespaces: "Mapping[str, DOMNode] | None" = None,
    ) -> bool:
        """Do what a key stands for; one that fails unexpectedly was dealt with too, and is told."""
        handled = [True]

        async def act() -> None:
            handled[0] = await super(ErrorBoundaryApp, self).run_action(action, default_namespace, namespaces)

        await report_errors(act(), self.show_notice)
        return handled[0]

    def show_notice(self, notice: Notice) -> None:
        """Show a line for a while."""
        raise NotImplementedError
