"""Switches telemetry on from settings and environment. When off, nothing of it is loaded.

When on, it listens to events like every screen does, and exports spans as they end; the loop is not involved.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gencode.agent.trace_settings import installed, is_wanted
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.extras import installing
from gencode.journal.event_bus import EventBus, EventListener

if TYPE_CHECKING:
    from gencode.telemetry.exporter import OtelExporter
    from gencode.telemetry.spans import SpanBuilder, TaskSource

log = logging.getLogger(__name__)

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ROOM = 16_384
PATIENCE = 1.0
"""The longest wait for a collector when closing, in seconds."""


class Telemetry:
    """Exports telemetry while it is entered, if it is switched on.

    `wanted` is the setting. An endpoint in the environment switches it on too, if the extra is installed: it
    may be meant for other programs.
    """

    def __init__(self, wanted: bool, content: bool = False, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self.on = is_wanted(wanted, environ)
        if self.on and not installed():
            if wanted:
                raise UserMistake(
                    f"The setting telemetry needs an extra. To install it: {installing('otel')}"
                )
            self.on = False
        self._content = content or environ.get(CONTENT, "").casefold() == "true"
        self._exporter: OtelExporter | None = None
        self._listener: EventListener | None = None
        self._exporting_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Telemetry":
        if self.on:
            from gencode.telemetry.exporter import OtelExporter

            self._exporter = OtelExporter()
        return self

    def follow(self, bus: EventBus, facts: "TaskSource", elsewhere: Callable[[str], bool]) -> None:
        """Export all events from now on, except of tasks that run in another process (`elsewhere`)."""
        if self._exporter is None:
            return
        from gencode.telemetry.spans import SpanBuilder

        self._listener = bus.listen(ROOM)
        builder = SpanBuilder(facts, elsewhere, content=self._content)
        self._exporting_task = asyncio.create_task(_export(self._listener, builder, self._exporter))
        self._exporting_task.add_done_callback(_log_bug)

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None and self._exporting_task is not None:
            self._listener.close()
            await asyncio.wait([self._exporting_task])
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.close, PATIENCE)


async def _export(listener: EventListener, builder: "SpanBuilder", exporter: "OtelExporter") -> None:
    async for event in listener:
        try:
            spans = await builder.add(event)
        except GenCodeError as trouble:
            log.warning("an event of task %s could not be exported: %s", event.task, trouble)
            continue
        for span in spans:
            exporter.export(span)


def _log_bug(exporting: "asyncio.Task[None]") -> None:
    if not exporting.cancelled() and (bug := exporting.exception()) is not None:
        log.error("telemetry has stopped because of a bug", exc_info=bug)
