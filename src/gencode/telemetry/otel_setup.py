"""Switches telemetry on from settings and environment. Off, this costs one look at the environment.

On, a listener hears facts like every screen does and hands finished spans on; the loop knows nothing of it.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gencode.agent.trace_settings import ENDPOINTS, installed
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
"""Seconds that closing waits at most for a collector."""


class Telemetry:
    """Exports telemetry while it is entered, if that is switched on.

    `wanted` is the setting. An endpoint in the environment switches it on as well, where the extra is there:
    it may have been meant for other programs.
    """

    def __init__(self, wanted: bool, content: bool = False, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        named = any(environ.get(name) for name in ENDPOINTS)
        disabled = environ.get("OTEL_SDK_DISABLED", "").casefold() == "true"
        self.on = (wanted or named) and not disabled
        if self.on and not installed():
            if wanted:
                raise UserMistake(
                    f"The setting telemetry needs an extra; install it with: {installing('otel')}"
                )
            self.on = False
        self._content = content or environ.get(CONTENT, "").casefold() == "true"
        self._exporting: OtelExporter | None = None
        self._listener: EventListener | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Telemetry":
        if self.on:
            from gencode.telemetry.exporter import OtelExporter

            self._exporting = OtelExporter()
        return self

    def follow(self, bus: EventBus, facts: "TaskSource", elsewhere: Callable[[str], bool]) -> None:
        """Hear everything from now on but what `elsewhere` says that another process does."""
        if self._exporting is None:
            return
        from gencode.telemetry.spans import SpanBuilder

        self._listener = bus.listen(ROOM)
        story = SpanBuilder(facts, elsewhere, content=self._content)
        self._hearing = asyncio.create_task(_hear(self._listener, story, self._exporting))

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None and self._hearing is not None:
            self._listener.close()
            await asyncio.wait([self._hearing])
            if not self._hearing.cancelled() and (fault := self._hearing.exception()) is not None:
                log.error("telemetry ended by a fault of its own", exc_info=fault)
        if self._exporting is not None:
            await asyncio.to_thread(self._exporting.close, PATIENCE)


async def _hear(listener: EventListener, story: "SpanBuilder", exporting: "OtelExporter") -> None:
    async for event in listener:
        try:
            spans = await story.hear(event)
        except GenCodeError as trouble:
            log.warning("a fact of task %s could not be told: %s", event.task, trouble)
            continue
        for span in spans:
            exporting.tell(span)
