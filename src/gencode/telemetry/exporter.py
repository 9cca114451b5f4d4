"""Exports spans and metrics with the OpenTelemetry SDK; loaded only when telemetry is on.

If the program has set up OpenTelemetry, its providers are used. Otherwise we create our own, which nobody
else sees and which end with us. They send in their own threads, so a slow or missing collector does not
delay the agents.
"""

import os
import threading
from collections.abc import Mapping
from importlib.metadata import version
from typing import Protocol

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.propagate import extract
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gencode.telemetry.spans import Span, nanoseconds

NAME = "gencode"
GIVE_UP_SECONDS = 0.5
"""How long the sending threads have to end after their exporters were shut down."""
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304)
SECOND_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_SHARED = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")
_KINDS = {"chat": SpanKind.CLIENT}


class Closable(Protocol):
    """A tracer or meter provider of our own, or one of its exporters."""

    def shutdown(self) -> None:
        """Send the rest, and close."""
        ...


class FixedIds(IdGenerator):
    """An id generator that returns the ids a `SpanBuilder` has computed."""

    def __init__(self) -> None:
        self.span = 0
        self.trace = 0

    def generate_span_id(self) -> int:
        """The id of the next span."""
        return self.span

    def generate_trace_id(self) -> int:
        """The id of the next trace."""
        return self.trace


class OtelExporter:
    """Exports finished spans and records token, duration and cost metrics."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._providers: list[Closable] = []
        self._exporters: list[Closable] = []
        self._ids = FixedIds()
        provider = trace.get_tracer_provider()
        self._tracer = (
            provider if isinstance(provider, TracerProvider) else self._tracer_provider()
        ).get_tracer(NAME)
        if isinstance(self._tracer, Tracer):
            self._tracer.id_generator = self._ids
        meters = metrics.get_meter_provider()
        meter = (meters if isinstance(meters, MeterProvider) else self._meter_provider()).get_meter(NAME)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a model call",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "How long a model call took",
            explicit_bucket_boundaries_advisory=SECOND_BUCKETS,
        )
        self._usd = meter.create_counter("gencode.cost.usd", "{USD}", "What model calls cost")
        self._caller = _caller(os.environ if environ is None else environ)

    def export(self, span: Span) -> None:
        """Export a finished span."""
        self._ids.span, self._ids.trace = span.id, span.trace
        exported = self._tracer.start_span(
            span.name,
            self._parent_context(span),
            _KINDS.get(span.operation, SpanKind.INTERNAL),
            span.attributes,
            [Link(self._caller)] if self._caller is not None and span.operation == "session" else None,
            nanoseconds(span.began),
        )
        for at in span.again:
            exported.add_event("asked again", timestamp=nanoseconds(at))
        if span.error:
            exported.set_attribute("error.type", span.error)
            exported.set_status(Status(StatusCode.ERROR))
        exported.end(nanoseconds(span.ended))
        if span.operation == "chat":
            self._record_metrics(span)

    def close(self, seconds: float) -> None:
        """Send the rest, for so long at most; after that, retries are dropped."""

        def shut() -> None:
            for provider in self._providers:
                provider.shutdown()

        ending = threading.Thread(target=shut, daemon=True)
        ending.start()
        ending.join(seconds)
        if ending.is_alive():
            for exporter in self._exporters:
                exporter.shutdown()
            ending.join(GIVE_UP_SECONDS)

    def _parent_context(self, span: Span) -> Context:
        """The context of a span: its parent, sampled or not like the whole trace."""
        if not span.parent:
            return Context()
        flags = TraceFlags(TraceFlags.SAMPLED if self._sampled(span) else TraceFlags.DEFAULT)
        above = SpanContext(span.trace, span.parent, is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(NonRecordingSpan(above), Context())

    def _sampled(self, span: Span) -> bool:
        if not isinstance(self._tracer, Tracer):
            return True
        said = self._tracer.sampler.should_sample(Context(), span.trace, "session")
        return said.decision.is_sampled()

    def _record_metrics(self, span: Span) -> None:
        words = {name: span.attributes[name] for name in _SHARED if name in span.attributes}
        self._seconds.record(span.seconds, {**words, **({"error.type": span.error} if span.error else {})})
        if span.usage is None:
            return
        for kind, tokens in (("input", span.usage.input_tokens), ("output", span.usage.output_tokens)):
            self._tokens.record(tokens, {**words, "gen_ai.token.type": kind})
        if span.usage.usd:
            self._usd.add(span.usage.usd, words)

    def _tracer_provider(self) -> TracerProvider:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        if os.environ.get("OTEL_TRACES_EXPORTER") != "none":
            exporter = OTLPSpanExporter()
            self._exporters.append(exporter)
            provider.add_span_processor(BatchSpanProcessor(exporter))
        self._providers.append(provider)
        return provider

    def _meter_provider(self) -> MeterProvider:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        readers: list[PeriodicExportingMetricReader] = []
        if os.environ.get("OTEL_METRICS_EXPORTER") != "none":
            exporter = OTLPMetricExporter()
            self._exporters.append(exporter)
            readers.append(PeriodicExportingMetricReader(exporter))
        provider = MeterProvider(readers, resource=_resource(), shutdown_on_exit=False)
        self._providers.append(provider)
        return provider


def _caller(environ: Mapping[str, str]) -> SpanContext | None:
    """The span of our caller: the current one of the program, or that of `TRACEPARENT`."""
    here = trace.get_current_span().get_span_context()
    if not here.is_valid and (said := environ.get("TRACEPARENT")):
        here = trace.get_current_span(extract({"traceparent": said})).get_span_context()
    return here if here.is_valid else None


def _resource() -> Resource:
    said = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in said
    words = {"service.version": version("gencode-ai")}
    return Resource.create(words if named else {"service.name": NAME, **words})
